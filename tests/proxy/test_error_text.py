"""Reasons in the log: no exception leaves one empty."""

import ast
import asyncio
import errno
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.channel import ChannelClosedError, PacketChannel
from proxy.error_text import error_text
from proxy.server.errors import unreachable

PROXY = Path(__file__).parents[2] / "proxy"

_MAY_BE_EMPTY = {
    "BaseException",
    "BrokenPipeError",
    "CancelledError",
    "ConnectionError",
    "ConnectionResetError",
    "EOFError",
    "Exception",
    "IncompleteReadError",
    "OSError",
    "SSLError",
    "TimeoutError",
}
"""What Python and its library raise, often without a text."""


def _kinds(found: type[BaseException]) -> Iterator[type[BaseException]]:
    yield found
    for kind in found.__subclasses__():
        if kind.__module__ in ("builtins", "asyncio.exceptions", "ssl", "socket"):
            yield from _kinds(kind)


def _without_text() -> Iterator[BaseException]:
    for kind in dict.fromkeys(_kinds(BaseException)):
        try:
            yield kind()
        except TypeError:  # it cannot be made without a text
            continue


@pytest.mark.parametrize("error", list(_without_text()), ids=lambda error: type(error).__name__)
def test_every_exception_says_something(error: BaseException) -> None:
    assert error_text(error).strip()


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(""),
        OSError(errno.ECONNRESET, ""),
        asyncio.IncompleteReadError(b"", 4),
        ssl.SSLError(),
        ssl.SSLEOFError(8, ""),
        socket.gaierror(socket.EAI_NONAME, ""),
        ConnectionError(" \n"),
        OSError(errno.EMFILE, ""),
    ],
)
def test_and_empty_texts_are_none(error: Exception) -> None:
    assert error_text(error).strip()
    assert str(unreachable(error)).strip()


def test_what_says_something_is_left_alone() -> None:
    assert error_text(OSError("no such host")) == "no such host"
    assert error_text(TimeoutError()) == "no answer in time"
    assert error_text(OSError(errno.EHOSTUNREACH, "")) == "No route to host"


class _Idle(asyncio.Transport):
    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None:
        pass

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default


def test_a_broken_connection_says_why() -> None:
    async def read() -> None:
        channel = PacketChannel(1 << 20)
        channel.connection_made(_Idle())
        reader = asyncio.ensure_future(channel.read_packet())
        await asyncio.sleep(0)
        channel.connection_lost(ConnectionResetError())
        await reader

    with pytest.raises(ChannelClosedError, match="reset"):
        asyncio.run(read())


def _names(node: ast.expr | None) -> set[str]:
    """The exceptions that an `except` names."""
    if node is None:
        return set()
    return {
        found.attr if isinstance(found, ast.Attribute) else found.id
        for found in ast.walk(node)
        if isinstance(found, ast.Attribute | ast.Name)
    }


def _texts(handler: ast.ExceptHandler) -> Iterator[int]:
    """Lines of a handler that make a text from the exception without `error_text`."""

    def is_error(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == handler.name

    for node in ast.walk(handler):
        if isinstance(node, ast.FormattedValue) and is_error(node.value):
            yield node.lineno
        if isinstance(node, ast.Call) and any(map(is_error, node.args)):
            called = ast.unparse(node.func)
            if called == "str" or called.startswith("_log."):
                yield node.lineno


@pytest.mark.parametrize("path", sorted(PROXY.rglob("*.py")), ids=lambda p: str(p.name))
def test_no_reason_is_made_without_it(path: Path) -> None:
    handlers = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler) and _names(node.type) & _MAY_BE_EMPTY
    ]
    found = [f"{path}:{line}" for handler in handlers for line in _texts(handler)]
    assert found == []

"""What the proxy leaves to the garbage collector, which hardly ever runs in a worker."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count

from proxy.channel import PacketChannel
from proxy.client.connection import ClientConnection
from proxy.client.listener import Welcome
from proxy.client.session import ClientSession
from proxy.compressed import CompressedTransport
from proxy.server.connection import ServerConnection

_OF_CONNECTIONS = (
    *(ClientSession, Welcome, ClientConnection, ServerConnection),
    *(PacketChannel, CompressedTransport),
)
_PROXYS = ("proxy.", "uvloop.loop", "ssl")
_OTHERS = ("mysql_mocker.", "sqlglot.", "tests.", "asyncio.streams.")
"""Whose cycles are no concern of the proxy, though parts of it hang on them."""
_TESTS_PER_CLEANING = 32
"""A test leaves some MB behind: its cluster, in cycles and frozen."""
_NUMBERS = count()


@contextmanager
def judged() -> Iterator[None]:
    """Fail if objects of the proxy's, dropped inside this block, wait for the collector.

    The collector does not run inside. Objects that are older do not count: they are frozen, and
    stay so for some tests, since a look at all objects may take longer than a test.
    """
    outermost = gc.isenabled()
    if outermost and next(_NUMBERS) % _TESTS_PER_CLEANING == 0:
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
        found = sorted({_name(type(value)) for value in _cycles()})
    finally:
        if outermost:
            gc.enable()
    assert not found, f"only the collector can free these: {', '.join(found)}"


def living() -> list[object]:
    """Objects of single connections that were made inside the block and are not freed yet."""
    return [value for value in gc.get_objects() if isinstance(value, _OF_CONNECTIONS)]


def _cycles() -> list[object]:
    """Objects of the proxy's in cycles, and what hangs on these."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    garbage = {id(value): value for value in gc.garbage}
    gc.garbage.clear()
    others = {key: value for key, value in garbage.items() if _is_of_others(type(value))}
    while others:
        for key in others:
            del garbage[key]
        behind = gc.get_referents(*others.values())
        others = {id(value): value for value in behind if id(value) in garbage}
    return [value for value in garbage.values() if _name(type(value)).startswith(_PROXYS)]


@cache
def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@cache
def _is_of_others(kind: type) -> bool:
    return _name(kind).startswith(_OTHERS)

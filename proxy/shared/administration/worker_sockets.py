"""The sockets at which workers answer questions about themselves, in the state directory.

Only the proxy's own user may use them. Whoever asks, another worker or the metrics server in the
supervisor's process, asks all at once, and takes a worker that does not answer in time for silent.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import TYPE_CHECKING, Final

from protocol.errors import MalformedPacketError
from proxy.error_text import error_text
from proxy.shared.administration.question import (
    LENGTH,
    MOST_ANSWERED,
    MOST_ASKED,
    Answer,
    Question,
    parse_length,
)
from proxy.state.shared_names import PLAIN
from proxy.state.socket_folder import SocketFolder

if TYPE_CHECKING:
    from asyncio import AbstractServer, StreamReader, StreamWriter
    from collections.abc import Awaitable, Callable, Collection, Mapping
    from pathlib import Path

    from proxy.state.shared_names import SharedNames

_log = logging.getLogger(__name__)

WITHIN_S: Final = 2.0
"""How long a worker may take to ask, or to answer another worker."""
_BACKLOG: Final = 128


class WorkerSockets:
    """The directory with the workers' sockets, for one worker or for the supervisor."""

    def __init__(self, folder: Path, names: SharedNames = PLAIN) -> None:
        """Open the directory.

        Raises:
            StateError: it cannot be opened.
        """
        self._folder = SocketFolder(folder)
        self._names = names
        self._server: AbstractServer | None = None

    async def listen(self, worker: int, answer: Callable[[Question], Awaitable[Answer]]) -> None:
        """Answer as this worker.

        Raises:
            StateError: no socket can be made in the directory.
        """
        self._server = await self._folder.listen(
            self._names.admin_socket(worker),
            lambda reader, writer: self._serve(answer, reader, writer),
            _BACKLOG,
        )

    def close(self) -> None:
        """Answer no more, and ask no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._folder.close()

    async def _serve(
        self,
        answer: Callable[[Question], Awaitable[Answer]],
        reader: StreamReader,
        writer: StreamWriter,
    ) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                length = parse_length(await reader.readexactly(LENGTH.size), MOST_ASKED)
                question = Question.parse(await reader.readexactly(length))
            writer.write((await answer(question)).serialise(question.room))
        except (OSError, asyncio.IncompleteReadError, MalformedPacketError) as error:
            _log.warning("a question to this worker broke off: %s", error_text(error))
        finally:
            writer.close()

    async def ask(self, workers: Collection[int], question: Question) -> dict[int, Answer | None]:
        """Ask these workers at once; None for one that does not answer."""
        sent = question.serialise()
        answers = await asyncio.gather(*(self._ask(worker, sent) for worker in workers))
        return dict(zip(workers, answers, strict=True))

    async def _ask(self, worker: int, sent: bytes) -> Answer | None:
        writer: StreamWriter | None = None
        try:
            async with asyncio.timeout(WITHIN_S):
                reader, writer = await asyncio.open_unix_connection(
                    self._folder.path(self._names.admin_socket(worker)), limit=MOST_ANSWERED
                )
                writer.write(sent)
                length = parse_length(await reader.readexactly(LENGTH.size), MOST_ANSWERED)
                return Answer.parse(await reader.readexactly(length))
        except (OSError, asyncio.IncompleteReadError, MalformedPacketError) as error:
            _note(worker, error)
            return None
        finally:
            if writer is not None:
                writer.close()

    def ask_blocking(
        self, workers: Collection[int], question: Question
    ) -> Mapping[int, Answer | None]:
        """The same, for threads that have no event loop."""
        deadline = time.monotonic() + question.within
        sent = question.serialise()
        sockets = {worker: self._send(worker, sent, deadline) for worker in workers}
        return {
            worker: None if asked is None else _receive(worker, asked, deadline)
            for worker, asked in sockets.items()
        }

    def _send(self, worker: int, sent: bytes, deadline: float) -> socket.socket | None:
        asked = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            asked.settimeout(max(0.001, deadline - time.monotonic()))
            asked.connect(self._folder.path(self._names.admin_socket(worker)))
            asked.sendall(sent)
        except OSError as error:
            _note(worker, error)
            asked.close()
            return None
        return asked


def _note(worker: int, error: BaseException) -> None:
    """Log why a worker does not answer; one that does not run is logged by the supervisor."""
    gone = isinstance(error, ConnectionError | FileNotFoundError)
    level = logging.DEBUG if gone else logging.WARNING
    _log.log(level, "worker %d does not answer: %s", worker, error_text(error))


def _receive(worker: int, asked: socket.socket, deadline: float) -> Answer | None:
    try:
        with asked:
            length = parse_length(_exactly(asked, LENGTH.size, deadline), MOST_ANSWERED)
            return Answer.parse(_exactly(asked, length, deadline))
    except (OSError, EOFError, MalformedPacketError) as error:
        _note(worker, error)
        return None


def _exactly(asked: socket.socket, size: int, deadline: float) -> bytes:
    """Read so many bytes.

    Raises:
        EOFError: fewer came.
        OSError: the connection broke, or the time is over.
    """
    data = bytearray()
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        asked.settimeout(left)
        received = asked.recv(size - len(data))
        if not received:
            raise EOFError
        data += received
    return bytes(data)

"""The other workers of a proxy, who are asked for sessions that are not this one's.

Each worker listens at a socket in the state directory, which only its own user may use. One
connection carries one inquiry (`proxy.killing.inquiry`): so a worker that dies is known by its
end, and answers need not be told apart.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from protocol.errors import MalformedPacketError
from proxy import tasks
from proxy.killing import inquiry as wire
from proxy.killing.inquiry import GONE, Inquiry
from proxy.state.sqlite_file import StateError

if TYPE_CHECKING:
    from asyncio import AbstractServer, StreamReader, StreamWriter
    from collections.abc import Awaitable, Callable

    from proxy.observe.metrics import Metrics

    Answer = Callable[[Inquiry], Awaitable[int | None]]

_log = logging.getLogger(__name__)

_BACKLOG: Final = 4096
"""Inquiries that may come at once; Linux takes no more unless it is told to."""
_SILENT: Final = -1
"""In place of a thread: a worker that is there does not answer."""


class OtherWorkers:
    """Those of one worker, and the socket at which it answers them."""

    def __init__(
        self, folder: Path, workers: int, worker: int, within: float, metrics: Metrics
    ) -> None:
        """Nobody listens yet.

        Args:
            folder: the state directory.
            workers: how many there are.
            worker: the number of this one, from 0.
            within: how long one may take to answer, s.
            metrics: count who does not.
        """
        self._folder = folder
        self._worker = worker
        self._others = [number for number in range(workers) if number != worker]
        self._within = within
        self._metrics = metrics
        self._answer: Answer | None = None
        self._server: AbstractServer | None = None
        self._folder_fd = -1

    async def start(self, answer: Answer) -> None:
        """Listen; `answer` gives the thread of a session here, `GONE`, or None if there is none.

        Raises:
            StateError: there can be no socket in the directory.
        """
        self._answer = answer
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._folder_fd = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            path = self._path(self._worker)
            with suppress(FileNotFoundError):
                path.unlink()  # an earlier one's
            listening.bind(str(path))
            path.chmod(0o600)  # nobody can connect before it listens
            self._server = await asyncio.start_unix_server(
                self._serve, sock=listening, backlog=_BACKLOG
            )
        except OSError as error:
            listening.close()
            raise StateError(
                f"state-dir {self._folder}: {error.strerror}; workers need sockets there: it must"
                " be a directory on a local disk that Tidegate may write"
            ) from error

    def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None  # the file stays: by now it may be a successor's
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1

    async def ask(self, inquiry: Inquiry) -> int | None:
        """The thread that one of the others knows; `GONE`, or None if nobody knows of any.

        Who does not answer in time is counted, and taken for one that knows of none.
        """
        try:
            sent = inquiry.serialise()
        except ValueError:  # no session has such an id, nor a server such a user
            return None
        asked = {
            tasks.start(self._ask(number, sent), f"ask worker {number}") for number in self._others
        }
        found: int | None = None
        silent = False
        try:
            while asked:
                done, asked = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
                for thread_id in [task.result() for task in done]:
                    if thread_id == _SILENT:
                        silent = True
                    elif thread_id:
                        return thread_id
                    elif thread_id == GONE:
                        found = GONE
        finally:
            for task in asked:
                task.cancel()
        if silent and found is None:
            self._metrics.kill_unanswered()
            _log.warning(
                "KILL %d: not all workers have said whether that is a client of theirs; the primary"
                " is told the id as it is",
                inquiry.connection_id,
            )
        return found

    async def _ask(self, number: int, sent: bytes) -> int | None:
        """What one says, or `_SILENT`; None, too, if it is not there: then it has no clients."""
        writer: StreamWriter | None = None
        try:
            async with asyncio.timeout(self._within):
                reader, writer = await asyncio.open_unix_connection(str(self._path(number)))
                writer.write(sent)
                return wire.parse_answer(await reader.readexactly(wire.ANSWER_SIZE))
        except (ConnectionError, FileNotFoundError, asyncio.IncompleteReadError):
            return None
        except TimeoutError:
            _log.warning("worker %d does not answer within %g s", number, self._within)
            return _SILENT
        except (OSError, MalformedPacketError) as error:
            _log.warning("worker %d does not answer: %s", number, error)
            return _SILENT
        finally:
            if writer is not None:
                writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        answer = self._answer
        try:
            async with asyncio.timeout(self._within):
                length = wire.parse_length(await reader.readexactly(wire.LENGTH.size))
                inquiry = Inquiry.parse(await reader.readexactly(length))
            if answer is not None:
                # Not within a time: a login that is under way is somebody's, too.
                writer.write(wire.serialise_answer(await answer(inquiry)))
        except (OSError, asyncio.IncompleteReadError, MalformedPacketError) as error:
            _log.warning("another worker's inquiry broke off: %s", error)
        finally:
            writer.close()

    def _path(self, number: int) -> Path:
        """Of a worker's socket; by way of the open directory, since such paths have to be short."""
        return Path("/proc/self/fd", str(self._folder_fd), f"tidegate-worker-{number}.sock")

"""Asks the other workers of a proxy about sessions that this worker does not have.

Each worker listens at a socket in the state directory, which only its own user may use. One
connection carries one inquiry (`proxy.shared.killing.inquiry`): so if a worker dies its connections
end, and answers need not name their inquiry.
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
from proxy.error_text import error_text
from proxy.shared.killing import inquiry as wire
from proxy.shared.killing.inquiry import GONE, Inquiry
from proxy.state.sqlite_file import StateError

if TYPE_CHECKING:
    from asyncio import AbstractServer, StreamReader, StreamWriter
    from collections.abc import Awaitable, Callable

    from proxy.observe.metrics import Metrics

    Answer = Callable[[Inquiry], Awaitable[int | None]]

_log = logging.getLogger(__name__)

_BACKLOG: Final = 4096
"""How many inquiries may wait to be accepted; by default Linux allows no more."""
_SILENT: Final = -1
"""In place of a thread: the worker exists, but does not answer."""


class OtherWorkers:
    """The other workers, as one worker asks them, and the socket at which it answers them."""

    def __init__(
        self, folder: Path, workers: int, worker: int, within: float, metrics: Metrics
    ) -> None:
        """Begin without listening.

        Args:
            folder: the state directory.
            workers: how many there are.
            worker: the number of this one, from 0.
            within: how long a worker may take to answer, s.
            metrics: counts KILLs for which a worker does not answer.
        """
        self._folder = folder
        self._worker = worker
        self._others = [number for number in range(workers) if number != worker]
        self.within = within
        self._metrics = metrics
        self._answer: Answer | None = None
        self._server: AbstractServer | None = None
        self._folder_fd = -1

    async def start(self, answer: Answer) -> None:
        """Listen; `answer` gives the thread of a session here, `GONE`, or None if there is none.

        Raises:
            StateError: no socket can be made in the directory.
        """
        self._answer = answer
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._folder_fd = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            path = self._path(self._worker)
            with suppress(FileNotFoundError):
                path.unlink()  # an earlier worker's
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
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None  # the file stays: by now it may be a successor's
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1

    async def ask(self, inquiry: Inquiry) -> int | None:
        """Ask all other workers; return the thread, `GONE`, or None if none has such a session.

        A worker that does not answer in time is taken to have none. If nobody else has it either,
        that is counted and logged.
        """
        try:
            sent = inquiry.serialise()
        except ValueError:  # no session has such an id, nor a server such a user
            return None
        requests = {
            tasks.start(self._ask(number, sent), f"ask worker {number}") for number in self._others
        }
        found: int | None = None
        silent = False
        try:
            while requests:
                done, requests = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
                for thread_id in [task.result() for task in done]:
                    if thread_id == _SILENT:
                        silent = True
                    elif thread_id:
                        return thread_id
                    elif thread_id == GONE:
                        found = GONE
        finally:
            for task in requests:
                task.cancel()
        if silent and found is None:
            self._metrics.kill_unanswered()
            _log.warning(
                "KILL %d: not all workers have answered whether the id is that of a client of"
                " theirs; it goes to the primary unchanged",
                inquiry.connection_id,
            )
        return found

    async def _ask(self, number: int, sent: bytes) -> int | None:
        """What one worker answers, or `_SILENT`. None if it does not run: it has no clients."""
        writer: StreamWriter | None = None
        try:
            async with asyncio.timeout(self.within):
                reader, writer = await asyncio.open_unix_connection(str(self._path(number)))
                writer.write(sent)
                return wire.parse_answer(await reader.readexactly(wire.ANSWER_SIZE))
        except (ConnectionError, FileNotFoundError, asyncio.IncompleteReadError):
            return None
        except TimeoutError:
            _log.warning("worker %d does not answer within %g s", number, self.within)
            return _SILENT
        except (OSError, MalformedPacketError) as error:
            _log.warning("worker %d does not answer: %s", number, error_text(error))
            return _SILENT
        finally:
            if writer is not None:
                writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        answer = self._answer
        try:
            async with asyncio.timeout(self.within):
                length = wire.parse_length(await reader.readexactly(wire.LENGTH.size))
                inquiry = Inquiry.parse(await reader.readexactly(length))
            if answer is not None:
                # Without a time limit, which would cancel a login that the session itself may need.
                writer.write(wire.serialise_answer(await answer(inquiry)))
        except (OSError, asyncio.IncompleteReadError, MalformedPacketError) as error:
            _log.warning("another worker's inquiry broke off: %s", error_text(error))
        finally:
            writer.close()

    def _path(self, number: int) -> Path:
        """The path of a worker's socket, by the open directory, since such paths must be short."""
        return Path("/proc/self/fd", str(self._folder_fd), f"tidegate-worker-{number}.sock")

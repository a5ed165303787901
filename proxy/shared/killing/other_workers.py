"""Asks the other workers of a proxy about sessions that this worker does not have.

Each worker listens at a socket in the state directory, which only its own user may use. One
connection carries one inquiry (`proxy.shared.killing.inquiry`): so if a worker dies its connections
end, and answers need not name their inquiry.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from protocol.errors import MalformedPacketError
from proxy import tasks
from proxy.error_text import error_text
from proxy.shared.killing import inquiry as wire
from proxy.shared.killing.inquiry import GONE, Inquiry
from proxy.state.shared_names import PLAIN
from proxy.state.socket_folder import SocketFolder

if TYPE_CHECKING:
    from asyncio import AbstractServer, StreamReader, StreamWriter
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from proxy.observe.metrics import Metrics
    from proxy.state.shared_names import SharedNames

    Answer = Callable[[Inquiry], Awaitable[int | None]]

_log = logging.getLogger(__name__)

_BACKLOG: Final = 4096
"""How many inquiries may wait to be accepted; by default Linux allows no more."""
_SILENT: Final = -1
"""In place of a thread: the worker exists, but does not answer."""


class OtherWorkers:
    """The other workers, as one worker asks them, and the socket at which it answers them."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        worker: int,
        within: float,
        metrics: Metrics,
        names: SharedNames = PLAIN,
    ) -> None:
        """Begin without listening.

        Args:
            folder: the state directory.
            workers: how many there are.
            worker: the number of this one, from 0.
            within: how long a worker may take to answer, s.
            metrics: counts KILLs for which a worker does not answer.
            names: of the sockets.
        """
        self._folder = folder
        self._names = names
        self._worker = worker
        self._others = [number for number in range(workers) if number != worker]
        self.within = within
        self._metrics = metrics
        self._answer: Answer | None = None
        self._server: AbstractServer | None = None
        self._sockets: SocketFolder | None = None

    async def start(self, answer: Answer) -> None:
        """Listen; `answer` gives the thread of a session here, `GONE`, or None if there is none.

        Raises:
            StateError: no socket can be made in the directory.
        """
        self._answer = answer
        self._sockets = SocketFolder(self._folder)
        name = self._names.kill_socket(self._worker)
        self._server = await self._sockets.listen(name, self._serve, _BACKLOG)

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None

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
        if self._sockets is None:
            return None
        try:
            async with asyncio.timeout(self.within):
                path = self._sockets.path(self._names.kill_socket(number))
                reader, writer = await asyncio.open_unix_connection(path)
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

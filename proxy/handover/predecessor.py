"""The process that hands over: it gives its sockets away, and goes once the successor accepts.

The successor connects to the control socket (`proxy.control`), and then

1. it gets the listening sockets, and the board by which this process shares wide scopes, and starts
   all but accepting clients;
2. it says that it is ready, and names its own board. This process reads that one, too, and accepts
   no clients for the moment: they wait in the queues of the sockets;
3. it accepts clients, and says so. This process closes the sockets and lets its sessions go.

Until the last step nothing has happened that cannot be taken back: if the successor dies, or says
that something failed, this process goes on accepting.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from proxy.control.connection import ControlConnection, ControlError, Message
from proxy.handover.messages import identity, read_board
from proxy.handover.step import Board, Step, StepError, StepKind
from proxy.state import scope_memory
from proxy.state.shared_names import SharedNames, remove_others
from proxy.state.sqlite_file import StateError

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.handover.callbacks import HandOverCallbacks
    from proxy.handover.state_files import StateFiles
    from proxy.handover.worker_group import WorkerGroup

_log = logging.getLogger(__name__)

_MOST_SOCKETS: Final = 100
"""In one message."""
_READY_S: Final = 600.0
"""How long a successor may take to start; one that dies is noticed at once."""
_ACCEPTS_S: Final = 30.0
"""How long it may take to accept clients, which wait meanwhile."""


class Predecessor:
    """Hands over when a successor asks for it.

    Attributes:
        ready: this process accepts clients.
        own_predecessor: the process from which this one has taken over, while that still lets its
            sessions go; 0 if there is none.
        successor: the process that takes over just now, or has done so; 0 if none does.
    """

    def __init__(
        self, files: StateFiles, workers: int, group: WorkerGroup, callbacks: HandOverCallbacks
    ) -> None:
        self.ready = False
        self.own_predecessor = 0
        self.successor = 0
        self._files = files
        self._workers = workers
        self._group = group
        self._callbacks = callbacks
        self._under_way = threading.Lock()

    def hand_over(self, connection: ControlConnection, message: Message) -> None:
        """Serve one successor; it returns when that has failed, or this process has ended.

        Raises:
            ControlError: the successor is to be told of it.
        """
        if not self._under_way.acquire(blocking=False):
            raise ControlError(f"process {self.successor} is taking over, or has done so")
        try:
            if self.own_predecessor:
                connection.send({"busy": self.own_predecessor})
                return
            folder = self._judge(connection, message)
            self.successor = pid = connection.peer_pid
            _log.info("process %d (version %s) wants to take over", pid, message.get("version"))
            try:
                self._lead(connection, folder)
            except (ControlError, StepError, StateError) as error:
                self.successor = 0
                raise ControlError(f"the take-over failed: {error}") from error
            _log.info("process %d has taken over and accepts the clients", pid)
            self._callbacks.on_leave(pid)
            connection.send({"left": 1})
            with suppress(ControlError):
                connection.receive_plain(None)  # the end of this process closes the connection
        finally:
            self._under_way.release()

    def _judge(self, connection: ControlConnection, message: Message) -> Path:
        """The state directory.

        Raises:
            ControlError: this successor cannot take over.
        """
        folder = self._files.folder
        if self._callbacks.stopping():
            raise ControlError("the proxy that runs is stopping: start this one when it has ended")
        if not self.ready:
            raise ControlError("the proxy that runs has not come up yet: try again")
        if folder is None:
            raise ControlError("the proxy that runs has no state-dir: stop it and start this one")
        if connection.peer_uid != os.geteuid():
            raise ControlError(
                f"the proxy that runs is user {os.geteuid()}'s; take over as that user"
            )
        if message.get("folder") != identity(folder):
            raise ControlError(f"the proxy that runs has another state-dir ({folder})")
        return folder

    def _lead(self, connection: ControlConnection, folder: Path) -> None:
        workers = self._workers
        board = Board(self._files.names.scopes, workers)
        if workers == 1:
            board = Board(SharedNames.of_successor().scopes, 1)
            scope_memory.make(folder, 1, board.name)
        try:
            if workers == 1:
                self._group.act(Step(StepKind.SHARE, board))
            self._give(connection, board)
            self._change_places(connection)
            self._group.leave()
        except (ControlError, StepError) as error:
            self._go_on(error, folder, board)
            raise

    def _give(self, connection: ControlConnection, board: Board) -> None:
        """Send what the successor starts with."""
        sockets = self._callbacks.sockets()
        for at in range(0, len(sockets), _MOST_SOCKETS):
            some = sockets[at : at + _MOST_SOCKETS]
            connection.send(
                {
                    "purposes": [found.purpose for found in some],
                    "addresses": [found.address for found in some],
                    "activated": [int(found.activated) for found in some],
                },
                [found.socket.fileno() for found in some],
            )
        environment = self._callbacks.environment_of(connection.peer_pid)
        connection.send({"board": board.name, "workers": board.workers, "environment": environment})

    def _change_places(self, connection: ControlConnection) -> None:
        """Accept no clients once the successor is ready; return when it accepts them."""
        ready = connection.receive_plain(_READY_S)
        self._group.act(Step(StepKind.PAUSE))
        self._group.act(Step(StepKind.LINK, read_board(ready)))
        connection.send({"paused": 1})
        answer = connection.receive_plain(_ACCEPTS_S)
        if not answer.get("accepts"):
            raise ControlError(str(answer.get("error", answer)))

    def _go_on(self, why: Exception, folder: Path, board: Board) -> None:
        """Do as if nothing had happened."""
        _log.warning("the take-over failed, and this process goes on: %s", why)
        for kind in (StepKind.UNLINK, StepKind.RESUME):
            try:
                self._group.act(Step(kind))
            except StepError as error:
                _log.error("after a take-over that failed: %s", error)
        try:  # no other proxy runs there
            scope_memory.keep_only(folder, board.name)
            remove_others(folder, self._files.names, self._workers)
        except StateError as error:
            _log.error("after a take-over that failed: %s", error)

"""The process that takes over; `predecessor` has the steps."""

from __future__ import annotations

import logging
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from proxy.control.connection import ControlConnection, ControlError, Message, connect
from proxy.handover.messages import COMMAND, identity, read_board
from proxy.handover.step import Board, Step, StepError, StepKind
from proxy.listening_sockets import OpenSocket, Purpose
from proxy.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from proxy.handover.worker_group import WorkerGroup

_log = logging.getLogger(__name__)

_BUSY_S: Final = 0.5
"""How long it waits before it asks again a process that cannot hand over yet."""
_PAUSED_S: Final = 60.0
"""How long the predecessor may take to pause."""


class TakeOver:
    """One that is under way.

    Attributes:
        pid: the predecessor's process.
        sockets: what it has given.
        board: by which it shares wide scopes.
        environment: the variables by which the service manager can be talked to in its place.
    """

    def __init__(
        self,
        connection: ControlConnection,
        sockets: list[OpenSocket],
        board: Board,
        environment: Mapping[str, str],
    ) -> None:
        self.pid = connection.peer_pid
        self.sockets = sockets
        self.board = board
        self.environment = environment
        self._connection = connection

    def finish(self, group: WorkerGroup, board: Board) -> None:
        """Accept the clients in the predecessor's place; the workers are ready for that.

        Args:
            group: the workers of this process.
            board: by which they share wide scopes.

        Raises:
            ControlError, StepError: the predecessor goes on, and this process is to end.
        """
        connection = self._connection
        connection.send({"board": board.name, "workers": board.workers})
        answer = connection.receive_plain(_PAUSED_S)
        if not answer.get("paused"):
            raise ControlError(str(answer.get("error", answer)))
        try:
            group.act(Step(StepKind.RESUME))
        except StepError as error:
            connection.send({"error": str(error)})
            raise
        connection.send({"accepts": 1})
        try:
            answer = connection.receive_plain(_PAUSED_S)
        except ControlError as error:
            # It has died, or hangs: this process has the sockets, and both may accept.
            _log.warning("process %d did not say that it lets its sessions go: %s", self.pid, error)
            return
        if not answer.get("left"):
            raise ControlError(str(answer.get("error", answer)))

    def give_up(self, why: str) -> None:
        """Tell the predecessor that it is to go on."""
        with suppress(ControlError):  # it has noticed
            self._connection.send({"error": why})

    def wait(self) -> None:
        """Return when the predecessor has ended."""
        try:
            while True:
                self._connection.receive_plain(None)
        except ControlError:
            self._connection.close()


def begin(path: Path, folder: Path) -> TakeOver | None:
    """Ask the proxy with this control socket for its listening sockets; None if there is none.

    Args:
        path: of the control socket.
        folder: the state directory, which must be that proxy's, too.

    Raises:
        ControlError: it cannot hand over.
    """
    waits = False
    while (connection := connect(path)) is not None:
        try:
            connection.send({"command": COMMAND, "version": VERSION, "folder": identity(folder)})
            sockets, message = _take(connection)
            if "busy" not in message:
                return TakeOver(connection, sockets, read_board(message), _environment(message))
        except ControlError:
            connection.close()
            raise
        connection.close()
        if not waits:
            waits = True
            _log.info(
                "process %d cannot hand over before process %s, from which it has taken over, has"
                " let its sessions go; waiting for that",
                connection.peer_pid,
                message["busy"],
            )
        time.sleep(_BUSY_S)
    return None


def _take(connection: ControlConnection) -> tuple[list[OpenSocket], Message]:
    """Receive the sockets; return them with the message that comes after them."""
    sockets: list[OpenSocket] = []
    while True:
        message, descriptors = connection.receive()
        sockets += _received(message, descriptors)
        if "addresses" not in message:
            return sockets, message


def _environment(message: Message) -> dict[str, str]:
    """The variables that a message names, as NAME=VALUE; an older version names none."""
    named = message.get("environment", ())
    pairs = [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
    return dict(each.split("=", 1) for each in pairs if "=" in each)


def _received(message: Message, descriptors: list[int]) -> list[OpenSocket]:
    """The sockets that came with a message."""
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    columns = [message.get(name, []) for name in ("purposes", "addresses", "activated")]
    try:
        return [
            OpenSocket(Purpose(str(purpose)), str(address), listening, bool(activated))
            for purpose, address, activated, listening in zip(
                *(column if isinstance(column, list) else [] for column in columns),
                sockets,
                strict=True,
            )
        ]
    except ValueError as error:
        raise ControlError("the sockets that came are not those that were named") from error

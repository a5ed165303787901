"""What is to be done with a command that is not simply a statement to be routed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from routing.consistency.decision import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.errors import ServerErrorCode
    from proxy.server.connection import ServerConnection
    from routing.request.command import Command


class Action:
    """Any of the orders below."""


class ToPrimary(Action):
    """The primary answers it; `bound`: no other server could, and the read's machine is told."""

    def __init__(self, command: Command, reason: Reason, *, bound: bool = False) -> None:
        self.command: Final = command
        self.reason: Final = reason
        self.bound: Final = bound


class ToHolder(Action):
    """It is answered by the server that has some state of the session which no other has."""

    def __init__(self, command: Command, holder: ServerConnection, reason: Reason) -> None:
        self.command: Final = command
        self.holder: Final = holder
        self.reason: Final = reason


class Unknown(Action):
    """It names an unknown prepared statement: the primary says so, once all of it has come."""

    def __init__(self, command: Command) -> None:
        self.command: Final = command


class Refused(Action):
    """The proxy answers with an error."""

    def __init__(
        self,
        command: Command,
        code: ServerErrorCode,
        message: str,
        reason: Reason = Reason.COMMAND,
    ) -> None:
        self.command: Final = command
        self.code: Final = code
        self.message: Final = message
        self.reason: Final = reason


class Done(Action):
    """No server has anything to do for it; it leaves ROW_COUNT() at 0."""

    def __init__(self, command: Command) -> None:
        self.command: Final = command


class Ping(Action):
    """The proxy answers it if the primary has just answered something."""

    def __init__(self, command: Command) -> None:
        self.command: Final = command


class Own(Action):
    """A statement to Tidegate."""

    def __init__(self, command: Command) -> None:
        self.command: Final = command


class ChangeUser(Action):
    """A change of user."""

    def __init__(self, command: Command) -> None:
        self.command: Final = command


class Find(Action):
    """A KILL: what it is to end has to be found (`KillTargets.find`), then `query.kill` goes on."""

    def __init__(self, command: Command, connection_id: int) -> None:
        self.command: Final = command
        self.connection_id: Final = connection_id


class Take(Action):
    """Its parts are taken as they come, and there is no answer."""

    def __init__(self, take: Callable[[bytes], None], packet: bytes) -> None:
        self.take: Final = take
        self.packet: Final = packet


class NoAnswer(Action):
    """It was served, and has no answer."""


class Quit(Action):
    """The client leaves."""


class TooLong(Action):
    """It comes in parts, and is longer than allowed: the client's connection ends."""

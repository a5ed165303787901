"""Commands that a proxy with several servers behind it cannot pass on, and such as are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from protocol.errors import ServerErrorCode
from protocol.packet import frame
from proxy.client.requests.commands.action import Action, Refused, ToPrimary
from routing.consistency.decision import Reason

if TYPE_CHECKING:
    from proxy.client.requests.commands.command_context import CommandContext

_SLEEP: Final = frame(bytes((Code.COM_SLEEP,)), 0)


def unknown(context: CommandContext, packet: bytes) -> Action:
    """What is no command is refused by the primary, which also notes the error (1047).

    The primary gets COM_SLEEP, which every server refuses: another version may know a command by
    the client's number, whose answer could not be read.
    """
    return ToPrimary(context.command(Code.COM_SLEEP, _SLEEP), Reason.COMMAND)


def cut_off(context: CommandContext, packet: bytes) -> Action:
    """A command that has no answer, but is too short: the primary says so (1835)."""
    return ToPrimary(context.command(Code.COM_SLEEP, packet), Reason.COMMAND)


def replication(context: CommandContext, packet: bytes) -> Action:
    """Binlog streams and clones concern one server: connect to that server.

    A stream that was passed on would go on from another server after a failover, whose files and
    positions are others; a reader that connects to a server knows which one it reads.
    """
    code = Code(packet[4])
    return Refused(
        context.command(code),
        ServerErrorCode.ER_NOT_SUPPORTED_YET,
        f"Tidegate does not pass {code.name} on, which concerns one server: connect to the server"
        f" itself (the primary is {context.topology.primary.name})",
    )

"""Commands that ask the server something small: the primary answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command as Code
from proxy.client.requests.commands.action import Action, Ping, ToPrimary
from routing.consistency.decision import Reason

if TYPE_CHECKING:
    from proxy.client.requests.commands.command_context import CommandContext


def ping(context: CommandContext, packet: bytes) -> Action:
    """COM_PING asks whether the server is there, and keeps the connection from idling.

    Where the primary has just answered a command, it is there, and nothing has idled.
    """
    return Ping(context.command(Code.COM_PING, packet))


def debug(context: CommandContext, packet: bytes) -> Action:
    """COM_DEBUG: one OK, EOF or ERR."""
    return ToPrimary(context.command(Code.COM_DEBUG, packet), Reason.COMMAND)


def field_list(context: CommandContext, packet: bytes) -> Action:
    """COM_FIELD_LIST: column definitions of a table."""
    return ToPrimary(context.command(Code.COM_FIELD_LIST, packet), Reason.COMMAND)


def statistics(context: CommandContext, packet: bytes) -> Action:
    """COM_STATISTICS: a line of text in a packet without a header byte."""
    return ToPrimary(context.command(Code.COM_STATISTICS, packet), Reason.COMMAND)

"""Commands that ask the server something small: the primary answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command as Code
from protocol.response_stream import FIELDS, SIMPLE, STRING
from proxy.client.commands.order import Order, Ping, ToPrimary
from routing.consistency.decision import Reason

if TYPE_CHECKING:
    from proxy.client.commands.desk import Desk


def ping(desk: Desk, packet: bytes) -> Order:
    """COM_PING asks whether the server is there, and keeps the connection from idling.

    Where the primary has just answered a command, it is there, and nothing has idled.
    """
    return Ping(desk.command(Code.COM_PING, SIMPLE, packet))


def debug(desk: Desk, packet: bytes) -> Order:
    """COM_DEBUG: one OK, EOF or ERR."""
    return ToPrimary(desk.command(Code.COM_DEBUG, SIMPLE, packet), Reason.COMMAND)


def field_list(desk: Desk, packet: bytes) -> Order:
    """COM_FIELD_LIST: column definitions of a table."""
    return ToPrimary(desk.command(Code.COM_FIELD_LIST, FIELDS, packet), Reason.COMMAND)


def statistics(desk: Desk, packet: bytes) -> Order:
    """COM_STATISTICS: a line of text in a packet without a header byte."""
    return ToPrimary(desk.command(Code.COM_STATISTICS, STRING, packet), Reason.COMMAND)

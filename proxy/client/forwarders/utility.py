"""Commands that ask the server something small: the primary answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from protocol.response_stream import FIELDS, SIMPLE, STRING
from routing.consistency.decision import Reason

if TYPE_CHECKING:
    from proxy.client.session import ClientSession


PING_TRUST_US: Final = 1_000_000
"""How long ago the primary may have spoken for a COM_PING to be answered without it."""


def forward_ping(session: ClientSession, packet: bytes) -> None:
    """COM_PING asks whether the server is there, and keeps the connection from idling.

    Where the primary has just answered a command, it is there, and nothing has idled.
    """
    answer = session.replies.fresh_ok(PING_TRUST_US)
    session.begin(Code.COM_PING, SIMPLE, packet)
    if answer is None:
        session.dispatch.to_primary(Reason.COMMAND)
    else:
        session.previous.zeroed = True
        session.replies.answer(answer)


def forward_simple(session: ClientSession, packet: bytes) -> None:
    """COM_DEBUG: one OK, EOF or ERR."""
    session.begin(Code(packet[4]), SIMPLE, packet)
    session.dispatch.to_primary(Reason.COMMAND)


def forward_field_list(session: ClientSession, packet: bytes) -> None:
    """COM_FIELD_LIST: column definitions of a table."""
    session.begin(Code.COM_FIELD_LIST, FIELDS, packet)
    session.dispatch.to_primary(Reason.COMMAND)


def forward_statistics(session: ClientSession, packet: bytes) -> None:
    """COM_STATISTICS: a line of text in a packet without a header byte."""
    session.begin(Code.COM_STATISTICS, STRING, packet)
    session.dispatch.to_primary(Reason.COMMAND)

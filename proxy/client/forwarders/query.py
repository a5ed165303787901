"""COM_QUERY: the one command that is split between primary and replicas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from protocol.command import ComQuery, query_text_offset
from protocol.constants import Command
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.packet import frame
from protocol.response_stream import RESULTS
from proxy.client.forwarders.own import forward_own
from proxy.client.session_rules import PREFIX, adjustment_of
from routing.consistency import NO_ADJUSTMENT, SettingError
from routing.decision import Reason
from routing.own_statement import WrongOwn

if TYPE_CHECKING:
    from proxy.client.session import ClientSession
    from routing.consistency import Adjustment
    from routing.statement import Statement

_NO_ATTRIBUTES: Final = 7
"""Where the text begins in a framed COM_QUERY without attributes, under CLIENT_QUERY_ATTRIBUTES."""

_NUMBER: Final = re.compile(rb"\b\d+\b(?=\s*;?\s*\Z)")


def forward_query(session: ClientSession, packet: bytes) -> None:
    """Classify a statement and send it where it belongs."""
    offset = 5
    if session.query_attributes:
        try:
            offset = 4 + query_text_offset(packet[4:], True)
        except MalformedPacketError as error:
            session.begin(b"", Command.COM_QUERY, RESULTS)
            session.refuse(ServerErrorCode.ER_MALFORMED_PACKET, f"Malformed packet: {error}")
            return
    state = session.state
    statement = session.classifier.classify(packet[offset:], state.mode_flags)
    if statement.kill_target is not None:
        packet = _kill(session, packet, offset, statement.kill_target)
    if statement.own is not None:
        forward_own(session, packet, statement)
        return
    session.begin(packet, Command.COM_QUERY, RESULTS, statement, may_write=statement.may_write)
    if (statement.directive is not None or offset > _NO_ATTRIBUTES) and not _adjust(
        session, packet, statement
    ):
        return
    session.route()


def _adjust(session: ClientSession, packet: bytes, statement: Statement) -> bool:
    """Let a statement have rules of its own, by its attributes or its comment; or refuse it."""
    try:
        adjustment = _adjustment(session, packet, statement)
        if adjustment is not NO_ADJUSTMENT:
            rules = adjustment.applied_to(session.state.rules)
            session.rules.check(rules)
            session.request.rules = rules
    except SettingError as error:
        session.refuse(
            ServerErrorCode.ER_WRONG_VALUE_FOR_VAR, f"Tidegate: {error}", reason=Reason.PROXY
        )
        return False
    return True


def _adjustment(session: ClientSession, packet: bytes, statement: Statement) -> Adjustment:
    adjustment = NO_ADJUSTMENT
    if session.query_attributes:
        settings = {
            attribute.name: attribute.text or ""
            for attribute in ComQuery.parse(packet[4:], True).attributes
            if attribute.name.startswith(PREFIX)
        }
        if settings:
            adjustment = adjustment_of(settings)
    if isinstance(statement.directive, WrongOwn):
        raise SettingError(statement.directive.message)
    if statement.directive is not None:
        adjustment = adjustment.and_then(statement.directive)
    return adjustment


def forward_long_query(session: ClientSession, prefix: bytes) -> None:
    """A statement too long to look at: it may do anything; trackers tell what of the session."""
    session.begin(b"", Command.COM_QUERY, RESULTS, may_write=True)
    session.to_primary(Reason.WRITE)


def _kill(session: ClientSession, packet: bytes, offset: int, target: int) -> bytes:
    """The statement with the server's id in place of the one that the proxy gave a client."""
    thread_id = session.server_thread_id(target)
    if thread_id is None:
        return packet
    sql = _NUMBER.sub(str(thread_id).encode("ascii"), packet[offset:])
    return frame(packet[4:offset] + sql, 0)

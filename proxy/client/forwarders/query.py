"""COM_QUERY: the one command that is split between primary and replicas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from protocol.command import ComQuery, query_text_offset
from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.packet import frame
from protocol.response_stream import RESULTS
from proxy.client.forwarders.own import forward_own
from proxy.client.forwarders.text_prepared import resolved
from proxy.client.statement_rules import own_rules
from routing.consistency.decision import Reason
from routing.consistency.rules import SettingError

if TYPE_CHECKING:
    from proxy.client.session import ClientSession
    from routing.consistency.rules import Rules

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
            session.begin(Code.COM_QUERY, RESULTS)
            session.replies.refuse(
                ServerErrorCode.ER_MALFORMED_PACKET, f"Malformed packet: {error}"
            )
            return
    state = session.state
    statement = session.classifier.classify(packet[offset:], state.mode_flags)
    if statement.kill_target is not None:
        packet = _kill(session, packet, offset, statement.kill_target)
    if statement.own is not None:
        forward_own(session, packet, statement)
        return
    effect = None
    if statement.text_prepared is not None:
        statement, effect = resolved(session, statement, statement.text_prepared)
    elif statement.identifiers:
        statement = session.views.seen(statement)
    rules: Rules | None = None
    wrong = ""
    if statement.directive is not None or offset > _NO_ATTRIBUTES:
        attributes = ComQuery.parse(packet[4:], True).attributes if session.query_attributes else ()
        try:
            rules = own_rules(statement, attributes, state.rules, session.rules)
        except SettingError as error:
            wrong = str(error)  # itself it would hold this frame
    session.begin(
        Code.COM_QUERY,
        RESULTS,
        packet,
        statement,
        rules=rules,
        may_write=statement.may_write,
        effect=effect,
    )
    if wrong:
        session.replies.refuse_setting(wrong)
    else:
        session.reads.route()


def forward_long_query(session: ClientSession, prefix: bytes) -> None:
    """A statement too long to look at: it may do anything; trackers tell what of the session."""
    session.begin(Code.COM_QUERY, RESULTS, may_write=True)
    session.dispatch.to_primary(Reason.WRITE)


def _kill(session: ClientSession, packet: bytes, offset: int, target: int) -> bytes:
    """The statement with the server's id in place of the one that the proxy gave a client."""
    thread_id = session.server_thread_id(target)
    if thread_id is None:
        return packet
    sql = _NUMBER.sub(str(thread_id).encode("ascii"), packet[offset:])
    return frame(packet[4:offset] + sql, 0)

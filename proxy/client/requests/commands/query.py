"""COM_QUERY: the one command that is split between primary and replicas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from protocol.command import ComQuery, query_text_offset
from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.packet import frame
from proxy.client.requests.commands.action import Action, Find, Own, Refused, ToPrimary
from proxy.client.requests.commands.text_prepared import resolve
from proxy.client.requests.statement_rules import own_rules
from proxy.shared.killing.inquiry import GONE
from proxy.wall_clock import utc_us
from routing.consistency.adjustment import SettingError
from routing.consistency.decision import Reason
from routing.request.command import Command

if TYPE_CHECKING:
    from proxy.client.requests.commands.command_context import CommandContext
    from routing.consistency.rules import StatementRules
    from routing.sql.statement import Statement
    from routing.sql.verdict import Assignment

_NO_ATTRIBUTES: Final = 7
"""Where the text begins in a framed COM_QUERY without attributes, under CLIENT_QUERY_ATTRIBUTES."""

_QUERY: Final = Code.COM_QUERY

_NUMBER: Final = re.compile(rb"(?<![\w!.$])\d+(?![\w.$])")


def query(context: CommandContext, packet: bytes) -> Command | Action:
    """Classify a statement."""
    offset = 5
    if context.query_attributes:
        try:
            offset = 4 + query_text_offset(packet[4:], True)
        except MalformedPacketError as error:
            command = context.command(Code.COM_QUERY)
            code = ServerErrorCode.ER_MALFORMED_PACKET
            return Refused(command, code, f"Malformed packet: {error}")
    statement = context.classifier.classify(packet[offset:], context.state.lexer_modes.flags)
    target = statement.kill_target
    if target is None:
        return _classified(context, packet, offset, statement)
    if context.kill_targets.takes_time(target):
        return Find(context.command(Code.COM_QUERY, packet, statement), target)
    return kill(context, packet, context.kill_targets.here(target, context.state.user))


def kill(context: CommandContext, packet: bytes, thread_id: int | None) -> Command | Action:
    """A KILL of a plain number, once its target is known.

    Args:
        context: of the session that sent it.
        packet: the COM_QUERY.
        thread_id: the target's id at the primary, if that is another one; GONE; None where the
            number is the primary's own.
    """
    offset = 4 + query_text_offset(packet[4:], True) if context.query_attributes else 5
    statement = context.classifier.classify(packet[offset:], context.state.lexer_modes.flags)
    if thread_id == GONE:
        command = context.command(Code.COM_QUERY, packet, statement)
        code = ServerErrorCode.ER_NO_SUCH_THREAD
        return Refused(command, code, f"Unknown thread id: {statement.kill_target}")
    if thread_id is not None:
        packet = frame(packet[4:offset] + _killing(packet[offset:], statement, thread_id), 0)
    return _classified(context, packet, offset, statement)


def _killing(sql: bytes, statement: Statement, thread_id: int) -> bytes:
    """The KILL with another number, wherever that stands; in a comment it does not matter."""
    target = statement.kill_target

    def replaced(match: re.Match[bytes]) -> bytes:
        return b"%d" % thread_id if int(match[0]) == target else match[0]

    return _NUMBER.sub(replaced, sql)


def _classified(
    context: CommandContext, packet: bytes, offset: int, statement: Statement
) -> Command | Action:
    state = context.state
    if statement.own is not None:
        return Own(context.command(Code.COM_QUERY, packet, statement))
    if statement.text_prepared is not None:
        statement = resolve(context, statement, statement.text_prepared)
    elif statement.identifiers:
        statement = context.views.classify(statement)
    rules: StatementRules | None = None
    wrong = ""
    if statement.directive is not None or offset > _NO_ATTRIBUTES:
        attributes = ComQuery.parse(packet[4:], True).attributes if context.query_attributes else ()
        try:
            rules = own_rules(statement, attributes, state.rules)
        except SettingError as error:
            wrong = str(error)
    command = Command(
        _QUERY,
        state.rules if rules is None else rules,
        packet,
        statement,
        statement.may_write,
        arrived_us=utc_us(),
    )
    if wrong:
        return wrong_setting(command, wrong)
    return refused_setting(context, command, statement) or command


def long_query(context: CommandContext, prefix: bytes) -> Action:
    """A statement too long to be classified: it may do anything; trackers tell what it changed."""
    return ToPrimary(context.command(Code.COM_QUERY, may_write=True), Reason.WRITE)


def refused_setting(
    context: CommandContext, command: Command, statement: Statement | None
) -> Refused | None:
    """The refusal of what would have no effect, without a word of the server's, on its connection.

    Triggers do not cascade on a connection that was kept (`proxy.server.identity`).
    """
    if statement is None or not any(map(_cascades, statement.assignments)):
        return None
    if context.servers.may_cascade():
        return None
    return Refused(
        command,
        ServerErrorCode.ER_NOT_SUPPORTED_YET,
        "Tidegate: enable_cascade_triggers would have no effect, since the session has a connection"
        " that was kept; connect again: this user's next sessions get new ones",
    )


def _cascades(assignment: Assignment) -> bool:
    """Whether it may turn enable_cascade_triggers on."""
    return (
        assignment.name == "enable_cascade_triggers"
        and assignment.scope == "session"
        and (assignment.value or "").strip("'\"").upper() not in ("OFF", "0", "FALSE")
    )


def wrong_setting(command: Command, why: str) -> Action:
    """A command asks for rules that are wrong."""
    code = ServerErrorCode.ER_WRONG_VALUE_FOR_VAR
    return Refused(command, code, f"Tidegate: {why}", Reason.PROXY)

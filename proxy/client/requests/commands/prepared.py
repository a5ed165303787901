"""The binary protocol of prepared statements: reads run where text reads would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.command import ComStmtExecute
from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.packet import frame
from protocol.prepared_statement import CURSOR_TYPE_READ_ONLY, PARAMETER_COUNT_AVAILABLE
from protocol.statement_execution import statement_id, with_statement_id
from proxy.client.prepared import LONG_PART, close_on
from proxy.client.requests.commands import refused
from proxy.client.requests.commands.action import (
    Action,
    Done,
    NoAnswer,
    Refused,
    Take,
    ToHolder,
    ToPrimary,
    Unknown,
)
from proxy.client.requests.commands.query import refused_setting, wrong_setting
from proxy.client.requests.statement_rules import own_rules
from routing.consistency.adjustment import SettingError
from routing.consistency.decision import Reason
from routing.session.prepared import PreparedStatement

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.client.requests.commands.command_context import CommandContext
    from proxy.server.connection import ServerConnection
    from routing.consistency.rules import StatementRules
    from routing.request.command import Command
    from routing.sql.statement import Statement

_MOST_TEXT = 16 << 20  # not Final, which would be compiled in: tests shorten it
"""Bytes of prepared texts that a session keeps; further statements run on the primary alone."""

_ID_END: Final = 9
_FLAGS: Final = 9
"""Offsets in a framed command about a statement."""


def prepare(context: CommandContext, packet: bytes) -> Command | Action:
    """A read is prepared where it would run, all else on the primary."""
    statement = context.classifier.classify(packet[5:], context.state.lexer_modes.flags)
    if statement.own is not None:
        return Refused(
            context.command(Code.COM_STMT_PREPARE, statement=statement),
            ServerErrorCode.ER_UNSUPPORTED_PS,
            "This command is not supported in the prepared statement protocol yet: send statements"
            " to Tidegate as text",
            Reason.PROXY,
        )
    return _prepare(context, packet, statement)


def long_prepare(context: CommandContext, prefix: bytes) -> Command | Action:
    """A statement that is too long to be classified."""
    return _prepare(context, b"", None)


def _prepare(
    context: CommandContext, packet: bytes, statement: Statement | None
) -> Command | Action:
    text = packet[5:]
    if statement is not None and context.prepared.text_size + len(text) > _MOST_TEXT:
        statement, text = statement.kept_prepared(), b""
    prepared = PreparedStatement(context.prepared.number(), statement, text, context.state)
    moves = context.views.classify(statement) if prepared.moves and statement is not None else None
    most = context.live.config.max_prepared_statements
    if len(context.prepared) >= most:
        return _refused(
            context.command(Code.COM_STMT_PREPARE, packet, moves),
            ServerErrorCode.ER_MAX_PREPARED_STMT_COUNT_REACHED,
            "Can't create more than max_prepared_stmt_count statements (current value:"
            f" {most}, Tidegate's max-prepared-statements)",
        )
    rules: StatementRules | None = None
    wrong = ""
    if moves is not None:
        try:
            rules = own_rules(moves, (), context.state.rules)
        except SettingError as error:
            wrong = str(error)
    command = context.command(Code.COM_STMT_PREPARE, packet, moves, rules=rules, prepared=prepared)
    if wrong:
        return wrong_setting(command, wrong)
    return ToPrimary(command, Reason.PREPARED) if moves is None else command


def execute(context: CommandContext, packet: bytes) -> Command | Action:
    """Execute; what the statement does to the session is known from its text."""
    prepared = context.prepared.of(packet)
    if prepared is None:
        return _unknown(context, packet)
    context.prepared.count(prepared)
    statement = _executed(context, prepared)
    rules: StatementRules | None = None
    wrong = ""
    if statement is not None and not prepared.spoilt:
        try:
            rules = _own_rules(context, prepared, statement, packet)
        except SettingError as error:
            wrong = str(error)
    command = _execution(context, packet, packet, prepared, statement, rules)
    if prepared.spoilt:
        return _refused(
            command,
            ServerErrorCode.ER_UNKNOWN_ERROR,
            "Parameter of prepared statement which is set through mysql_send_long_data() is longer"
            f" than 'max_allowed_packet' bytes ({context.live.config.max_allowed_packet});"
            " COM_STMT_RESET makes the statement usable again",
        )
    if wrong:
        return wrong_setting(command, wrong)
    if statement is None:
        return ToPrimary(command, Reason.PREPARED)
    return refused_setting(context, command, statement) or command


def _own_rules(
    context: CommandContext, prepared: PreparedStatement, statement: Statement, packet: bytes
) -> StatementRules | None:
    """The rules of an execution, by its attributes or its comment; SettingError if wrong."""
    attributed = len(packet) > _FLAGS and packet[_FLAGS] & PARAMETER_COUNT_AVAILABLE
    present = context.state.rules
    if not (attributed and context.query_attributes):
        if statement.directive is None:
            return None
        return own_rules(statement, (), present)
    try:
        execution = ComStmtExecute.parse(packet[4:], prepared.parameters, True)
        attributes = execution.decode(long_data=prepared.long_parameters)
    except MalformedPacketError:
        attributes = ()  # the server says what is wrong
    named = [attribute for attribute in attributes if attribute.name]
    return own_rules(statement, named, present)


def long_execute(context: CommandContext, prefix: bytes) -> Action:
    """Execute with parameters that come in parts: on the primary."""
    prepared = context.prepared.of(prefix)
    if prepared is None:
        return _unknown(context, prefix)
    command = _execution(context, prefix, b"", prepared, _executed(context, prepared), None)
    return ToPrimary(command, Reason.PREPARED, bound=True)


def fetch(context: CommandContext, packet: bytes) -> Action:
    """Rows of a cursor, from where it is open."""
    prepared = context.prepared.of(packet)
    if prepared is None:
        return _unknown(context, packet)
    command = context.command(Code.COM_STMT_FETCH, packet, prepared=prepared)
    holder = context.prepared.holder(prepared, context.servers.connections)
    if holder is None:
        return _refused(
            command,
            ServerErrorCode.ER_STMT_HAS_NO_OPEN_CURSOR,
            f"The statement ({prepared.number}) has no open cursor.",
        )
    return ToHolder(command, holder, Reason.CURSOR)


def reset(context: CommandContext, packet: bytes) -> Action:
    """Drop long data and cursor."""
    prepared = context.prepared.of(packet)
    if prepared is None:
        return _unknown(context, packet)
    command = context.command(Code.COM_STMT_RESET, packet, prepared=prepared)
    prepared.forget_long_data()
    holder = context.prepared.holder(prepared, context.servers.connections)
    if holder is None:
        return Done(command)  # no server has anything of it
    open_there = context.prepared.cursor(prepared) is not None
    if not open_there and context.state.transaction.is_open and _is_outside(context, holder):
        return Done(command)  # there is nothing to drop, and its answer would show no transaction
    return ToHolder(command, holder, Reason.CURSOR if open_there else Reason.PREPARED)


def _is_outside(context: CommandContext, holder: ServerConnection) -> bool:
    """Whether a server has no part in the transaction that is open."""
    return holder is not context.servers.primary and holder.mirror.transaction_reads is None


def _executed(context: CommandContext, prepared: PreparedStatement) -> Statement | None:
    """What an execution runs, classified with its views; None if the text was not classified."""
    statement = prepared.executed_in(context.state.schema)
    if statement is not None and statement.identifiers:
        return context.views.classify(statement)
    return statement


def _execution(
    context: CommandContext,
    beginning: bytes,
    packet: bytes,
    prepared: PreparedStatement,
    statement: Statement | None,
    rules: StatementRules | None,
) -> Command:
    flags = beginning[_FLAGS] if len(beginning) > _FLAGS else 0
    prepared.asks_cursor = flags & CURSOR_TYPE_READ_ONLY != 0
    return context.command(
        Code.COM_STMT_EXECUTE,
        packet,
        statement,
        rules=rules,
        may_write=statement is None or statement.may_write,
        prepared=prepared,
    )


def _unknown(context: CommandContext, beginning: bytes) -> Action:
    """The primary says that it does not know it either, and notes that for SHOW WARNINGS.

    Where the client's number is the id of another statement there, 0 is sent, which is never one.
    """
    packet = beginning[: _ID_END + 1 + 4]
    primary = context.servers.primary
    known = () if primary is None else primary.mirror.statements.values()
    if any(handle.server_id == statement_id(packet) for handle in known):
        packet = with_statement_id(packet, 0)
    code = Code(packet[4])
    executes = code is Code.COM_STMT_EXECUTE
    return Unknown(context.command(code, frame(packet[4:], 0), may_write=executes))


def _refused(command: Command, code: ServerErrorCode, message: str) -> Action:
    return Refused(command, code, message, Reason.PREPARED)


def close(context: CommandContext, packet: bytes) -> Action:
    """Forget the statement; there is no answer."""
    if len(packet) < _ID_END:
        return refused.cut_off(context, packet)
    prepared = context.prepared.of(packet)
    if prepared is not None:
        context.prepared.close(prepared)
        for connection in context.servers.connections:
            close_on(connection, prepared)
    return NoAnswer()


def long_data(context: CommandContext, packet: bytes) -> Action:
    """COM_STMT_SEND_LONG_DATA, whole or the beginning of it; there is no answer."""
    if len(packet) < _ID_END + 2:
        return refused.cut_off(context, packet)
    prepared = context.prepared.of(packet)
    take: Callable[[bytes], None] = _drop  # as a server does
    if prepared is not None and not prepared.spoilt:
        keeps = prepared.moves or context.servers.primary is None
        take = _kept(context, prepared) if keeps else _passed_on(context, prepared)
    return Take(take, packet)


def _kept(context: CommandContext, prepared: PreparedStatement) -> Callable[[bytes], None]:
    """Takes the parts of one packet, for whichever server will execute the statement."""
    room = context.live.config.max_allowed_packet - context.prepared.long_size
    packet = prepared.new_long_data()

    def take(data: bytes) -> None:
        nonlocal room
        room -= len(data)
        if room < 0 or not context.memory.has_room(len(data) + LONG_PART):
            prepared.spoil_long_data()
        elif not prepared.spoilt:
            prepared.keep_long_data(packet, data)

    return take


def _passed_on(context: CommandContext, prepared: PreparedStatement) -> Callable[[bytes], None]:
    """Takes the parts of one packet, for the primary, which alone knows the statement."""
    primary = context.servers.primary
    handle = None if primary is None else primary.mirror.statements.get(prepared.number)
    if primary is None or handle is None:
        return _drop
    connection, number = primary, handle.server_id
    prepared.long_data_sent = True
    begun = False

    def take(data: bytes) -> None:
        nonlocal begun
        connection.write(data if begun else with_statement_id(data, number))
        begun = True

    return take


def _drop(data: bytes) -> None:
    """No server is to get it."""

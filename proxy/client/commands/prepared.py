"""The binary protocol of prepared statements: reads run where text reads would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.command import ComStmtExecute
from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.packet import frame
from protocol.prepared_statement import CURSOR_TYPE_READ_ONLY, PARAMETER_COUNT_AVAILABLE
from protocol.response_stream import FETCHED, PREPARED, RESULTS, SIMPLE
from protocol.statement_execution import statement_id, with_statement_id
from proxy.client.commands import refused
from proxy.client.commands.order import (
    Done,
    NoAnswer,
    Order,
    Refused,
    Take,
    ToHolder,
    ToPrimary,
    Unknown,
)
from proxy.client.commands.query import refused_setting, wrong_setting
from proxy.client.prepared import close_on
from proxy.client.statement_rules import own_rules
from routing.consistency.adjustment import SettingError
from routing.consistency.decision import Reason
from routing.session.prepared import PreparedStatement

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.client.commands.desk import Desk
    from proxy.server.connection import ServerConnection
    from routing.consistency.rules import Rules
    from routing.request.command import Command
    from routing.sql.statement import Statement

_MOST_TEXT: Final = 16 << 20
"""Bytes of prepared texts that a session keeps; further statements run on the primary alone."""

_ID_END: Final = 9
_FLAGS: Final = 9
"""Offsets in a framed command about a statement."""

_SHAPES: Final = {
    Code.COM_STMT_EXECUTE: RESULTS,
    Code.COM_STMT_FETCH: FETCHED,
    Code.COM_STMT_RESET: SIMPLE,
}


def prepare(desk: Desk, packet: bytes) -> Command | Order:
    """A read is prepared where it would run, all else on the primary."""
    statement = desk.classifier.classify(packet[5:], desk.state.lexer_modes.flags)
    if statement.own is not None:
        return Refused(
            desk.command(Code.COM_STMT_PREPARE, PREPARED, statement=statement),
            ServerErrorCode.ER_UNSUPPORTED_PS,
            "This command is not supported in the prepared statement protocol yet: send statements"
            " to Tidegate as text",
            Reason.PROXY,
        )
    return _prepare(desk, packet, statement)


def long_prepare(desk: Desk, prefix: bytes) -> Command | Order:
    """A statement that is too long to be classified."""
    return _prepare(desk, b"", None)


def _prepare(desk: Desk, packet: bytes, statement: Statement | None) -> Command | Order:
    text = packet[5:]
    if statement is not None and desk.prepared.text_size + len(text) > _MOST_TEXT:
        statement, text = statement.kept_prepared(), b""
    prepared = PreparedStatement(desk.prepared.number(), statement, text, desk.state)
    moves = desk.views.seen(statement) if prepared.moves and statement is not None else None
    most = desk.config.max_prepared_statements
    if len(desk.prepared) >= most:
        return _refused(
            desk.command(Code.COM_STMT_PREPARE, PREPARED, packet, moves),
            ServerErrorCode.ER_MAX_PREPARED_STMT_COUNT_REACHED,
            "Can't create more than max_prepared_stmt_count statements (current value:"
            f" {most}, Tidegate's max-prepared-statements)",
        )
    rules: Rules | None = None
    wrong = ""
    if moves is not None:
        try:
            rules = own_rules(moves, (), desk.state.rules)
        except SettingError as error:
            wrong = str(error)
    command = desk.command(
        Code.COM_STMT_PREPARE, PREPARED, packet, moves, rules=rules, prepares=prepared
    )
    if wrong:
        return wrong_setting(command, wrong)
    return ToPrimary(command, Reason.PREPARED) if moves is None else command


def execute(desk: Desk, packet: bytes) -> Command | Order:
    """Execute; what the statement does to the session is known from its text."""
    prepared = desk.prepared.of(packet)
    if prepared is None:
        return _unknown(desk, packet)
    statement = _executed(desk, prepared)
    rules: Rules | None = None
    wrong = ""
    if statement is not None and not prepared.spoilt:
        try:
            rules = _own_rules(desk, prepared, statement, packet)
        except SettingError as error:
            wrong = str(error)
    command = _execution(desk, packet, packet, prepared, statement, rules)
    if prepared.spoilt:
        return _refused(
            command,
            ServerErrorCode.ER_UNKNOWN_ERROR,
            "Parameter of prepared statement which is set through mysql_send_long_data() is longer"
            f" than 'max_allowed_packet' bytes ({desk.config.max_allowed_packet});"
            " COM_STMT_RESET makes the statement usable again",
        )
    if wrong:
        return wrong_setting(command, wrong)
    if statement is None:
        return ToPrimary(command, Reason.PREPARED)
    return refused_setting(desk, command, statement) or command


def _own_rules(
    desk: Desk, prepared: PreparedStatement, statement: Statement, packet: bytes
) -> Rules | None:
    """The rules of an execution, by its attributes or its comment; SettingError if wrong."""
    attributed = len(packet) > _FLAGS and packet[_FLAGS] & PARAMETER_COUNT_AVAILABLE
    present = desk.state.rules
    if not (attributed and desk.query_attributes):
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


def long_execute(desk: Desk, prefix: bytes) -> Order:
    """Execute with parameters that come in parts: on the primary."""
    prepared = desk.prepared.of(prefix)
    if prepared is None:
        return _unknown(desk, prefix)
    command = _execution(desk, prefix, b"", prepared, _executed(desk, prepared), None)
    return ToPrimary(command, Reason.PREPARED, bound=True)


def fetch(desk: Desk, packet: bytes) -> Order:
    """Rows of a cursor, from where it is open."""
    prepared = desk.prepared.of(packet)
    if prepared is None:
        return _unknown(desk, packet)
    command = desk.command(Code.COM_STMT_FETCH, FETCHED, packet, prepared=prepared)
    holder = desk.prepared.holder(prepared, desk.servers.connections)
    if holder is None:
        return _refused(
            command,
            ServerErrorCode.ER_STMT_HAS_NO_OPEN_CURSOR,
            f"The statement ({prepared.number}) has no open cursor.",
        )
    return ToHolder(command, holder, Reason.CURSOR)


def reset(desk: Desk, packet: bytes) -> Order:
    """Drop long data and cursor."""
    prepared = desk.prepared.of(packet)
    if prepared is None:
        return _unknown(desk, packet)
    command = desk.command(Code.COM_STMT_RESET, SIMPLE, packet, prepared=prepared)
    prepared.forget_long_data()
    holder = desk.prepared.holder(prepared, desk.servers.connections)
    if holder is None:
        return Done(command)  # no server has anything of it
    open_there = desk.prepared.cursor(prepared) is not None
    if not open_there and desk.state.transaction.is_open and _is_outside(desk, holder):
        return Done(command)  # there is nothing to drop, and its answer would show no transaction
    return ToHolder(command, holder, Reason.CURSOR if open_there else Reason.PREPARED)


def _is_outside(desk: Desk, holder: ServerConnection) -> bool:
    """Whether a server has no part in the transaction that is open."""
    return holder is not desk.servers.primary and holder.mirror.transaction_reads is None


def _executed(desk: Desk, prepared: PreparedStatement) -> Statement | None:
    """What an execution runs, classified with its views; None if the text was not classified."""
    statement = prepared.statement
    if statement is not None and statement.identifiers:
        return desk.views.seen(statement)
    return statement


def _execution(
    desk: Desk,
    beginning: bytes,
    packet: bytes,
    prepared: PreparedStatement,
    statement: Statement | None,
    rules: Rules | None,
) -> Command:
    flags = beginning[_FLAGS] if len(beginning) > _FLAGS else 0
    prepared.asks_cursor = flags & CURSOR_TYPE_READ_ONLY != 0
    return desk.command(
        Code.COM_STMT_EXECUTE,
        RESULTS,
        packet,
        statement,
        rules=rules,
        may_write=statement is None or statement.may_write,
        prepared=prepared,
    )


def _unknown(desk: Desk, beginning: bytes) -> Order:
    """The primary says that it does not know it either, and notes that for SHOW WARNINGS.

    Where the client's number is the id of another statement there, 0 is sent, which is never one.
    """
    packet = beginning[: _ID_END + 1 + 4]
    primary = desk.servers.primary
    known = () if primary is None else primary.mirror.statements.values()
    if any(handle.server_id == statement_id(packet) for handle in known):
        packet = with_statement_id(packet, 0)
    code = Code(packet[4])
    executes = code is Code.COM_STMT_EXECUTE
    return Unknown(desk.command(code, _SHAPES[code], frame(packet[4:], 0), may_write=executes))


def _refused(command: Command, code: ServerErrorCode, message: str) -> Order:
    return Refused(command, code, message, Reason.PREPARED)


def close(desk: Desk, packet: bytes) -> Order:
    """Forget the statement; there is no answer."""
    if len(packet) < _ID_END:
        return refused.cut_off(desk, packet)
    prepared = desk.prepared.of(packet)
    if prepared is not None:
        desk.prepared.close(prepared)
        for connection in desk.servers.connections:
            close_on(connection, prepared)
    return NoAnswer()


def long_data(desk: Desk, packet: bytes) -> Order:
    """COM_STMT_SEND_LONG_DATA, whole or the beginning of it; there is no answer."""
    if len(packet) < _ID_END + 2:
        return refused.cut_off(desk, packet)
    prepared = desk.prepared.of(packet)
    take: Callable[[bytes], None] = _drop  # as a server does
    if prepared is not None and not prepared.spoilt:
        take = _kept(desk, prepared) if prepared.moves else _passed_on(desk, prepared)
    return Take(take, packet)


def _kept(desk: Desk, prepared: PreparedStatement) -> Callable[[bytes], None]:
    """Takes the parts of one packet, for whichever server will execute the statement."""
    room = desk.config.max_allowed_packet - desk.prepared.long_size
    packet = prepared.new_long_data()

    def take(data: bytes) -> None:
        nonlocal room
        room -= len(data)
        if room < 0:
            prepared.spoil_long_data()
        else:
            packet.append(data)

    return take


def _passed_on(desk: Desk, prepared: PreparedStatement) -> Callable[[bytes], None]:
    """Takes the parts of one packet, for the primary, which alone knows the statement."""
    primary = desk.servers.primary
    handle = None if primary is None else primary.mirror.statements.get(prepared.number)
    if primary is None or handle is None:
        return _drop
    connection, number = primary, handle.server_id
    begun = False

    def take(data: bytes) -> None:
        nonlocal begun
        connection.write(data if begun else with_statement_id(data, number))
        begun = True

    return take


def _drop(data: bytes) -> None:
    """No server is to get it."""

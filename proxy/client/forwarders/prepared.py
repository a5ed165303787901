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
from proxy.client.prepared import close_on
from proxy.client.statement_rules import own_rules
from routing.consistency.decision import Reason
from routing.consistency.rules import SettingError
from routing.policy import on_primary
from routing.session.prepared import PreparedHandle, PreparedStatement

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.client.session import ClientSession
    from proxy.server.connection import ServerConnection
    from routing.consistency.rules import Rules
    from routing.sql.statement import Statement

_ID_END: Final = 9
_FLAGS: Final = 9
"""Places in a framed command about a statement."""

_SHAPES: Final = {
    Code.COM_STMT_EXECUTE: RESULTS,
    Code.COM_STMT_FETCH: FETCHED,
    Code.COM_STMT_RESET: SIMPLE,
}


def forward_prepare(session: ClientSession, packet: bytes) -> None:
    """A read is prepared where it would run, all else on the primary."""
    statement = session.classifier.classify(packet[5:], session.state.mode_flags)
    if statement.own is not None:
        session.begin(Code.COM_STMT_PREPARE, PREPARED, statement=statement)
        session.replies.refuse(
            ServerErrorCode.ER_UNSUPPORTED_PS,
            "This command is not supported in the prepared statement protocol yet: send statements"
            " to Tidegate as text",
            reason=Reason.PROXY,
        )
        return
    _prepare(session, packet, statement)


def forward_long_prepare(session: ClientSession, prefix: bytes) -> None:
    """A statement too long to look at."""
    _prepare(session, b"", None)


def _prepare(session: ClientSession, packet: bytes, statement: Statement | None) -> None:
    prepared = PreparedStatement(session.prepared.number(), statement, packet[5:], session.state)

    def remember(connection: ServerConnection) -> None:
        head = connection.stream.head
        if head is not None:
            prepared.parameters = head[7] | head[8] << 8
            session.prepared.add(prepared)
            connection.statements[prepared.number] = PreparedHandle.of(head)

    moves = session.views.seen(statement) if prepared.moves and statement is not None else None
    full = len(session.prepared) >= session.config.max_prepared_statements
    rules: Rules | None = None
    wrong = ""
    if moves is not None and not full:
        try:
            rules = own_rules(moves, (), session.state.rules, session.rules)
        except SettingError as error:
            wrong = str(error)  # itself it would hold this frame
    session.begin(
        Code.COM_STMT_PREPARE,
        PREPARED,
        packet,
        moves,
        rules=rules,
        number=0 if full else prepared.number,
        effect=remember,
    )
    if full:
        _refuse(
            session,
            ServerErrorCode.ER_MAX_PREPARED_STMT_COUNT_REACHED,
            "Can't create more than max_prepared_stmt_count statements (current value:"
            f" {session.config.max_prepared_statements}, Tidegate's max-prepared-statements)",
        )
    elif wrong:
        session.replies.refuse_setting(wrong)
    elif moves is None:
        session.dispatch.to_primary(Reason.PREPARED)
    else:
        session.reads.route()


def forward_execute(session: ClientSession, packet: bytes) -> None:
    """Execute; what the statement does to the session is known from its text."""
    prepared = session.prepared.of(packet)
    if prepared is None:
        _unknown(session, packet)
        return
    statement = _executed(session, prepared)
    rules: Rules | None = None
    wrong = ""
    if statement is not None and not prepared.spoilt:
        try:
            rules = _own_rules(session, prepared, statement, packet)
        except SettingError as error:
            wrong = str(error)  # itself it would hold this frame
    _execute(session, packet, packet, prepared, statement, rules)
    if prepared.spoilt:
        _refuse(
            session,
            ServerErrorCode.ER_UNKNOWN_ERROR,
            "Parameter of prepared statement which is set through mysql_send_long_data() is longer"
            f" than 'max_allowed_packet' bytes ({session.config.max_allowed_packet})",
        )
    elif wrong:
        session.replies.refuse_setting(wrong)
    elif statement is None:
        session.dispatch.to_primary(Reason.PREPARED)
    else:
        session.reads.route()


def _own_rules(
    session: ClientSession, prepared: PreparedStatement, statement: Statement, packet: bytes
) -> Rules | None:
    """The rules of an execution, by its attributes or its comment; SettingError if wrong."""
    attributed = len(packet) > _FLAGS and packet[_FLAGS] & PARAMETER_COUNT_AVAILABLE
    present = session.state.rules
    if not (attributed and session.query_attributes):
        if statement.directive is None:
            return None
        return own_rules(statement, (), present, session.rules)
    try:
        command = ComStmtExecute.parse(packet[4:], prepared.parameters, True)
        attributes = command.decode(long_data=prepared.long_parameters)
    except MalformedPacketError:
        attributes = ()  # the server says what is wrong
    named = [attribute for attribute in attributes if attribute.name]
    return own_rules(statement, named, present, session.rules)


def forward_long_execute(session: ClientSession, prefix: bytes) -> None:
    """Execute with parameters that come in parts: on the primary."""
    prepared = session.prepared.of(prefix)
    if prepared is None:
        _unknown(session, prefix)
        return
    _execute(session, prefix, b"", prepared, _executed(session, prepared), None)
    session.dispatch.bind(on_primary(session.topology, Reason.PREPARED))


def forward_fetch(session: ClientSession, packet: bytes) -> None:
    """Rows of a cursor, from where it is open."""
    prepared = session.prepared.of(packet)
    if prepared is None:
        _unknown(session, packet)
        return
    session.begin(Code.COM_STMT_FETCH, FETCHED, packet, prepared=prepared)
    holder = session.dispatch.holder(prepared)
    if holder is None:
        _refuse(
            session,
            ServerErrorCode.ER_STMT_HAS_NO_OPEN_CURSOR,
            f"The statement ({prepared.number}) has no open cursor.",
        )
        return
    session.dispatch.to_connection(holder, Reason.CURSOR)


def forward_reset(session: ClientSession, packet: bytes) -> None:
    """Drop long data and cursor."""
    prepared = session.prepared.of(packet)
    if prepared is None:
        _unknown(session, packet)
        return
    session.begin(Code.COM_STMT_RESET, SIMPLE, packet, prepared=prepared)
    prepared.forget_long_data()
    holder = session.dispatch.holder(prepared)
    if holder is None:
        session.previous.zeroed = True
        session.replies.answer(session.replies.ok())  # no server has anything of it
    else:
        session.dispatch.to_connection(
            holder, Reason.CURSOR if session.prepared.cursor(prepared) else Reason.PREPARED
        )


def _executed(session: ClientSession, prepared: PreparedStatement) -> Statement | None:
    """What an execution runs, as views make it; None if that was not looked at."""
    statement = prepared.statement
    if statement is not None and statement.identifiers:
        return session.views.seen(statement)
    return statement


def _execute(
    session: ClientSession,
    beginning: bytes,
    packet: bytes,
    prepared: PreparedStatement,
    statement: Statement | None,
    rules: Rules | None,
) -> None:
    """Begin an execution."""
    session.begin(
        Code.COM_STMT_EXECUTE,
        RESULTS,
        packet,
        statement,
        rules=rules,
        may_write=statement is None or statement.may_write,
        prepared=prepared,
    )
    flags = beginning[_FLAGS] if len(beginning) > _FLAGS else 0
    prepared.asks_cursor = flags & CURSOR_TYPE_READ_ONLY != 0


def _unknown(session: ClientSession, beginning: bytes) -> None:
    """The primary says that it does not know it either, and notes that for SHOW WARNINGS.

    What the client takes for a statement's id may be that of another one there: 0 is none.
    """
    if session.long_command.going:
        session.long_command.give(_drop, then=lambda: _ask(session, beginning))
    else:
        _ask(session, beginning)


def _ask(session: ClientSession, beginning: bytes) -> None:
    packet = beginning[: _ID_END + 1 + 4]
    primary = session.primary
    known = () if primary is None else primary.statements.values()
    if any(handle.server_id == statement_id(packet) for handle in known):
        packet = with_statement_id(packet, 0)
    code = Code(packet[4])
    executes = code is Code.COM_STMT_EXECUTE
    session.begin(code, _SHAPES[code], frame(packet[4:], 0), may_write=executes)
    session.dispatch.to_primary(Reason.PREPARED)


def _refuse(session: ClientSession, code: ServerErrorCode, message: str) -> None:
    session.replies.refuse(code, message, reason=Reason.PREPARED)


def forward_close(session: ClientSession, packet: bytes) -> None:
    """Forget the statement; there is no answer."""
    prepared = session.prepared.of(packet)
    if prepared is not None:
        session.prepared.close(prepared)
        for connection in session.connections:
            close_on(connection, prepared)
    session.connection.ready()


def forward_long_data(session: ClientSession, packet: bytes) -> None:
    """COM_STMT_SEND_LONG_DATA, whole or the beginning of it; there is no answer."""
    prepared = session.prepared.of(packet)
    ready = session.connection.ready
    take: Callable[[bytes], None] = _drop  # as a server does
    if prepared is not None and len(packet) >= _ID_END + 2:
        take = _kept(session, prepared) if prepared.moves else _passed_on(session, prepared)
    if session.long_command.going:
        session.long_command.give(take, then=ready)
    else:
        take(packet)
        ready()


def _kept(session: ClientSession, prepared: PreparedStatement) -> Callable[[bytes], None]:
    """Takes the parts of one packet, for whichever server will execute the statement."""
    room = session.config.max_allowed_packet - session.prepared.long_size
    packet = prepared.new_long_data()

    def take(data: bytes) -> None:
        nonlocal room
        room -= len(data)
        if room < 0:
            prepared.spoil_long_data()
        else:
            packet.append(data)

    return take


def _passed_on(session: ClientSession, prepared: PreparedStatement) -> Callable[[bytes], None]:
    """Takes the parts of one packet, for the primary, which alone knows the statement."""
    primary = session.primary
    handle = None if primary is None else primary.statements.get(prepared.number)
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
    """Nobody is to have it."""

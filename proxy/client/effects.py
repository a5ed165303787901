"""What a finished command changed in its session."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Final

from protocol.constants import Command
from protocol.response_stream import FETCHED, RESULTS
from protocol.session_track import (
    Gtids,
    Schema,
    StateChange,
    SystemVariable,
    UnknownGtidEncoding,
    decode,
    entries,
)
from proxy.client import variables
from routing.servers.topology import Role
from routing.session.variables import (
    TRACKING,
)
from routing.sql.holds import Act, PinReason
from routing.sql.statement import StatementClass, Touch

if TYPE_CHECKING:
    from proxy.client.request import Request
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from routing.servers.topology import Server
    from routing.session.session import Session
    from routing.sql.statement import Statement

_GTIDS: Final = 3
_SCHEMA: Final = 1
_STATE_CHANGE: Final = 2
_VARIABLE: Final = 0

_OF_PRIMARY: Final = (_GTIDS, _SCHEMA, _STATE_CHANGE, _VARIABLE)
_OF_REPLICA: Final = (_GTIDS,)
"""The session lives on the primary; what else a replica says of its connection is no news."""

_HARMLESS: Final = (StatementClass.READ, StatementClass.SESSION, StatementClass.TRANSACTION)
_RAISING: Final = (Touch.DEFAULT_SCHEMA, Touch.PREPARED_STATEMENT)
"""What raises SESSION_TRACK_STATE_CHANGE, assignments aside, and needs nothing to be done."""

_HIDING: Final = "session_track_system_variables"

_NO_DATA: Final = (
    *(Touch.FILE, Touch.ADMINISTRATION, Touch.TEMPORARY_TABLE, Touch.LOCKING_READ),
    *(Touch.TABLE_LOCK, Touch.SETTING, Touch.SEVERAL),
)
"""What may end a transaction, and writes nothing that a later read shows."""

_TAKEN_ON_THE_WAY: Final = (PinReason.NAMED_LOCK, PinReason.UNKNOWN)
"""What a statement may have taken before it failed."""

_OF_ACCOUNTS: Final = (Touch.ACCOUNT, Touch.ADMINISTRATION, Touch.DEFINITION, Touch.SEVERAL)
_PASSWORDS: Final = re.compile(rb"\b(?:USER|PASSWORD|PRIVILEGES)\b", re.IGNORECASE)
"""What a statement about accounts' passwords names, and FLUSH PRIVILEGES."""

_LOGINS: Final = re.compile(
    rb"\b(?:USER|PASSWORD|PRIVILEGES|GRANT|REVOKE|ROLE|GLOBAL|PERSIST)\b", re.IGNORECASE
)
"""The same, and what changes rights, or the values that sessions begin with."""

SHOWING: Final = (RESULTS, FETCHED)
"""Shapes of answers that may show data."""

KEEPING_DIAGNOSTICS: Final = (
    Command.COM_PING,
    Command.COM_INIT_DB,
    Command.COM_SET_OPTION,
    Command.COM_STATISTICS,
    Command.COM_STMT_RESET,
)
"""Commands behind which SHOW WARNINGS and FOUND_ROWS() still tell of the statement before."""

ZEROING_ROW_COUNT: Final = (Command.COM_PING, Command.COM_INIT_DB, Command.COM_STMT_RESET)
"""Of them those behind which ROW_COUNT() is 0."""
KEEPING_ROW_COUNT: Final = (Command.COM_STATISTICS, Command.COM_STMT_PREPARE)

_NEEDING_NO_SETTINGS: Final = (
    *KEEPING_DIAGNOSTICS,
    # These keep warnings, too, and have a ROW_COUNT() of their own.
    *(Command.COM_DEBUG, Command.COM_FIELD_LIST, Command.COM_STMT_FETCH),
    Command.COM_RESET_CONNECTION,
)
"""Commands that need none of the proxy's settings."""


def take_trackers(
    blocks: list[bytes],
    request: Request,
    state: Session,
    connection: ServerConnection,
    metrics: Metrics,
    now: float = 0.0,
    unsure: bool = False,
) -> None:
    """Learn from the trackers of a server's OK packets.

    Args:
        blocks: what they hold.
        request: the command that was answered.
        state: routing's view of the session.
        connection: whose answer it was.
        metrics: count GTIDs.
        now: monotonic, s.
        unsure: which GTIDs the connection tracks is not known for now.

    Raises:
        MalformedPacketError: a block contradicts itself.
    """
    primary = connection.server.role is Role.PRIMARY
    wanted = _OF_PRIMARY if primary else _OF_REPLICA
    asked_at = inf if primary else request.sent_at  # a primary is never asked what it had
    for block in blocks:
        request.blank = request.blank or not block
        for kind, entity in entries(block):
            if kind not in wanted:
                continue
            near = connection.server.applied if connection.tracks_all else None
            change = decode(kind, entity, near)
            if isinstance(change, Gtids):
                server = connection.server
                server.proved(change.gtids, connection.epoch, asked_at)
                if unsure and (connection.tracks_all or state.tracking == "ALL_GTIDS"):
                    continue  # its own, or all: what it wrote counts as unnamed
                if connection.tracks_all:
                    if not request.may_write and not request.is_read:
                        continue  # what a driver sets when it connects has seen nothing
                    request.observed |= change.gtids
                    state.saw(change.gtids, server, now, request.rules)
                    if not request.may_write:
                        continue
                    # What of it is its own, the server does not tell: none is left out.
                else:
                    request.own |= change.gtids
                state.wrote(change.gtids, server, now, request.rules)
                metrics.gtids_tracked(1)
            elif isinstance(change, Schema):
                state.chose_schema(change.name)
            elif isinstance(change, SystemVariable):
                variables.told(change.name.lower(), change.value, request, state)
            elif isinstance(change, StateChange):
                request.state_changed = request.state_changed or change.changed
            elif isinstance(change, UnknownGtidEncoding):
                # WL#6128 F3: what it names cannot be read, so what was written is not known.
                metrics.unknown_gtid_encoding()
                state.may_have_written(request.rules)


def committed_unnamed(
    request: Request, state: Session, server: Server, *, doubted: bool = False
) -> bool:
    """Whether a command that ended well on the primary may have committed what nobody named.

    `doubted` says that this was found out already, as a server tells it behind an EOF.
    """
    statement = request.statement
    if state.tracking == "OFF" or not server.gtids:
        return False  # nothing is named
    transaction = statement is not None and statement.kind is StatementClass.TRANSACTION
    if not (request.may_write or transaction):
        return False
    named = doubted or bool(request.own) or bool(request.observed)
    temporary = PinReason.TEMPORARY_TABLE in state.pins.reasons
    unnamed = request.unnamed
    if not state.commits.ended(statement, named, unnamed, state.in_transaction, temporary):
        return False
    state.may_have_written(request.rules)
    return True


def wrote_unlogged(request: Request, server: Server, logged: bool) -> bool:
    """Whether a command that ended on the primary may have written what no GTID stands for.

    Args:
        request: the command.
        server: the primary.
        logged: what the session wrote when it began went to the binary log.
    """
    statement = request.statement
    if request.unlogged or not request.may_write:
        return request.unlogged
    if statement is None:
        return "sql_log_bin" in request.told or not (logged and server.gtids)
    if statement.kind is StatementClass.TRANSACTION or statement.reason in _NO_DATA:
        return False
    return (
        not (logged and server.gtids)
        or statement.reason is Touch.UNLOGGED
        or "sql_log_bin" in request.told
        or any(one.name == "sql_log_bin" for one in statement.assignments)
    )


def shown(request: Request, state: Session, connection: ServerConnection, rows: int) -> bool:
    """Take note of which server a client was shown something, and of writes that nobody tracks.

    Args:
        request: the command, which has ended.
        state: routing's view of the session.
        connection: whose answer it was.
        rows: of the answer.

    Returns:
        Whether the client was shown something.
    """
    shows = request.shape in SHOWING and (rows > 0 or not _only_writes(request))
    if shows:
        state.showed(connection.server, connection.epoch, request.rules)
    if request.may_write and state.tracking == "OFF":
        state.may_have_written(request.rules)
    return shows


def changes_passwords(request: Request) -> bool:
    """Whether a statement may have changed which passwords servers take."""
    statement = request.statement
    if statement is None or statement.reason not in _OF_ACCOUNTS:
        return False
    return _PASSWORDS.search(request.text) is not None


def changes_logins(request: Request) -> bool:
    """Whether a command may have changed what a login gives, although perhaps it failed later."""
    statement = request.statement
    if statement is None:
        return request.may_write  # it was not looked at
    if any(assignment.scope in ("global", "persist") for assignment in statement.assignments):
        return True
    return statement.reason in _OF_ACCOUNTS and _LOGINS.search(request.text) is not None


def began_transaction(request: Request) -> bool:
    """Whether a command that ended well was, or began, a transaction that SET TRANSACTION shapes.

    A server spends what was set on the next statement that comes to a table. Where that cannot be
    seen, it counts as unspent, which keeps reads on the primary and changes no answer.
    """
    statement = request.statement
    if statement is None or request.command not in (Command.COM_QUERY, Command.COM_STMT_EXECUTE):
        return False
    if statement.kind is StatementClass.READ:
        return request.command == Command.COM_STMT_EXECUTE or b"FROM" in request.packet.upper()
    if statement.kind is StatementClass.TRANSACTION:
        return statement.reason is not Touch.SAVEPOINT
    return statement.reason in (Touch.DATA, Touch.DEFINITION, Touch.LOCKING_READ)


def keeps_modes(request: Request) -> bool:
    """Whether it is certain that what SET TRANSACTION shapes has not begun with this command."""
    statement = request.statement
    if statement is None or request.command == Command.COM_STMT_PREPARE:
        return not request.may_write
    if any(one.scope == "one-shot" for one in statement.assignments):
        return not statement.multi
    if statement.may_write and statement.reason is not Touch.SETTING:
        return False
    return statement.kind is StatementClass.SESSION and b"FROM" not in request.text.upper()


def may_ask_previous(request: Request) -> bool:
    """Whether a command, or one behind it, may ask about the statement before.

    Of several statements in one text only the first could, and nothing tells which of them asks.
    """
    if request.command in (Command.COM_QUERY, Command.COM_STMT_EXECUTE):
        statement = request.statement
        if statement is None or statement.multi:
            return False
        if statement.asks_previous or statement.reason is Touch.DIAGNOSTICS:
            return True
        # Profiles and optimizer traces are there, of a SET, too.
        return statement.reason is Touch.SERVER_STATE and not statement.shows_tracking
    if request.command == Command.COM_INIT_DB:
        return request.packet.isascii()  # then it tells the schema as a tracker would
    return request.command in _NEEDING_NO_SETTINGS


def counts_rows(request: Request, rows: int) -> bool:
    """Whether FOUND_ROWS() tells of this statement, which ended well with so many rows."""
    statement = request.statement
    if request.shape != RESULTS or statement is None:
        return False
    if statement.reason is Touch.DIAGNOSTICS:
        # All but SHOW WARNINGS and SHOW ERRORS: ROW_COUNT(), @@warning_count, SHOW COUNT(*) …
        return rows > 0 and b"COUNT" in request.text.upper()
    return rows > 0 or statement.kind is StatementClass.READ


def _only_writes(request: Request) -> bool:
    """Whether an answer without rows was none but an OK: it tells what was written, not read."""
    statement = request.statement
    return (
        statement is not None
        and statement.may_write
        and not statement.multi
        and not statement.calls_programs
    )


def succeeded(
    request: Request, state: Session, row: bytes | None = None, unseen: bool = False
) -> bool:
    """Take over what a statement that ended well did to the session.

    Args:
        request: the command, which has ended.
        state: routing's view of the session.
        row: the first row of its answer, as the server sent it, if that was kept.
        unseen: trackers may not have told what it changed.

    Returns:
        Whether the proxy's own settings of the primary connection must be made again.
    """
    statement = request.statement
    suspect = state.suspect
    hides = _hides(request, statement, state)
    if not state.in_transaction:
        state.pins.give(PinReason.XA_TRANSACTION)
    if statement is None:
        # A statement that was not looked at, or one before it, changed something.
        if request.may_write:
            state.user_variables.forget()
        changed = hides or request.state_changed
        return changed and (request.may_write or suspect) and mistrust(request, state)
    state.suspect = False
    if statement.holds:
        _hold(request, statement, state, row)
    if statement.may_run_programs:
        state.user_variables.forget()
    restore = statement.touches_tracking
    for assignment in statement.assignments:
        restore = variables.assigned(assignment, request, state) or restore
    names = [assignment.name for assignment in statement.assignments]
    if not variables.READ_STRINGS.isdisjoint(names):
        state.user_variables.forget_strings()
    hides = hides or (unseen and statement.may_run_programs)
    if hides or (request.state_changed and (suspect or not _explained(request, statement))):
        restore = mistrust(request, state)
    if statement.touches_tracking and statement.multi:
        # What followed the assignment may have been written untracked.
        state.may_have_written(request.rules)
    return restore


def stays(request: Request) -> bool:
    """Whether a command did what is left on its connection whatever session comes next."""
    statement = request.statement
    if statement is None:
        return request.may_write  # it was not looked at
    return any(assignment.name == "resource_group" for assignment in statement.assignments)


def failed(request: Request, state: Session, unseen: bool = False) -> bool:
    """Take over what a command may have done to the session before it failed.

    An ERR packet has no trackers: what they have to tell comes with the next OK packet.

    Args:
        request: the command, which has ended.
        state: routing's view of the session.
        unseen: as of `succeeded`.

    Returns:
        As `succeeded`.
    """
    statement = request.statement
    several = statement is not None and statement.multi
    if statement is None:
        if request.may_write:
            state.user_variables.forget()
    else:
        if statement.may_run_programs:
            state.user_variables.forget()
            if unseen:
                return mistrust(request, state)
        for assignment in statement.assignments:
            if assignment.scope == "user":
                state.user_variables.assign(assignment.name, None)
        if several and (statement.assignments or statement.pins):
            return mistrust(request, state)
        for hold in statement.holds:
            if hold.act is Act.TAKE and hold.reason in _TAKEN_ON_THE_WAY:
                state.pins.apply(hold, state.schema)
    if request.state_changed:  # before one of several results
        return mistrust(request, state)
    state.suspect = state.suspect or is_suspicious(request)
    return False


def is_suspicious(request: Request) -> bool:
    """Whether a command that failed may have changed the session, and nobody knows how."""
    statement = request.statement
    return request.may_write and (statement is None or statement.multi or statement.calls_programs)


def told_late(request: Request, state: Session) -> bool:
    """Take over what the OK packet of a statement of the proxy's own says of one that failed.

    Returns:
        As `succeeded`.
    """
    state.suspect = False
    hidden = not TRACKING.isdisjoint(request.told)
    return (request.state_changed or hidden) and mistrust(request, state)


def told_behind(request: Request, state: Session) -> bool:
    """Take over what the OK packet of a COM_PING says of the statement in front of it.

    Returns:
        As `succeeded`.
    """
    suspect, state.suspect = state.suspect, False
    changed = request.state_changed and (suspect or not explains(request))
    hidden = not TRACKING.isdisjoint(request.told)
    return (changed or hidden) and mistrust(request, state)


def explains(request: Request) -> bool:
    """Whether it is known what the statement changed in the session's state."""
    statement = request.statement
    return statement is not None and _explained(request, statement)


def _hold(request: Request, statement: Statement, state: Session, row: bytes | None) -> None:
    """Take over what a statement took and gave back."""
    worked: bool | None = None
    if row is not None and not statement.multi:
        # The value of GET_LOCK() or RELEASE_LOCK(), in text or behind a bitmap of NULLs.
        worked = row[2:3] == b"\x01" if row[:1] == b"\0" else row == b"\x011"
    for hold in statement.holds:
        if statement.multi and hold.name.startswith("."):
            # The default schema may be another one by now: what was taken has no name.
            if hold.act is Act.TAKE:
                state.pins.take(hold.reason)
        else:
            state.pins.apply(hold, state.schema, worked)


def mistrust(request: Request, state: Session) -> bool:
    """Something changed the session, perhaps tracking itself; True, for settings to be restored."""
    state.pins.take(PinReason.UNKNOWN)
    state.suspect = False
    state.may_have_written(request.rules)
    return True


def _hides(request: Request, statement: Statement | None, state: Session) -> bool:
    """Whether a statement has changed what trackers tell, and does not show it.

    Setting session_track_system_variables or session_track_state_change anew makes a server forget
    what that tracker had to tell so far. Behind an error there may be nothing to tell anyway.
    """
    told = request.told
    if told and not TRACKING.isdisjoint(told):
        shown = () if statement is None else statement.assignments
        hidden = TRACKING.intersection(told) - {one.name for one in shown}
        # Nobody has heard of sql_log_bin while the variables that are told were others.
        request.unlogged = request.unlogged or _HIDING in hidden
        return bool(hidden)
    runs = statement is None or statement.may_run_programs
    return request.blank and not state.unknown and runs


def _explained(request: Request, statement: Statement) -> bool:
    """Whether it is known what changed in the session's state (fact 1.7)."""
    if statement.reason is Touch.TEMPORARY_TABLE:
        return True
    if statement.reason is Touch.DEFINITION and not statement.multi and statement.holds:
        return True  # DROP TABLE, of a temporary one
    if statement.reason is Touch.SEVERAL:
        return True
    if statement.kind not in _HARMLESS:
        return False
    if statement.assignments or statement.reason in _RAISING:
        return True
    return b"SET_VAR" in request.text.upper()

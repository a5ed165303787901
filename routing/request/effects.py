"""What a finished command changed in its session."""

import re
from typing import Final

from protocol.constants import TEXT_ONE
from protocol.errors import ServerErrorCode
from protocol.gtid import EMPTY, GtidSet
from routing.consistency.rules import Rules
from routing.request import diagnostics, variables
from routing.request.command import Command
from routing.request.command_properties import SHOWING, explains, is_suspicious, only_writes
from routing.request.outcome import CommandOutcome
from routing.servers.topology import Server
from routing.session.diagnostics_area import ConnectionArea
from routing.session.session import Session
from routing.session.variables import TRACKING
from routing.sql.session_locks import Act, PinReason
from routing.sql.statement import Statement, StatementClass, StatementReason

_HIDING: Final = "session_track_system_variables"

_NO_DATA: Final = (
    *(
        StatementReason.FILE,
        StatementReason.ADMINISTRATION,
        StatementReason.TEMPORARY_TABLE,
        StatementReason.LOCKING_READ,
    ),
    *(StatementReason.TABLE_LOCK, StatementReason.SETTING, StatementReason.SEVERAL),
)
"""Statements that may end a transaction, and write nothing that a later read shows."""

_REFUSED: Final = ServerErrorCode.ER_ACCESS_DENIED_ERROR.code
"""IMPORT TABLE asks for the right to read files before it does anything."""

_MAYBE_XA: Final = frozenset({PinReason.XA_TRANSACTION, PinReason.UNKNOWN})
_ENDS_XA: Final = re.compile(rb"\bXA\s+(?:COMMIT|PREPARE|ROLLBACK)\b", re.IGNORECASE)
_FAILED: Final = "with an error"
_DEADLOCK: Final = ServerErrorCode.ER_LOCK_DEADLOCK.code

_TAKEN_ON_THE_WAY: Final = (PinReason.NAMED_LOCK, PinReason.UNKNOWN)
"""What a statement may have taken before it failed."""


def is_unnamed_commit(
    command: Command,
    outcome: CommandOutcome,
    state: Session,
    server: Server,
    *,
    doubted: bool = False,
) -> bool:
    """Whether a command that ended well on the primary may have committed something unreported.

    `doubted` says that this was found out already, as a server tells it after an EOF.
    """
    statement = command.statement
    if state.trackers.gtids == "OFF" or not server.gtids:
        return False  # nothing is named
    transaction = statement is not None and statement.kind is StatementClass.TRANSACTION
    if not (outcome.may_write or transaction):
        return False
    named = doubted or bool(outcome.own) or bool(outcome.observed)
    reasons = state.pins.reasons
    temporary = bool(reasons) and PinReason.TEMPORARY_TABLE in reasons
    unnamed = outcome.unnamed
    if not state.commits.ended(statement, named, unnamed, temporary):
        return False
    state.may_have_written(command.rules)
    return True


def is_unlogged_write(
    command: Command, outcome: CommandOutcome, server: Server, logged: bool
) -> bool:
    """Whether a command that ended on the primary may have written something without a GTID.

    Args:
        command: it.
        outcome: what became of it.
        server: the primary.
        logged: what the session wrote when it began went to the binary log.
    """
    statement = command.statement
    if outcome.unlogged or not outcome.may_write:
        return outcome.unlogged
    if statement is None:
        return "sql_log_bin" in outcome.tracked_variables or not (logged and server.gtids)
    if statement.kind is StatementClass.TRANSACTION or statement.reason in _NO_DATA:
        return False
    return (
        not (logged and server.gtids)
        or (statement.reason is StatementReason.UNLOGGED and outcome.error != _REFUSED)
        or "sql_log_bin" in outcome.tracked_variables
        or (
            bool(statement.assignments)
            and any(assignment.name == "sql_log_bin" for assignment in statement.assignments)
        )
    )


def may_spoil_xa(outcome: CommandOutcome, state: Session) -> bool:
    """Whether a command's error may have left an XA transaction that can only be rolled back.

    Nothing but XA ROLLBACK ends that: neither a reset nor a change of user does, and no status flag
    shows it. Of one that a stored program began only a deadlock is noticed.
    """
    error = outcome.error
    if not error:
        return False
    return error == _DEADLOCK or not _MAYBE_XA.isdisjoint(state.pins.reasons)


def record_named_write(
    gtids: GtidSet,
    outcome: CommandOutcome,
    state: Session,
    server: Server,
    rules: Rules,
    now: float,
    own: GtidSet | None = None,
) -> None:
    """A server acknowledged writes of the session's by these GTIDs, which it is known to have.

    Args:
        gtids: these.
        outcome: what became of the command that wrote them.
        state: routing's view of the session.
        server: whose answer it was.
        rules: of the command.
        now: monotonic, s.
        own: what the session's own scope has with these; None if they are still to be united. The
            next number of a sequence is united faster than a set.
    """
    outcome.own = gtids if outcome.own is EMPTY else outcome.own | gtids
    state.record_write(gtids, server, now, rules, own)


def record_observed(
    gtids: GtidSet,
    outcome: CommandOutcome,
    state: Session,
    server: Server,
    rules: Rules,
    now: float,
) -> None:
    """A server told all that it had at the end of a statement, which it is known to have.

    Args:
        gtids: all that it had.
        outcome: what became of the statement.
        state: routing's view of the session.
        server: whose answer it was.
        rules: of the command.
        now: monotonic, s.
    """
    outcome.observed |= gtids
    state.record_executed(gtids, server, now, rules)
    if outcome.may_write:
        # The server does not tell which of them are its own: none is left out.
        state.record_write(gtids, server, now, rules)


def record_result(
    command: Command, outcome: CommandOutcome, state: Session, area: ConnectionArea, epoch: int
) -> bool:
    """Take over what the end of an answer means, whatever the command was.

    What trackers told, and what a command changed in its session, was taken over before.

    Args:
        command: it has ended.
        outcome: what became of it.
        state: routing's view of the session.
        area: the diagnostics area of the connection that it ran on.
        epoch: the connection's.

    Returns:
        Whether the client was shown something.
    """
    shows = record_answer(command, outcome, state, area.server, epoch)
    diagnostics.on_end(state.diagnostics, area, command, outcome)
    return shows


def record_answer(
    command: Command, outcome: CommandOutcome, state: Session, server: Server, epoch: int
) -> bool:
    """Note which server showed a client something, and writes that nothing tracks.

    Args:
        command: it has ended.
        outcome: what became of it.
        state: routing's view of the session.
        server: whose answer it was.
        epoch: the connection's.

    Returns:
        Whether the client was shown something.
    """
    shows = command.shape in SHOWING and (outcome.rows > 0 or not only_writes(command))
    if shows:
        # That it did is news only once: while a session reads, nobody is asked what it has seen.
        scope = state.own_scope
        known = scope.unseen or (scope.seen_on is server and scope.seen_epoch == epoch)
        if not known or scope.shown_at < server.observations.looks or state.scopes.in_use:
            state.record_answer(server, epoch, command.rules)
    if outcome.may_write and state.trackers.gtids == "OFF":
        state.may_have_written(command.rules)
    return shows


def apply_success(
    command: Command,
    outcome: CommandOutcome,
    state: Session,
    row: bytes | None = None,
    unseen: bool = False,
) -> bool:
    """Take over what a statement that ended well did to the session.

    Args:
        command: it has ended.
        outcome: what became of it.
        state: routing's view of the session.
        row: the first row of its answer, as the server sent it, if that was kept.
        unseen: trackers may not have told what it changed.

    Returns:
        Whether the proxy's own settings of the primary connection must be made again.
    """
    statement = command.statement
    _create_user_variables(command, state)
    suspect = state.trackers_pending
    hides = bool(outcome.tracked_variables or outcome.untracked_change) and _hides(
        outcome, statement, state
    )
    if state.pins.reasons and not state.transaction.is_open:
        state.pins.release(PinReason.XA_TRANSACTION)
        is_spoiled = state.pins.holds(PinReason.XA_TRANSACTION, _FAILED)
        if is_spoiled and statement is not None and _ENDS_XA.search(command.text):
            state.pins.release(PinReason.XA_TRANSACTION, _FAILED)
    if statement is None:
        # A statement that was not classified, or one before it, changed something.
        if outcome.may_write:
            state.user_variables.forget()
        changed = hides or outcome.state_changed
        return changed and (outcome.may_write or suspect) and pin_unknown(command, state)
    state.trackers_pending = False
    if statement.holds:
        _hold(command, statement, outcome, state, row)
    if statement.may_run_programs:
        state.user_variables.forget()
    restore = statement.touches_tracking
    if statement.assignments:
        restore = _apply_assignments(statement, outcome, state) or restore
    hides = hides or (unseen and statement.may_run_programs)
    if hides or (outcome.state_changed and (suspect or not explains(command))):
        restore = pin_unknown(command, state)
    if statement.touches_tracking and statement.multi:
        # Writes after the assignment may not have been tracked.
        state.may_have_written(command.rules)
    return restore


def _create_user_variables(command: Command, state: Session) -> None:
    """A server creates the variables that a SET is to assign when it prepares it, as NULL."""
    statement = command.statement
    if command.prepares is not None:
        prepared = command.prepares.statement
    else:
        prepared = None if statement is None else statement.prepares
    for assignment in () if prepared is None else prepared.assignments:
        if assignment.scope == "user" and state.user_variables.value(assignment.name) == "":
            state.user_variables.assign(assignment.name, None)


def _apply_assignments(statement: Statement, outcome: CommandOutcome, state: Session) -> bool:
    """Take over what a SET assigned; whether it touched the proxy's own settings."""
    restore = False
    for assignment in statement.assignments:
        restore = variables.apply_assignment(assignment, outcome, state) or restore
    for assignment in statement.assignments:
        if assignment.name in variables.READ_STRINGS:
            state.user_variables.forget_strings()
    return restore


def apply_error(
    command: Command, outcome: CommandOutcome, state: Session, unseen: bool = False
) -> bool:
    """Take over what a command may have done to the session before it failed.

    An ERR packet has no trackers: what they have to tell comes with the next OK packet.

    Args:
        command: it has ended.
        outcome: what became of it.
        state: routing's view of the session.
        unseen: as of `apply_success`.

    Returns:
        As `apply_success`.
    """
    statement = command.statement
    if PinReason.XA_TRANSACTION in state.pins.reasons:
        # Where it was rolled back, no status flag shows that it goes on all the same.
        state.pins.acquire(PinReason.XA_TRANSACTION, _FAILED)
    if statement is None:
        if outcome.may_write:
            state.user_variables.forget()
    elif _apply_unknown_error(statement, state, unseen):
        return pin_unknown(command, state)
    if outcome.state_changed:  # before one of several results
        return pin_unknown(command, state)
    state.trackers_pending = state.trackers_pending or is_suspicious(command, outcome)
    return False


def _apply_unknown_error(statement: Statement, state: Session, unseen: bool) -> bool:
    """Take over what a statement did before it failed; whether that cannot be known."""
    if statement.may_run_programs:
        state.user_variables.forget()
        if unseen:
            return True
    for assignment in statement.assignments:
        if assignment.scope == "user":
            state.user_variables.assign(assignment.name, None)
    if statement.multi and (statement.assignments or statement.pins):
        return True
    for hold in statement.holds:
        if hold.act is Act.ACQUIRE and hold.reason in _TAKEN_ON_THE_WAY:
            state.pins.apply(hold, state.schema)
    return False


def take_trackers_after_error(command: Command, outcome: CommandOutcome, state: Session) -> bool:
    """Take over what the OK of one of the proxy's statements says of a statement that failed.

    Returns:
        As `apply_success`.
    """
    state.trackers_pending = False
    hidden = not TRACKING.isdisjoint(outcome.tracked_variables)
    return (outcome.state_changed or hidden) and pin_unknown(command, state)


def take_trackers_of_ping(command: Command, outcome: CommandOutcome, state: Session) -> bool:
    """Take over what the OK packet of a COM_PING says of the statement before it.

    Returns:
        As `apply_success`.
    """
    suspect, state.trackers_pending = state.trackers_pending, False
    changed = outcome.state_changed and (suspect or not explains(command))
    hidden = not TRACKING.isdisjoint(outcome.tracked_variables)
    return (changed or hidden) and pin_unknown(command, state)


def _hold(
    command: Command,
    statement: Statement,
    outcome: CommandOutcome,
    state: Session,
    row: bytes | None,
) -> None:
    """Take over what a statement took and released."""
    prepared = command.prepared
    worked: bool | None = None
    if row is not None and not statement.multi:
        # The value of GET_LOCK() or RELEASE_LOCK(), in text or behind a bitmap of NULLs.
        worked = row[2:3] == b"\x01" if row[:1] == b"\0" else row == TEXT_ONE
    # A cursor has evaluated its rows; of several statements nobody knows which of them had any.
    with_row = (
        outcome.rows > 0 or row is not None or (prepared is not None and prepared.asks_cursor)
    )
    for hold in statement.holds:
        if hold.selected and (statement.multi or not with_row):
            continue
        if statement.multi and hold.name.startswith("."):
            # The default schema may have changed: the name of what was taken is not known.
            if hold.act is Act.ACQUIRE:
                state.pins.acquire(hold.reason)
        else:
            state.pins.apply(hold, state.schema, worked)


def pin_unknown(command: Command, state: Session) -> bool:
    """Something changed the session, perhaps tracking itself; True, for settings to be restored."""
    state.pins.acquire(PinReason.UNKNOWN)
    state.trackers_pending = False
    state.may_have_written(command.rules)
    return True


def _hides(outcome: CommandOutcome, statement: Statement | None, state: Session) -> bool:
    """Whether a statement has changed what trackers tell, and does not show it.

    Setting session_track_system_variables or session_track_state_change again makes a server forget
    what that tracker had still to report. After an error there may be nothing to report anyway.
    """
    reported = outcome.tracked_variables
    if reported and not TRACKING.isdisjoint(reported):
        shown = () if statement is None else statement.assignments
        hidden = TRACKING.intersection(reported) - {assignment.name for assignment in shown}
        # A change of sql_log_bin was not reported while other variables were tracked.
        outcome.unlogged = outcome.unlogged or _HIDING in hidden
        return bool(hidden)
    if state.unknown or not outcome.untracked_change:
        return False
    return statement is None or statement.may_run_programs

"""The values of a session's system variables, from trackers and from SET statements.

A variable's value is carried to replicas, keeps the session on the primary, or means nothing to
them (`routing.session.variables`).
"""

from typing import Final

from protocol.constants import AUTOCOMMIT
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.session.defaults import flags_between
from routing.session.session import Session
from routing.session.variables import (
    CARRIED,
    FLAGS,
    NOT_CARRIED,
    PINNING,
    SWE7,
    SWITCH,
    TRACKING,
    character_set,
    collation_of,
    has_letters_for_signs,
    literal_of,
    pins,
    switched,
)
from routing.sql.session_locks import PinReason
from routing.sql.statement import Assignment, Statement
from routing.transaction.modes import is_on

_CHARACTER_SETS: Final = frozenset({"names", "character set", "character_set_client"})
_NAMING: Final = ("names", "character set")
_BY_NAMES: Final = ("character_set_client", "character_set_connection", "character_set_results")
_BEHIND_NAMES: Final = (*_BY_NAMES, "collation_connection", "default_collation_for_utf8mb4")
_OF_SCHEMA: Final = ("collation_database", "character_set_database")
"""These are the default schema's, until a client sets them."""
_OF_TRANSACTION: Final = ("autocommit", "transaction_read_only")
READ_STRINGS: Final = _CHARACTER_SETS | {
    *("character_set_connection", "collation_connection", "sql_mode"),
    *("default_collation_for_utf8mb4",),
}
"""What a string literal's value and collation depend on."""


def take_tracked_value(
    name: str, value: str, command: Command, outcome: CommandOutcome, state: Session
) -> None:
    """Take over the value of a system variable that a tracker of the primary's tells."""
    if name == SWITCH and SWITCH not in state.defaults.values:
        return  # what has changed in it is not known: it is taken from the statement
    outcome.tracked_variables |= {name}
    if name == "character_set_results":
        state.results = value
    if name == "sql_log_bin" and state.trackers_pending:
        outcome.unlogged = True  # it is told of what failed
    if name in _OF_TRANSACTION:
        _mode_told(name, is_on(value), state)
    elif name == "session_track_system_variables" and not value:
        state.trackers.set(name, "NULL")  # no tracker reports an empty list
    elif name in TRACKING:
        state.trackers.set(name, f"'{value}'")
    elif name in PINNING:
        _pin(name, value, state)
    elif name == SWITCH:
        _carry_flags(value, state)
    elif name in CARRIED and not _shows(command.statement, name):
        _carry_told(name, literal_of(name, value), state)


def _mode_told(name: str, on: bool, state: Session) -> None:
    if name == "autocommit":
        state.transaction.on_autocommit_tracked(on)
    else:
        state.transaction.modes.read_only = on


def _carry_told(name: str, literal: str | None, state: Session) -> None:
    """Let replicas have what a tracker tells, if that can be written as a literal."""
    if literal is None:
        state.pins.acquire(PinReason.VARIABLE, name)
    else:
        _carry(name, literal, state)


def _shows(statement: Statement | None, name: str) -> bool:
    """Whether the statement itself shows the variable's value, perhaps with what trackers omit.

    SET NAMES … COLLATE is such a statement: no tracker reports the collation.
    """
    if statement is None or statement.multi:
        return False
    if any(assignment.name == name for assignment in statement.assignments):
        return False  # perhaps behind the other
    for assignment in statement.assignments:
        value = assignment.value
        if value is None or value.upper() == "DEFAULT" or assignment.scope != "session":
            continue
        if assignment.name in _NAMING and name in _BY_NAMES:
            return True
    return False


def apply_assignment(assignment: Assignment, outcome: CommandOutcome, state: Session) -> bool:
    """Take over one assignment of a SET; whether it touched the proxy's own settings."""
    name = assignment.name
    value = assignment.value
    if assignment.scope == "user":
        state.user_variables.assign(name, value)
    elif assignment.scope == "one-shot":
        state.transaction.modes.set_next(name, value)
    elif assignment.scope == "session":
        if name in TRACKING:
            if name not in outcome.tracked_variables:
                state.trackers.set(name, value)
            return True
        _set(name, value, outcome, state)
    return False


def set_mode(assignment: Assignment, state: Session) -> None:
    """Take over autocommit, or the access mode of transactions, where no server is told of it.

    The primary to come is given them as the session's (`Session.primary_variables`).
    """
    name, on = assignment.name, is_on(assignment.value)
    transaction = state.transaction
    state.primary_variables[name] = assignment.value
    if name == "autocommit":
        transaction.on_autocommit_set(on)
        transaction.status = transaction.status & ~AUTOCOMMIT | (AUTOCOMMIT if on else 0)
    else:
        transaction.modes.read_only = on


def _set(name: str, value: str | None, outcome: CommandOutcome, state: Session) -> None:
    """Take over the value of a session variable; None if the statement does not show it."""
    if name in NOT_CARRIED:
        state.primary_variables[name] = value
    if name in _OF_TRANSACTION:
        if name not in outcome.tracked_variables:
            _set_mode(name, value, state)
    elif name == "gtid_next":
        if "ANONYMOUS" in (value or "ANONYMOUS").upper():
            state.pins.acquire(PinReason.VARIABLE, name)
        else:
            state.pins.release(PinReason.VARIABLE, name)
    elif name in NOT_CARRIED or _has_been_told(name, value, outcome):
        _carry_behind_names(name, outcome, state)
    elif name == "role" and value is not None:
        state.pins.release(PinReason.VARIABLE, name)
        state.set_role(value)
    elif name in PINNING:
        _pin(name, value, state)
    elif value is None or name in _OF_SCHEMA:
        _set_unknown(name, state)
    else:
        _carry(name, value, state)


def _set_mode(name: str, value: str | None, state: Session) -> None:
    if name == "autocommit":
        state.transaction.on_autocommit_set(is_on(value))
    else:
        state.transaction.modes.read_only = False  # no tracker says what it is


def _carry_behind_names(name: str, outcome: CommandOutcome, state: Session) -> None:
    """Tell replicas again what a NAMES in front of it would undo, or give another meaning."""
    if name == "character set" and "collation_connection" not in outcome.tracked_variables:
        _carry("collation_connection", collation_of(state.schema), state)
    literal = state.variables.get(name) if name in _BEHIND_NAMES else None
    if literal is not None and not state.pins.holds(PinReason.VARIABLE, name):
        _carry(name, literal, state)


def _set_unknown(name: str, state: Session) -> None:
    """Keep the session on the primary, which alone knows the value."""
    if name == "sql_mode":
        state.lexer_modes.set_sql_mode(None)
    if name in _CHARACTER_SETS:
        state.lexer_modes.set_character_set(None)
    state.pins.acquire(PinReason.VARIABLE, name)


def _has_been_told(name: str, value: str | None, outcome: CommandOutcome) -> bool:
    """Whether a tracker has told what the assignment did."""
    if name in _NAMING and value == "DEFAULT":
        return not outcome.tracked_variables.isdisjoint(_BY_NAMES)
    return name in outcome.tracked_variables and (name in CARRIED or name in PINNING)


def _carry(name: str, literal: str, state: Session) -> None:
    """Let replicas have a variable, too."""
    if name in _CHARACTER_SETS:
        state.lexer_modes.set_character_set(literal)
    if name in READ_STRINGS:
        state.user_variables.forget_strings()
    if name == SWITCH:
        _carry_switch(literal, state)
        return
    if name == "sql_mode":
        state.lexer_modes.set_sql_mode(literal)
        if not state.lexer_modes.known:
            state.pins.acquire(PinReason.VARIABLE, name)
            return
    state.pins.release(PinReason.VARIABLE, name)
    if name in _CHARACTER_SETS:
        state.pins.release(PinReason.VARIABLE, "names")
        _pin_client_set(literal, state)
    if name == "character set":
        literal = character_set(literal, state.schema)
    state.set_variable(name, literal)


def _pin_client_set(literal: str, state: Session) -> None:
    """Keep a session on the primary while its client's texts look like others."""
    if has_letters_for_signs(literal):
        state.pins.acquire(PinReason.VARIABLE, SWE7)
    else:
        state.pins.release(PinReason.VARIABLE, SWE7)


def _carry_switch(literal: str, state: Session) -> None:
    made = switched(literal, state.variables.get(FLAGS, ""))
    if made is None:
        state.pins.acquire(PinReason.VARIABLE, SWITCH)
        return
    everything, flags = made
    if everything:
        state.variables.pop(FLAGS, None)
        state.set_variable(SWITCH, everything)
    if len(flags) > 2:
        state.set_variable(FLAGS, flags)
    state.pins.release(PinReason.VARIABLE, SWITCH)


def _carry_flags(value: str, state: Session) -> None:
    """The whole value is known: replicas are told the flags that are not as the session began."""
    flags = flags_between(state.defaults.values[SWITCH], value, state.variables.get(FLAGS, ""))
    state.variables.pop(SWITCH, None)
    if flags:
        state.set_variable(FLAGS, flags)
    state.pins.release(PinReason.VARIABLE, SWITCH)


def _pin(name: str, value: str | None, state: Session) -> None:
    if pins(name, value):
        state.pins.acquire(PinReason.VARIABLE, name)
    else:
        state.pins.release(PinReason.VARIABLE, name)

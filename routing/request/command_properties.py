"""What a command is known to do or to ask, from its class and its answer. Pure functions."""

import re
from typing import Final

from protocol.constants import Command as Code
from protocol.response_stream import FETCHED, RESULTS
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.session.diagnostics_area import KEEPING_CONDITIONS
from routing.sql.statement import Statement, StatementClass, StatementReason, may_read_tables

_HARMLESS: Final = (StatementClass.READ, StatementClass.SESSION, StatementClass.TRANSACTION)

_RAISING: Final = (StatementReason.DEFAULT_SCHEMA, StatementReason.PREPARED_STATEMENT)
"""What, apart from assignments, raises SESSION_TRACK_STATE_CHANGE and needs no action."""

OF_ACCOUNTS: Final = (
    StatementReason.ACCOUNT,
    StatementReason.ADMINISTRATION,
    StatementReason.DEFINITION,
    StatementReason.SEVERAL,
)
"""What statements touch that may change passwords and rights."""

_PASSWORDS: Final = re.compile(rb"\b(?:USER|PASSWORD|PRIVILEGES)\b", re.IGNORECASE)
"""What a statement about accounts' passwords names, and FLUSH PRIVILEGES."""

_LOGINS: Final = re.compile(
    rb"\b(?:USER|PASSWORD|PRIVILEGES|GRANT|REVOKE|ROLE|GLOBAL|PERSIST|DATABASE|SCHEMA)\b",
    re.IGNORECASE,
)
"""The same, and what changes rights, schemas, or the values that sessions begin with."""

_RESET: Final = re.compile(
    rb"\s*RESET\s++(?:[A-Z\s,]+,\s*)?(?:BINARY\s+LOGS\s+AND\s+GTIDS|MASTER)\b", re.IGNORECASE
)
"""RESET BINARY LOGS AND GTIDS, before 8.2 RESET MASTER, if no comment is in the way."""

_EXPLAINING: Final = (StatementReason.METADATA, StatementReason.PLAN)
"""Reads that may name a table without reading it."""

SHOWING: Final = (RESULTS, FETCHED)
"""Shapes of answers that may show data."""

_NEEDING_NO_SETTINGS: Final = (
    *KEEPING_CONDITIONS,
    Code.COM_STMT_PREPARE,  # it keeps FOUND_ROWS() and ROW_COUNT()
    Code.COM_RESET_CONNECTION,
)
"""Commands that need none of the proxy's settings."""


def changes_passwords(command: Command) -> bool:
    """Whether a statement may have changed which passwords servers take."""
    statement = command.statement
    if statement is None or statement.reason not in OF_ACCOUNTS:
        return False
    return _names(command, _PASSWORDS)


def changes_logins(command: Command, outcome: CommandOutcome) -> bool:
    """Whether a command may have changed what a login gives, although perhaps it failed later."""
    statement = command.statement
    if statement is None:
        return outcome.may_write  # it was not looked at
    assignments = statement.assignments
    if assignments and any(assignment.scope in ("global", "persist") for assignment in assignments):
        return True
    return statement.reason in OF_ACCOUNTS and _names(command, _LOGINS)


def takes_gtids(sql: bytes) -> bool:
    """Whether a statement takes all its GTIDs from a server, for certain."""
    return _RESET.match(sql) is not None


def _names(command: Command, words: re.Pattern[bytes]) -> bool:
    """Whether a statement's text has one of these words, or is too long to be known."""
    prepared = command.prepared
    text = command.text if prepared is None else prepared.sql
    return not text or b"EXECUTE" in text.upper() or words.search(text) is not None


def begins_transaction(command: Command) -> bool:
    """Whether a command that ended well was, or began, a transaction that SET TRANSACTION shapes.

    A server uses up what was set at the next statement that accesses a table. Where that cannot be
    seen, it counts as still set, which keeps reads on the primary and changes no answer.
    """
    statement = command.statement
    if statement is None or command.code not in (Code.COM_QUERY, Code.COM_STMT_EXECUTE):
        return False
    reason = statement.reason
    if statement.kind is StatementClass.READ:
        return bool(statement.identifiers) and reason not in _EXPLAINING
    if statement.kind is StatementClass.TRANSACTION:
        return reason is not StatementReason.SAVEPOINT
    if reason is StatementReason.LOCKING_READ:
        return bool(statement.identifiers)
    return reason is StatementReason.DATA or reason is StatementReason.DEFINITION


def keeps_modes(command: Command, outcome: CommandOutcome) -> bool:
    """Whether it is certain that a transaction that SET TRANSACTION shapes did not begin here."""
    statement = command.statement
    if statement is None or command.code == Code.COM_STMT_PREPARE:
        return not outcome.may_write
    if any(assignment.scope == "one-shot" for assignment in statement.assignments):
        return not statement.multi
    if statement.may_write and statement.reason is not StatementReason.SETTING:
        return False
    return statement.kind is StatementClass.SESSION and not may_read_tables(command.text)


def may_ask_previous(command: Command) -> bool:
    """Whether a command, or a later part of it, may ask about the statement before.

    Of several statements in one text only the first could, and nothing tells which of them asks.
    """
    if command.code in (Code.COM_QUERY, Code.COM_STMT_EXECUTE):
        statement = command.statement
        if statement is None or statement.multi:
            return False
        if statement.asks or statement.reason is StatementReason.DIAGNOSTICS:
            return True
        # Profiles and optimizer traces are there, of a SET, too.
        return statement.reason is StatementReason.SERVER_STATE and not statement.shows_tracking
    if command.code == Code.COM_INIT_DB:
        return command.packet.isascii()  # then it tells the schema as a tracker would
    return command.code in _NEEDING_NO_SETTINGS


def may_set(command: Command) -> bool:
    """Whether a command, by its text, may set system variables or the default schema."""
    statement = command.statement
    if statement is None or statement.multi or statement.text_prepared is not None:
        return True
    if statement.reason is StatementReason.DEFAULT_SCHEMA:
        return True
    return any(assignment.scope != "user" for assignment in statement.assignments)


def only_writes(command: Command) -> bool:
    """Whether an answer without rows was just an OK: it tells what was written, not read."""
    statement = command.statement
    return (
        statement is not None
        and statement.may_write
        and not statement.multi
        and not statement.calls_programs
    )


def stays(command: Command, outcome: CommandOutcome) -> bool:
    """Whether a command left state on its connection that outlasts the session."""
    statement = command.statement
    if statement is None:
        return outcome.may_write  # it was not looked at
    assignments = statement.assignments
    return bool(assignments) and any(
        assignment.name == "resource_group" for assignment in assignments
    )


def is_suspicious(command: Command, outcome: CommandOutcome) -> bool:
    """Whether a command that failed may have changed the session in an unknown way."""
    statement = command.statement
    return outcome.may_write and (statement is None or statement.multi or statement.calls_programs)


def explains(command: Command) -> bool:
    """Whether it is known what the statement changed in the session's state."""
    statement = command.statement
    return statement is not None and _explained(command, statement)


def _explained(command: Command, statement: Statement) -> bool:
    """Whether it is known what changed in the session's state (fact 1.7)."""
    if statement.reason is StatementReason.TEMPORARY_TABLE:
        return True
    if statement.reason is StatementReason.DEFINITION and not statement.multi and statement.holds:
        return True  # DROP TABLE, of a temporary one
    if statement.reason is StatementReason.SEVERAL:
        return True
    if statement.kind not in _HARMLESS:
        return False
    if statement.assignments or statement.reason in _RAISING:
        return True
    return b"SET_VAR" in command.text.upper()

"""What can be found out about a statement: its class, why, and what it does to its session."""

from dataclasses import dataclass
from typing import NamedTuple

from routing.sql.session_locks import SessionLock
from routing.stable_enum import StableStrEnum


class StatementClass(StableStrEnum):
    """Where a statement may run."""

    READ = "read"
    """Only reads replicated data: any server that proved to have what must be seen."""
    WRITE = "write"
    """May change data, or cannot be shown not to."""
    TRANSACTION = "transaction"
    """Begins, ends or shapes a transaction."""
    SESSION = "session"
    """Reads or changes what lives in the session's own connection, or in its server alone."""
    PIN = "pin"
    """Leaves state on the connection that later statements need."""
    DIAGNOSTIC = "diagnostic"
    """Asks about the previous statement; goes where that ran."""
    PROXY = "proxy"
    """Addresses Tidegate itself, which answers it; no server sees it."""


class StatementReason(StableStrEnum):
    """Why a statement has its class; closed, for metrics and logs."""

    NOTHING = "nothing"
    """A plain read."""
    DATA = "data"
    DEFINITION = "definition"
    ACCOUNT = "account"
    ADMINISTRATION = "administration"
    PROCEDURE = "procedure"
    FILE = "file"
    LOCKING_READ = "locking read"
    UNKNOWN_FUNCTION = "unknown function"
    """A call that may be of a stored or loadable function."""
    UNLOGGED = "unlogged"
    """Writes something that does not go to the binary log: IMPORT TABLE."""
    UNKNOWN_STATEMENT = "unknown statement"
    UNREADABLE = "unreadable text"
    """Unterminated, or bytes that another character set reads in another way."""
    TOO_LONG = "too long"
    MULTIPLE = "multiple statements"
    SEVERAL = "several harmless statements"
    """None of them writes, or runs an unclassified statement."""
    TRANSACTION = "transaction"
    SAVEPOINT = "savepoint"
    SETTING = "setting"
    DEFAULT_SCHEMA = "default schema"
    USER_VARIABLE = "user variable"
    SYSTEM_VARIABLE = "system variable"
    SESSION_FUNCTION = "session function"
    LOCK_FUNCTION = "lock function"
    STATUS = "session status"
    """SHOW STATUS or VARIABLES of some names; some are not like the others."""
    SERVER_STATE = "server state"
    """State that each server has by itself: status, processes, performance_schema, logs."""
    METADATA = "metadata"
    """The dictionary as a server shows it, with statistics, defaults and counters of its own."""
    PLAN = "plan"
    """EXPLAIN of a plain read."""
    TEMPORARY_TABLE = "temporary table"
    TABLE_LOCK = "table lock"
    HANDLER = "handler"
    PREPARED_STATEMENT = "prepared statement"
    EXECUTED = "executed statement"
    """EXECUTE of a statement whose text is not known."""
    DIAGNOSTICS = "diagnostics"
    FOUND_ROWS = "found rows"
    """Asks about the last statement that had rows, which need not be the last one."""
    KILL = "kill"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True)
class Assignment:
    """One assignment of a SET statement.

    Attributes:
        scope: "session", "global", "persist", "user" (a user variable) or "one-shot" (for the next
            transaction only).
        name: in lower case and without quotes or @. "names", "character set", "role" and
            "resource_group" stand for SET NAMES and the like.
        value: the SQL text as written, if it means the same on every server: a literal, a bare
            word, for "names" also a COLLATE clause. Otherwise None; so for a user variable that is
            assigned in another way than by SET.
    """

    scope: str
    name: str
    value: str | None


class Verdict(NamedTuple):
    """What the grammar finds about one statement; see `routing.sql.statement.Statement`."""

    kind: StatementClass
    reason: StatementReason
    may_write: bool = False
    holds: tuple[SessionLock, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    kill_target: int | None = None
    user_variables: tuple[str, ...] = ()
    asks: int = 0
    shows_tracking: bool = False

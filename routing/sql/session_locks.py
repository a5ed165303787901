"""What statements take and release that a connection holds and no other can be given.

A temporary table, a lock, a handler. `routing.sql.lock_parsing` finds the holds of a statement, and
`routing.session.pins` remembers what a session holds.
"""

from enum import Enum
from typing import Final, NamedTuple

from routing.stable_enum import StableStrEnum


class PinReason(StableStrEnum):
    """Why a session stays on the primary; closed, for metrics."""

    TEMPORARY_TABLE = "temporary table"
    TABLE_LOCK = "table lock"
    """LOCK TABLES."""
    GLOBAL_READ_LOCK = "global read lock"
    """FLUSH TABLES WITH READ LOCK or FOR EXPORT; no START TRANSACTION releases it."""
    BACKUP_LOCK = "backup lock"
    NAMED_LOCK = "named lock"
    """GET_LOCK(): it orders this session's reads after what other sessions wrote under it, which
    only the primary is sure to show."""
    HANDLER = "handler"
    STATUS_COUNTERS = "status counters"
    """FLUSH STATUS: its client wants to count what this session does from then on."""
    XA_TRANSACTION = "xa transaction"
    VARIABLE = "variable"
    """A system variable that a replica cannot be told, or whose effect it cannot have."""
    UNKNOWN = "unknown"
    """A statement that was not classified may have taken anything."""


class Act(Enum):
    """What a statement does with something that can be held."""

    ACQUIRE = 1
    RELEASE = 2
    GIVE_ALL = 3
    """Releases all that is held for this reason."""
    BLUR = 4
    """Whatever is held for this reason may have another name now."""


class SessionLock(NamedTuple):
    """That a statement takes something, or releases it.

    Attributes:
        act: which of the two.
        reason: what kind of thing it is.
        name: what it is called; "" if that cannot be told. A table is `` `schema`.`table` ``, and
            ``.`table` `` in the default schema.
        once: of a named lock: the statement takes or releases it exactly once, and its only value
            is whether it did.
        selected: of named locks that are released: a SELECT does it, and does not where it has no
            row, as under sql_select_limit = 0.
    """

    act: Act
    reason: PinReason
    name: str = ""
    once: bool = False
    selected: bool = False

    def named_in(self, schema: str) -> "SessionLock":
        """The same, with its whole name, of a statement that runs in this default schema."""
        if not self.name.startswith("."):
            return self
        return self._replace(name=f"{quoted(schema)}{self.name}")


UNKNOWN_HOLD: Final = SessionLock(Act.ACQUIRE, PinReason.UNKNOWN)


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"

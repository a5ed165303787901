"""The stages of a transaction (`routing.transaction.transaction`), and where which event leads."""

from typing import Final, Literal

from routing.unexpected_event import UnexpectedEventError

Stage = Literal[
    "none",
    "primary",
    "read_only",
    "read_only_per_statement",
    "read_only_on_replica",
    "read_only_on_primary",
    "per_statement",
    "per_statement_moved",
    "snapshot",
    "snapshot_on_replica",
    "snapshot_on_primary",
    "snapshot_moved",
]

NONE: Final = "none"
"""No transaction is open, or none that anybody knows of."""
PRIMARY: Final = "primary"
"""All of it runs on the primary."""

READ_ONLY: Final = "read_only"
"""It is READ ONLY, and its snapshot is not taken yet: a replica may take it."""
READ_ONLY_PER_STATEMENT: Final = "read_only_per_statement"
"""It is READ ONLY, and each statement has a snapshot of its own: each read goes its own way."""
READ_ONLY_ON_REPLICA: Final = "read_only_on_replica"
"""It is READ ONLY, and reads from a replica's snapshot."""
READ_ONLY_ON_PRIMARY: Final = "read_only_on_primary"
"""It is READ ONLY, and reads on the primary, which has taken the snapshot, or may have."""

PER_STATEMENT: Final = "per_statement"
"""It may write, and each statement has a snapshot of its own: each read goes its own way."""
PER_STATEMENT_MOVED: Final = "per_statement_moved"
"""It was such a one until a statement came that is no plain read: what follows is the primary's."""

SNAPSHOT: Final = "snapshot"
"""It may write, and its snapshot is not taken yet: a replica may take it."""
SNAPSHOT_ON_REPLICA: Final = "snapshot_on_replica"
"""It may write, and reads from a replica's snapshot until it does."""
SNAPSHOT_ON_PRIMARY: Final = "snapshot_on_primary"
"""It may write, and the primary took its snapshot, or may have, before any replica did."""
SNAPSHOT_MOVED: Final = "snapshot_moved"
"""It has read from a replica's snapshot, and goes on from one of the primary's."""

Event = Literal[
    "opened",
    "closed",
    "began_read_only",
    "began_read_only_per_statement",
    "began_per_statement",
    "began_snapshot",
    "read_on_replica",
    "read_on_primary",
    "withdrawn",
    "moved",
    "ended",
]
"""What can happen to a transaction.

opened, closed: the primary's status flags tell of one, or of none; after an error one may be open.
began_…: by a statement, or implied by a read with autocommit off.
read_on_replica, read_on_primary: a server takes the snapshot.
withdrawn: the read that was to take it on a replica goes elsewhere.
moved: what follows runs on the primary.
ended: it is over, or it may be another one.
"""

_READING: Final[tuple[Stage, ...]] = (
    *(READ_ONLY, READ_ONLY_PER_STATEMENT, READ_ONLY_ON_REPLICA, READ_ONLY_ON_PRIMARY),
    *(PER_STATEMENT, PER_STATEMENT_MOVED),
    *(SNAPSHOT, SNAPSHOT_ON_REPLICA, SNAPSHOT_ON_PRIMARY, SNAPSHOT_MOVED),
)
"""Stages at which replicas have read, or may."""

_BEGUN: Final[dict[Event, Stage]] = {
    "began_read_only": READ_ONLY,
    "began_read_only_per_statement": READ_ONLY_PER_STATEMENT,
    "began_per_statement": PER_STATEMENT,
    "began_snapshot": SNAPSHOT,
}

TABLE: Final[dict[tuple[Stage, Event], Stage]] = {
    (NONE, "opened"): PRIMARY,
    (PRIMARY, "closed"): NONE,
    **{(NONE, event): stage for event, stage in _BEGUN.items()},
    **{(PRIMARY, event): stage for event, stage in _BEGUN.items()},
    # A READ ONLY transaction.
    (READ_ONLY, "read_on_replica"): READ_ONLY_ON_REPLICA,
    (READ_ONLY, "read_on_primary"): READ_ONLY_ON_PRIMARY,
    (READ_ONLY_PER_STATEMENT, "read_on_primary"): READ_ONLY_ON_PRIMARY,
    (READ_ONLY_ON_REPLICA, "withdrawn"): READ_ONLY,
    # One that may write, and reads per statement.
    (PER_STATEMENT, "moved"): PER_STATEMENT_MOVED,
    # One that may write, and reads from a snapshot.
    (SNAPSHOT, "read_on_replica"): SNAPSHOT_ON_REPLICA,
    (SNAPSHOT, "read_on_primary"): SNAPSHOT_ON_PRIMARY,
    (SNAPSHOT_ON_REPLICA, "withdrawn"): SNAPSHOT,
    (SNAPSHOT_ON_REPLICA, "moved"): SNAPSHOT_MOVED,
    **{(stage, "ended"): NONE for stage in _READING},
}
"""Where an event leads at a stage. Any other is a defect."""


def after(stage: Stage, event: Event) -> Stage:
    """The stage that an event leads to.

    Raises:
        UnexpectedEventError: it cannot come at this stage.
    """
    following = TABLE.get((stage, event))
    if following is None:
        raise UnexpectedEventError(event, stage)
    return following

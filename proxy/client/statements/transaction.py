"""Begins and ends transactions on servers, and asks what their snapshots show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.server.exchange import (
    END,
    REPLAY_SETTING,
    ROLLBACK,
    SETUP,
    SNAPSHOT,
    SNAPSHOT_AFTER,
    SNAPSHOT_BEFORE,
)
from proxy.server.gtid_question import PROBE_SQL
from proxy.server.query import END_TRANSACTION
from proxy.server.statement_packet import statement_packet
from routing.transaction.replica_snapshot import ReplicaSnapshot

if TYPE_CHECKING:
    from proxy.server.exchange import Batch, Exchange
    from proxy.server.mirror import Mirror
    from routing.transaction.replica_reads import ReplicaReads

END_BY_AUTOCOMMIT: Final = b"SET autocommit=1"
START_READ_ONLY: Final = b"START TRANSACTION READ ONLY"
START_READ_WRITE: Final = b"START TRANSACTION READ WRITE"
START_SNAPSHOT_READ_ONLY: Final = b"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
START_SNAPSHOT_READ_WRITE: Final = b"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ WRITE"
ROLL_BACK: Final = b"ROLLBACK AND NO CHAIN NO RELEASE"


def begin_transaction(mirror: Mirror, reads: ReplicaReads, query_attributes: bool) -> Batch:
    """What begins a READ ONLY transaction on a replica as the client did."""
    mirror.transaction_reads = reads
    mirror.untouched = False
    batch: Batch = ()
    if not reads.autocommit:
        batch = ((SETUP, statement_packet(b"SET autocommit=0", query_attributes)),)
    if isinstance(reads, ReplicaSnapshot):
        batch += _take_snapshot(SETUP, START_SNAPSHOT_READ_ONLY, query_attributes)
    elif reads.begun or not reads.implied:
        batch += ((SETUP, statement_packet(START_READ_ONLY, query_attributes)),)
    return batch


def _take_snapshot(start: Exchange, sql: bytes, query_attributes: bool) -> Batch:
    """A snapshot that is taken now, and the questions by which it is known what it shows."""
    probe = statement_packet(PROBE_SQL, query_attributes)
    return (
        (SNAPSHOT_BEFORE, probe),
        (start, statement_packet(sql, query_attributes)),
        (SNAPSHOT_AFTER, probe),
    )


def take_primary_snapshot(query_attributes: bool) -> Batch:
    """The primary's own snapshot for a transaction that was a replica's.

    Nothing was done in the primary's transaction yet; that it begins again shows nowhere.
    """
    return _take_snapshot(SNAPSHOT, START_SNAPSHOT_READ_WRITE, query_attributes)


def roll_back(query_attributes: bool) -> Batch:
    """The end of a transaction that cannot go on."""
    return ((ROLLBACK, statement_packet(ROLL_BACK, query_attributes)),)


def begin_implied(reads: ReplicaReads, query_attributes: bool) -> Batch:
    """Let the primary hear of the transaction that a read on a replica has begun, before all else.

    Then it refuses what cannot be done in one, and its status flags tell of it.
    """
    sql = START_READ_WRITE if reads.may_write else START_READ_ONLY
    return ((REPLAY_SETTING, statement_packet(sql, query_attributes)),)


def end_transaction(mirror: Mirror, query_attributes: bool) -> Batch:
    """Ends what was begun there, if anything was: by COMMIT, since nothing was written."""
    reads, mirror.transaction_reads = mirror.transaction_reads, None
    if reads is None:
        return ()
    end = END_TRANSACTION if reads.autocommit else END_BY_AUTOCOMMIT
    return ((END, statement_packet(end, query_attributes)),)

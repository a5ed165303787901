"""Sessions in the middle of a transaction, brought there by what happens to it."""

from protocol.constants import AUTOCOMMIT, IN_TRANS, IN_TRANS_READONLY
from protocol.gtid import EMPTY, GtidSet
from routing.consistency.rules import Rules
from routing.servers.topology import Role, Server
from routing.session.session import Session
from routing.sql.statement import classify
from routing.transaction.snapshot import Snapshot

_PRIMARY = Server("primary", Role.PRIMARY)


def run(session: Session, sql: str, status: int = AUTOCOMMIT) -> None:
    """Let a statement end well on the primary."""
    statement, text = classify(sql.encode()), sql.encode()
    may_write = statement.may_write
    session.transaction.on_ok(
        status, statement, text, session, _PRIMARY, may_write=may_write, ran=True
    )


def open_transaction(session: Session) -> None:
    """Let one be open of which nobody knows how it began."""
    session.transaction.on_restore(IN_TRANS)


def fail(session: Session) -> None:
    """Let something fail that may have opened or ended a transaction."""
    session.transaction.on_error(None, may_write=False, may_open=True)


def open_read_only(session: Session, *, autocommit: bool = True) -> Snapshot:
    """Let the client have begun a READ ONLY transaction."""
    status = IN_TRANS | IN_TRANS_READONLY | (AUTOCOMMIT if autocommit else 0)
    run(session, "START TRANSACTION READ ONLY", status)
    snapshot = session.transaction.snapshot
    assert snapshot is not None
    return snapshot


def open_writing(session: Session) -> None:
    """Let the client have begun a READ WRITE transaction."""
    run(session, "BEGIN", IN_TRANS | AUTOCOMMIT)


def take_snapshot(
    session: Session,
    replica: Server,
    gtids: GtidSet = EMPTY,
    *,
    rules: Rules | None = None,
    required: GtidSet = EMPTY,
    stale: bool = False,
) -> None:
    """Let a read on a replica take the transaction's snapshot."""
    used_rules = session.rules if rules is None else rules
    session.transaction.on_snapshot(replica, gtids, used_rules, required, 0, stale=stale)


def open_on_replica(
    session: Session,
    replica: Server,
    gtids: GtidSet = EMPTY,
    *,
    required: GtidSet = EMPTY,
    stale: bool = False,
) -> Snapshot:
    """Let a READ ONLY transaction read from a replica's snapshot."""
    snapshot = open_read_only(session)
    take_snapshot(session, replica, gtids, required=required, stale=stale)
    return snapshot

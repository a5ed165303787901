"""Which server a statement goes to, and what will allow its answer. Pure functions."""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import (
    Decision,
    Level,
    Proof,
    Reason,
    Scope,
    TimeoutPolicy,
)
from routing.consistency.rules import REMEMBERING, Rules
from routing.consistency.scope import ScopeState
from routing.servers.topology import Server, Topology
from routing.session.session import Session
from routing.sql.diagnostics import CONDITIONS, COST
from routing.sql.session_locks import PinReason
from routing.sql.statement import Statement, StatementClass

# Members of enums, looked up once.
_READ: Final = StatementClass.READ
_BEST_EFFORT: Final = Level.BEST_EFFORT
_BOUNDED: Final = Level.BOUNDED_STALENESS
_READ_ALL: Final = Level.READ_ALL_WRITES
_STRONG: Final = Level.STRONG
_CONNECTION: Final = Scope.CONNECTION
_TO_PRIMARY: Final = TimeoutPolicy.PRIMARY
_OF_PRIMARY: Final = Proof.PRIMARY
_KNOWN: Final = Proof.KNOWN
_A_READ: Final = Reason.READ

_OF_ANSWERS: Final = frozenset({PinReason.TEMPORARY_TABLE, PinReason.VARIABLE, PinReason.UNKNOWN})
"""Pins that a read's rows depend on. Locks order statements, and a snapshot is older than they."""

_REASONS: Final = {
    StatementClass.WRITE: Reason.WRITE,
    StatementClass.TRANSACTION: Reason.TRANSACTION,
    StatementClass.SESSION: Reason.SESSION,
    StatementClass.PIN: Reason.PINNED,
    StatementClass.PROXY: Reason.PROXY,
}


def choose(
    session: Session,
    statement: Statement,
    topology: Topology,
    now: float,
    rules: Rules | None = None,
    probed: GtidSet | None = None,
    crowded: bool = False,
    scope: ScopeState | None = None,
    required: GtidSet | None = None,
) -> Decision:
    """Decide about a text statement.

    A decision with proof `probed` is not the last: the primary is to be asked for its
    `gtid_executed`, by a question that is sent from now on, and `choose` to be called again.

    Args:
        session: who sent it.
        statement: what it is.
        topology: who could answer.
        now: monotonic time, seconds.
        rules: what it asks for, if that is not what the session does.
        probed: what the primary had, asked after the statement had arrived; at STRONG,
            and at a level that remembers what was seen, with what it was committing.
        crowded: the primary has enough to do: wait, although it will probably take too long.
        scope: the one that it reads in, if that was looked up already.
        required: in that case, what `required_by` said.
    """
    kind = statement.kind
    if kind is _READ:
        if statement.reason in topology.for_primary:
            return on_primary(topology, Reason.SESSION)
        if topology.refusals.until and topology.refusals.holds(statement.digest, now):
            return on_primary(topology, Reason.REPLICA_REFUSED)
        if not statement.identifiers and session.transaction.waits_for_table(
            session, rules or session.rules
        ):
            return on_primary(topology, Reason.TRANSACTION)
        names = statement.user_variables
        if names and not session.user_variables.know(names):
            return on_primary(topology, Reason.SESSION)
        return _read(
            session, rules or session.rules, topology, now, probed, crowded, scope, required
        )
    if kind is StatementClass.DIAGNOSTIC:
        area = session.diagnostics.target(statement.asks)
        if (
            area is None
            or area.server is topology.primary
            or session.pins.reasons
            or _shows_transaction(session, statement.asks)
            or not session.transaction.may_ask(area.server)
        ):
            return on_primary(topology, Reason.DIAGNOSTIC)
        # What the statement before left there needs no newer data.
        return Decision(area.server, Reason.DIAGNOSTIC, Proof.NONE)
    return on_primary(topology, _REASONS[kind])


def _shows_transaction(session: Session, asked: int) -> bool:
    """Whether a question's answer shows that a transaction is open of which no replica knows.

    That is so where the primary can be given what is asked without reading a table: what it reads
    would be the transaction's snapshot.
    """
    transaction = session.transaction
    if not transaction.is_open or transaction.reads is not None:
        return False
    return not (asked & COST or (asked & CONDITIONS and session.diagnostics.conditions))


def shows_less(scope: ScopeState, primary: Server) -> bool:
    """Whether the primary may not show yet what was seen in the scope.

    A replica can have applied what the primary has in its binlog, and not in its engine.
    """
    if scope.unseen or scope.seen_on not in (None, primary):
        return True
    # What a probe named as being committed may not be there yet.
    return not scope.everything <= primary.applied


def on_primary(topology: Topology, reason: Reason) -> Decision:
    """The primary has whatever it acknowledged."""
    return Decision(topology.primary, reason, _OF_PRIMARY)


def required_by(
    scope: ScopeState, rules: Rules, topology: Topology, now: float, probed: GtidSet | None
) -> GtidSet | None:
    """What a read must see; None while only the primary can tell.

    Args:
        scope: the one that it reads in.
        rules: what it asks for.
        topology: who could answer.
        now: monotonic time, seconds.
        probed: as in `choose`.
    """
    level = rules.level
    if level is _BEST_EFFORT:
        return EMPTY
    if level is _BOUNDED:
        if probed is not None:
            return probed
        return topology.observations.since(now - rules.staleness)
    if probed is not None:
        required = scope.required(level)
        return probed if probed.covers(required) else probed | required
    if level is _STRONG or scope.term != topology.term or not scope.is_known(level):
        return None
    return scope.required(level)


def _read(
    session: Session,
    rules: Rules,
    topology: Topology,
    now: float,
    probed: GtidSet | None,
    crowded: bool,
    scope: ScopeState | None,
    required: GtidSet | None,
) -> Decision:
    level = rules.level
    own = session.own_scope
    guarded = level is not _BEST_EFFORT
    remembers = guarded and level is not _BOUNDED
    alone = remembers and rules.scope is _CONNECTION and probed is None
    transaction = session.transaction
    snapshot = transaction.snapshot
    if snapshot is not None:
        if snapshot.server is not None:
            if not transaction.gives(rules) or _is_bound(session):
                return on_primary(topology, Reason.TRANSACTION)
            if snapshot.stale or not guarded:
                return Decision(snapshot.server, Reason.TRANSACTION, Proof.NONE)
            return Decision(snapshot.server, Reason.TRANSACTION, Proof.KNOWN, snapshot.gtids)
        if not transaction.may_take_snapshot(session, rules):
            return on_primary(topology, Reason.TRANSACTION)
    if alone and own.unknown and own.term == topology.term:
        return on_primary(topology, Reason.UNKNOWN_REQUIRED)
    if transaction.keeps_reads(session, rules):
        return on_primary(topology, Reason.TRANSACTION)
    if session.pins.reasons:
        return on_primary(topology, Reason.PINNED)
    if session.in_server_schema:
        return on_primary(topology, Reason.SESSION)
    if not guarded:
        chosen = _reachable(session, topology, now, guarded=False)
        if chosen is None:
            return _without_replica(session, topology)
        return Decision(chosen, Reason.READ, Proof.NONE)
    if not topology.primary.gtids:
        return on_primary(topology, Reason.NO_GTIDS)
    if alone and own.is_long and own.term == topology.term:
        return on_primary(topology, Reason.UNKNOWN_REQUIRED)
    if scope is None:
        scope = session.reading(rules, topology.term, now)
        required = required_by(scope, rules, topology, now, probed)
    if scope.unlogged:
        return on_primary(topology, Reason.UNKNOWN_REQUIRED)
    seen_on = scope.seen_on if level in REMEMBERING and probed is None else None
    if required is None or (
        seen_on is not None and not _goes_on(session, topology, seen_on, scope.seen_epoch, now)
    ):
        compared = not remembers or scope.term == topology.term
        if compared and _reachable(session, topology, now, guarded=True) is None:
            return _without_replica(session, topology)  # no need to ask
        return Decision(topology.primary, Reason.PROBE, Proof.PROBED)
    if level is _STRONG:
        since = now
    elif level is _BOUNDED:
        since = now - rules.staleness
    else:
        since = scope.changed_at
    return among_replicas(session, rules, topology, now, required, since, crowded, seen_on)


def _is_bound(session: Session) -> bool:
    """Whether only the primary can show what its reads ask for, be their snapshot a replica's."""
    reasons = session.pins.reasons
    if reasons and not _OF_ANSWERS.isdisjoint(reasons):
        return True
    return session.in_server_schema


def among_replicas(
    session: Session,
    rules: Rules,
    topology: Topology,
    now: float,
    required: GtidSet,
    since: float,
    crowded: bool = False,
    seen_on: Server | None = None,
) -> Decision:
    """Decide about a read that a replica may answer, and about which it is known what it must see.

    Args:
        session: who sent it.
        rules: what it asks for.
        topology: who could answer.
        now: monotonic time, seconds.
        required: what it must see.
        since: when the newest of that was acknowledged, monotonic, s.
        crowded: as in `choose`.
        seen_on: only this replica may answer, if it is given.
    """
    replicas = topology.replicas
    count = len(replicas)
    index = session.preferred
    in_order = rules.level is _READ_ALL
    patient = crowded or rules.on_timeout is not _TO_PRIMARY
    nearest: Server | None = None
    shortest = rules.wait_budget
    reachable = unordered = False
    picky = bool(session.avoided or session.rejections.last)
    for _ in range(count):
        if index >= count:
            index = 0
        server = replicas[index]
        index += 1
        if now < server.down_until or (picky and session.avoids(server, now)):
            continue
        if not server.gtids_trustworthy:
            continue
        if seen_on is not None and server is not seen_on:
            continue  # it may be older, and nothing tells by how much
        if in_order and not server.ordered:
            unordered = True
            continue
        applied = server.applied
        if applied.covers(required):
            # Any state will do for a read that need not see anything and follows no other.
            relies = bool(required) or rules.level in REMEMBERING
            confirm = relies and server.is_doubtful(now)
            return Decision(server, _A_READ, _KNOWN, applied, confirm)
        reachable = True
        if patient or now >= server.behind_until:
            wait = server.predicted_wait(since, now)
            if wait < shortest or (patient and nearest is None):
                shortest = wait
                nearest = server
    if nearest is not None:
        confirm = nearest.is_doubtful(now)
        return Decision(nearest, Reason.READ, Proof.WAITED, required, confirm)
    if reachable:
        return on_primary(topology, Reason.REPLICA_BEHIND)
    if unordered:
        return on_primary(topology, Reason.COMMIT_ORDER)
    return _without_replica(session, topology)


def _without_replica(session: Session, topology: Topology) -> Decision:
    """To the primary: no replica is there, or none that takes what the session carries."""
    refused = session.rejections.last and session.rejections.causes(session.told)
    return on_primary(topology, Reason.REPLICA_REFUSED if refused else Reason.NO_REPLICA)


def _goes_on(session: Session, topology: Topology, seen_on: Server, epoch: int, now: float) -> bool:
    """Whether a read may go where the scope has read before, whose later states are no older.

    From any other server it needs a bound of what was seen, which only the primary knows.
    """
    usable = now >= seen_on.down_until and not session.avoids(seen_on, now)
    return usable and seen_on.epoch == epoch and seen_on is not topology.primary


def _reachable(session: Session, topology: Topology, now: float, *, guarded: bool) -> Server | None:
    replicas = topology.replicas
    for offset in range(len(replicas)):
        server = replicas[(session.preferred + offset) % len(replicas)]
        if guarded and not server.gtids_trustworthy:
            continue
        if now >= server.down_until and not session.avoids(server, now):
            return server
    return None

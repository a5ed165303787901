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
from routing.consistency.independence import Independence
from routing.consistency.requirement import Requirement
from routing.consistency.rules import Rules
from routing.consistency.scope import ScopeState
from routing.servers.primary_share import is_worth_waiting
from routing.servers.topology import Server, Topology
from routing.session.session import Session
from routing.sql.diagnostics import CONDITIONS, COST, TAKES_COUNT
from routing.sql.session_locks import PinReason
from routing.sql.statement import Statement, StatementClass
from routing.sql.table_references import TableNames

# Members of enums, looked up once.
_READ: Final = StatementClass.READ
_BEST_EFFORT: Final = Level.BEST_EFFORT
_BOUNDED: Final = Level.BOUNDED_STALENESS
_OWN_WRITES: Final = Level.READ_OWN_WRITES
_READ_ALL: Final = Level.READ_ALL_WRITES
_STRONG: Final = Level.STRONG
_CONNECTION: Final = Scope.CONNECTION
_TO_PRIMARY: Final = TimeoutPolicy.PRIMARY
_OF_PRIMARY: Final = Proof.PRIMARY
_KNOWN: Final = Proof.KNOWN
_INDEPENDENT: Final = Proof.INDEPENDENT
_WAITED: Final = Proof.WAITED
_A_READ: Final = Reason.READ

_BRIEF_S: Final = 0.002
"""How long a brief WAIT may take: hardly longer than the answer of an idle replica."""

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
    requirement: Requirement | None = None,
    *,
    crowded: bool = False,
) -> Decision:
    """Decide about a text statement.

    A decision with proof `probed` is not the last: the primary is to be asked for its
    `gtid_executed`, by a question that is sent from now on, and `choose` to be called again.

    Args:
        session: who sent it.
        statement: what it is.
        topology: who could answer.
        now: monotonic time, seconds.
        requirement: what it must see, if it is a read; without one, by its session's rules.
        crowded: the primary has enough to do: wait, although it will probably take too long.
    """
    kind = statement.kind
    if kind is _READ:
        if statement.reason in topology.for_primary and not session.without_primary:
            return on_primary(topology, Reason.SESSION)
        if topology.refusals.until and topology.refusals.holds(statement.digest, now):
            return on_primary(topology, Reason.REPLICA_REFUSED)
        if statement.leaves & TAKES_COUNT and _is_counted_on_primary(session, topology):
            return on_primary(topology, Reason.SESSION)
        rules = session.rules if requirement is None else requirement.rules
        if not statement.identifiers and session.transaction.waits_for_table(session, rules):
            return on_primary(topology, Reason.TRANSACTION)
        names = statement.user_variables
        if names and not session.user_variables.know(names):
            return on_primary(topology, Reason.SESSION)
        requirement = requirement or Requirement(rules)
        return _read(session, topology, now, requirement, statement.tables, crowded)
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


def _is_counted_on_primary(session: Session, topology: Topology) -> bool:
    """Whether FOUND_ROWS() behind an EXPLAIN is what the session's primary has counted."""
    diagnostics = session.diagnostics
    area = diagnostics.counts_at
    if area is None or session.without_primary or area.server is not topology.primary:
        return False
    return diagnostics.has_count(area)


def _shows_transaction(session: Session, parts: int) -> bool:
    """Whether a question's answer shows that a transaction is open of which no replica knows.

    That is so where the primary can be given what is asked without reading a table: what it reads
    would be the transaction's snapshot.
    """
    transaction = session.transaction
    if not transaction.is_open or transaction.reads is not None:
        return False
    return not (parts & COST or (parts & CONDITIONS and session.diagnostics.conditions))


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
        probed: as in `Requirement`.
    """
    level = rules.level
    if level is _OWN_WRITES and probed is None:  # mostly
        return None if scope.unknown or scope.term != topology.term else scope.own
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
    topology: Topology,
    now: float,
    requirement: Requirement,
    names: TableNames | None,
    crowded: bool,
) -> Decision:
    """Decide about a read."""
    rules = requirement.rules
    if session.transaction.snapshot is not None:
        decision = _in_snapshot(session, rules, topology)
        if decision is not None:
            return decision
    reason = _needs_primary(session, topology, requirement)
    if reason is not None:
        return on_primary(topology, reason)
    return by_level(session, topology, now, requirement, names, crowded)


def by_level(
    session: Session,
    topology: Topology,
    now: float,
    requirement: Requirement,
    names: TableNames | None = None,
    crowded: bool = False,
) -> Decision:
    """Decide about a read that nothing in its session keeps on the primary.

    Args:
        session: who sent it.
        topology: who could answer.
        now: monotonic time, seconds.
        requirement: what it must see.
        names: those of what it reads; None if all that it must see may matter.
        crowded: as in `choose`.
    """
    rules = requirement.rules
    if topology.placement is not None and _is_share_of_primary(session, topology, now):
        return on_primary(topology, Reason.READ)
    if rules.level is _BEST_EFFORT:
        return _best_effort(session, topology, now)
    if not topology.primary.gtids:
        return on_primary(topology, Reason.NO_GTIDS)
    if session.own_scope.is_long and _relies_on_own(session, topology, requirement):
        return on_primary(topology, Reason.UNKNOWN_REQUIRED)
    scope = requirement.scope
    if scope is None:
        scope = session.reading(rules, topology.term, now)
        probed = requirement.probed
        gtids = required_by(scope, rules, topology, now, probed)
        requirement = Requirement(rules, scope, gtids, probed)
    if scope.unlogged:
        return on_primary(topology, Reason.UNKNOWN_REQUIRED)
    # The usual level remembers nothing that was seen.
    seen_on = None if rules.level is _OWN_WRITES else requirement.seen_on
    if requirement.gtids is None or (
        seen_on is not None and not _goes_on(session, topology, seen_on, scope, now)
    ):
        return _probe(session, rules, topology, scope, now)
    return _among_replicas(session, topology, now, requirement, names, crowded, seen_on)


def _is_share_of_primary(session: Session, topology: Topology, now: float) -> bool:
    """Whether a session's reads are the primary's share, which can take them (read-from)."""
    placement = topology.placement
    if placement is None or not placement.prefers_primary(session.preferred):
        return False
    return not (session.without_primary or topology.withheld or topology.primary.is_gone(now))


def _in_snapshot(session: Session, rules: Rules, topology: Topology) -> Decision | None:
    """Decide about a read of a transaction that shares one snapshot; None if it may take that."""
    transaction = session.transaction
    snapshot = transaction.snapshot
    if snapshot is None or snapshot.server is None:
        if transaction.may_take_snapshot(session, rules):
            return None
        return on_primary(topology, Reason.TRANSACTION)
    if not transaction.gives(rules) or _is_bound(session):
        return on_primary(topology, Reason.TRANSACTION)
    if snapshot.stale or rules.level is _BEST_EFFORT:
        return Decision(snapshot.server, Reason.TRANSACTION, Proof.NONE)
    return Decision(snapshot.server, Reason.TRANSACTION, Proof.KNOWN, snapshot.gtids)


def _needs_primary(session: Session, topology: Topology, requirement: Requirement) -> Reason | None:
    """Why only the primary can answer, by what the session has done, or None."""
    if session.own_scope.unknown and _relies_on_own(session, topology, requirement):
        return Reason.UNKNOWN_REQUIRED
    if session.transaction.keeps_reads(session, requirement.rules):
        return Reason.TRANSACTION
    if session.pins.reasons:
        return Reason.PINNED
    return Reason.SESSION if session.in_server_schema else None


def _relies_on_own(session: Session, topology: Topology, requirement: Requirement) -> bool:
    """Whether what the read must see is what this session wrote and saw, and the primary has it."""
    rules = requirement.rules
    return (
        rules.level is not _BEST_EFFORT
        and rules.level is not _BOUNDED
        and rules.scope is _CONNECTION
        and requirement.probed is None
        and session.own_scope.term == topology.term
    )


def _best_effort(session: Session, topology: Topology, now: float) -> Decision:
    """The first replica that can be asked, whatever it has."""
    chosen = _reachable(session, topology, now, guarded=False, lagging=topology.reads_lagging)
    if chosen is None:
        return _without_replica(session, topology, now)
    return Decision(chosen, Reason.READ, Proof.NONE)


def _probe(
    session: Session, rules: Rules, topology: Topology, scope: ScopeState, now: float
) -> Decision:
    """The primary is to be asked what the read must see, unless no replica could answer anyway."""
    bounded = rules.level is _BOUNDED
    lagging = bounded or topology.reads_lagging
    if (bounded or scope.term == topology.term) and (
        _reachable(session, topology, now, guarded=True, lagging=lagging) is None
    ):
        return _without_replica(session, topology, now)
    return Decision(topology.primary, Reason.PROBE, Proof.PROBED)


def stale(session: Session, topology: Topology, now: float) -> Server | None:
    """The replica for a read whose guarantee is given up, since the primary does not answer."""
    return _reachable(session, topology, now, guarded=True, lagging=topology.reads_lagging)


def may_be_stale(server: Server, topology: Topology) -> bool:
    """Whether a replica's answer may be given though it lacks what the read had to see."""
    return topology.reads_lagging or not server.lagging


def _is_bound(session: Session) -> bool:
    """Whether only the primary can show what its reads ask for, be their snapshot a replica's."""
    reasons = session.pins.reasons
    if reasons and not _OF_ANSWERS.isdisjoint(reasons):
        return True
    return session.in_server_schema


def _among_replicas(  # noqa: C901, PLR0912 one walk over the replicas, behind each write
    session: Session,
    topology: Topology,
    now: float,
    requirement: Requirement,
    names: TableNames | None,
    crowded: bool,
    seen_on: Server | None,
) -> Decision:
    """Decide about a read that a replica may answer, and about which it is known what it must see.

    Args:
        session: who sent it.
        topology: who could answer.
        now: monotonic time, seconds.
        requirement: what it must see.
        names: those of what it reads; None if all that it must see may matter.
        crowded: as in `choose`.
        seen_on: the only one that may answer; None if any may.
    """
    rules, required = requirement.rules, requirement.gtids
    if required is None:
        raise AssertionError("only the primary can tell what must be seen")
    replicas = topology.replicas
    index = session.preferred
    placement = topology.placement
    if placement is not None:
        replicas = placement.order(index)
        index = 0
    count = len(replicas)
    tier = 0
    in_order = rules.level is _READ_ALL
    as_of_now = rules.level is _STRONG or rules.level is _BOUNDED
    patient = crowded or rules.on_timeout is not _TO_PRIMARY
    weighs = rules.is_auto and not patient
    nearest: Server | None = None
    independence: Independence | None = None  # of the read at that one
    shortest = rules.wait_budget
    brief: Decision | None = None
    reachable = unordered = False
    picky = bool(session.avoided or session.rejections.last)
    for _ in range(count):
        if index >= count:
            index = 0
        server = replicas[index]
        index += 1
        if placement is not None and server.tier != tier:
            if nearest is not None and shortest < rules.wait_budget:
                break  # a nearer one will have it in time
            tier = server.tier
        if (
            (now < server.shunned_until and _is_shunned(server, rules, topology, now))
            or (picky and session.avoids(server, now))
            or not server.gtids_trustworthy
            or (seen_on is not None and server is not seen_on)
        ):
            continue
        if in_order and not server.ordered:
            unordered = True
            continue
        applied = server.applied
        if applied.covers(required):
            confirm = requirement.relies and server.is_doubtful(now)
            return Decision(server, _A_READ, _KNOWN, applied, confirm)
        less = (
            None if names is None else _independence(session, topology, requirement, names, server)
        )
        if less is not None and applied.covers(less.remaining):
            confirm = server.is_doubtful(now)
            return Decision(server, _A_READ, _INDEPENDENT, applied, confirm, less)
        reachable = True
        if not patient and now < server.behind_until:
            continue
        since = requirement.since(now)
        if patient or (
            server.will_have(since, now, rules.wait_budget)
            and not server.missing_gtids.hold_back(
                required if less is None else less.remaining, applied, now
            )
        ):
            wait = server.expected_wait(since, now) if weighs else server.predicted_wait(since, now)
            if wait < shortest or (patient and nearest is None):
                shortest = wait
                nearest = server
                independence = less
        elif brief is None and (as_of_now or less is not None or server.may_have(since, now)):
            # What remains of what must be seen is older than the newest write, and so may be what
            # the primary has now; nobody knows by how much.
            brief = _wait_briefly(server, required, less, now)
    dear = weighs and nearest is not None and _is_dear(topology, nearest, shortest)
    if nearest is not None and not dear:
        confirm = nearest.is_doubtful(now)
        gtids = required if independence is None else independence.remaining
        return Decision(nearest, _A_READ, _WAITED, gtids, confirm, independence)
    if reachable:
        if not patient and topology.primary.is_gone(now):  # a late replica is the better choice
            return _among_replicas(session, topology, now, requirement, names, True, seen_on)
        if brief is not None and not dear:
            return brief
        return on_primary(topology, Reason.WAIT_DEARER if dear else Reason.REPLICA_BEHIND)
    if unordered:
        return on_primary(topology, Reason.COMMIT_ORDER)
    return _without_replica(session, topology, now)


def _wait_briefly(
    server: Server, required: GtidSet, less: Independence | None, now: float
) -> Decision:
    """See whether a replica has what a read must see, which it may have by now, or may not.

    The read's own answer follows if it does, so this costs as much as a wait that is over at once.
    """
    gtids = required if less is None else less.remaining
    confirm = server.is_doubtful(now)
    return Decision(server, _A_READ, _WAITED, gtids, confirm, less, _BRIEF_S)


def _is_dear(topology: Topology, replica: Server, wait: float) -> bool:
    """Whether a wait of that length, s, is not worth it (`is_worth_waiting`)."""
    alone = topology.primary.answer_times.alone
    times = replica.answer_times
    return not is_worth_waiting(
        times.expected(wait),
        alone if alone > 0 else times.alone,  # nobody has read there yet
        topology.primary_share.share,
    )


def _independence(
    session: Session,
    topology: Topology,
    requirement: Requirement,
    names: TableNames,
    server: Server,
) -> Independence | None:
    """What a read does not depend on, of what it must see, at a replica that lacks some of that.

    Only what the session wrote itself may be left out. A read that follows what was seen must not
    go back behind that, in whatever table; and a snapshot is one state for all later reads.

    Args:
        session: who sent it.
        topology: who could answer.
        requirement: what it must see.
        names: those of what it reads.
        server: the replica.
    """
    log, required = topology.current_tables, requirement.gtids
    if log is None or required is None or requirement.rules.level is not _OWN_WRITES:
        return None
    if not (session.transaction.is_idle and topology.follows_in_order(server)):
        return None
    tables = session.known_tables.base_tables(names, session.schema, topology)
    if tables is None:
        return None
    known = server.applied
    remaining = log.still_required(required, known, tables)
    return None if remaining is required else Independence(required, remaining, known, tables)


def _without_replica(session: Session, topology: Topology, now: float) -> Decision:
    """To the primary: no replica is there, or none that may or can answer the session."""
    if session.rejections.last and session.rejections.causes(session.state_versions):
        return on_primary(topology, Reason.REPLICA_REFUSED)
    lags = _lags(topology, now)
    return on_primary(topology, Reason.REPLICA_LAGGING if lags else Reason.NO_REPLICA)


def _lags(topology: Topology, now: float) -> bool:
    """Whether a replica is left out only since it is too far behind."""
    return any(server.lagging and now >= server.down_until for server in topology.replicas)


def _is_shunned(server: Server, rules: Rules, topology: Topology, now: float) -> bool:
    """Whether a replica that is down or too far behind gets no read by these rules."""
    if now < server.down_until:
        return True
    if rules.level is _BOUNDED:
        return False  # that is a limit of its own
    if not topology.reads_lagging:
        return True
    return any(now >= other.shunned_until for other in topology.replicas)


def _goes_on(
    session: Session, topology: Topology, seen_on: Server, scope: ScopeState, now: float
) -> bool:
    """Whether a read may go where the scope has read before, whose later states are no older.

    From any other server it needs a bound of what was seen, which only the primary knows.
    """
    usable = now >= seen_on.shunned_until and not session.avoids(seen_on, now)
    return usable and seen_on.epoch == scope.seen_epoch and seen_on is not topology.primary


def _reachable(
    session: Session, topology: Topology, now: float, *, guarded: bool, lagging: bool
) -> Server | None:
    """The first replica that can be asked.

    Args:
        session: who asks.
        topology: who could be asked.
        now: monotonic, s.
        guarded: its GTIDs have to tell what it has.
        lagging: it may be one that is too far behind to be read, if there is no other.
    """
    replicas = topology.replicas
    start = session.preferred
    if topology.placement is not None:
        replicas = topology.placement.order(start)
        start = 0
    last: Server | None = None
    for offset in range(len(replicas)):
        server = replicas[(start + offset) % len(replicas)]
        if guarded and not server.gtids_trustworthy:
            continue
        if now >= server.shunned_until and not session.avoids(server, now):
            return server
        if lagging and last is None and now >= server.down_until:
            last = None if session.avoids(server, now) else server
    return last

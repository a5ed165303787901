"""Every rule of `choose`, one test each: who may answer, why, and what allows it."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import IN_TRANS
from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Decision, Level, Proof, Reason, Scope, TimeoutPolicy
from routing.consistency.requirement import Requirement
from routing.consistency.rules import Rules
from routing.consistency.scope import PROBE_ABOVE
from routing.policy import choose, on_primary, stale
from routing.servers.topology import Server, Topology
from routing.session.diagnostics_area import ConnectionArea
from routing.session.session import Session
from routing.sql.diagnostics import CONDITIONS, COUNTS_ROWS, PARTS, TAKES_COUNT
from routing.sql.session_locks import PinReason
from routing.sql.statement import Statement, StatementClass, StatementReason
from tests.routing.transaction.situations import open_on_replica
from tests.support.doubts import may_have_seen
from tests.support.gtid_sets import gtids

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"
NOW = 1000.0


def statement(kind: StatementClass) -> Statement:
    return Statement(kind, StatementReason.NOTHING, kind is StatementClass.WRITE, "0" * 16)


READ = statement(StatementClass.READ)


def session_at(
    level: Level = Level.READ_OWN_WRITES,
    on_timeout: TimeoutPolicy = TimeoutPolicy.PRIMARY,
    preferred: int = 0,
) -> Session:
    return Session(Rules(level, Scope.CONNECTION, 0.25, on_timeout), preferred, term=1)


def decide(
    session: Session,
    statement: Statement,
    topology: Topology,
    now: float,
    rules: Rules | None = None,
    probed: GtidSet | None = None,
    crowded: bool = False,
) -> Decision:
    """Decide about a read that has rules of its own, or about which the primary was asked."""
    requirement = Requirement(rules or session.rules, probed=probed)
    return choose(session, statement, topology, now, requirement, crowded=crowded)


def topology_of(*applied: str) -> Topology:
    """Make a primary, and a replica for each of these applied sets."""
    topology = Topology("primary:1", [f"replica:{k}" for k in range(len(applied))])
    topology.primary.observe(U, (0, 0), gtids(f"{U}:1-1000"), EMPTY)
    for k, (server, text) in enumerate(zip(topology.replicas, applied, strict=True)):
        server.observe(f"uuid-{k}", (0, 0), gtids(text), EMPTY)
    return topology


def choose_read(session: Session, topology: Topology, now: float = NOW) -> Decision:
    return choose(session, READ, topology, now)


# Which class goes where.


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (StatementClass.WRITE, Reason.WRITE),
        (StatementClass.TRANSACTION, Reason.TRANSACTION),
        (StatementClass.SESSION, Reason.SESSION),
        (StatementClass.PIN, Reason.PINNED),
    ],
)
def test_what_is_no_read_goes_to_the_primary(
    level: Level, kind: StatementClass, reason: Reason
) -> None:
    topology = topology_of(f"{U}:1-1000")
    decision = choose(session_at(level), statement(kind), topology, NOW)
    assert decision == Decision(topology.primary, reason, Proof.PRIMARY)


def test_every_class_has_its_place() -> None:
    topology = topology_of("")
    for kind, level in product(StatementClass, Level):
        assert choose(session_at(level), statement(kind), topology, NOW).server


def test_on_primary() -> None:
    topology = topology_of()
    decision = on_primary(topology, Reason.COMMAND)
    assert decision == Decision(topology.primary, Reason.COMMAND, Proof.PRIMARY, None)


# Read-own-writes: what a replica has proved.


def test_a_read_that_requires_nothing_needs_no_wait() -> None:
    topology = topology_of("")
    decision = choose_read(session_at(), topology)
    assert decision == Decision(topology.replicas[0], Reason.READ, Proof.KNOWN, EMPTY)


@pytest.mark.parametrize(
    ("required", "applied"),
    [
        (f"{U}:5", f"{U}:1-5"),
        (f"{U}:1-5", f"{U}:1-5"),
        (f"{U}:1-5,{V}:7", f"{U}:1-9,{V}:1-7"),
        (f"{U}:1-2:4", f"{U}:1-4"),
        (f"{U}:tag:3", f"{U}:1:tag:1-3"),
    ],
)
def test_a_replica_that_proved_enough_answers_at_once(required: str, applied: str) -> None:
    topology = topology_of(applied)
    session = session_at()
    session.own_scope.own = gtids(required)
    decision = choose_read(session, topology)
    assert decision == Decision(topology.replicas[0], Reason.READ, Proof.KNOWN, gtids(applied))


@pytest.mark.parametrize(
    ("required", "applied"),
    [
        (f"{U}:5", f"{U}:1-4"),
        (f"{U}:5", f"{U}:6-9"),  # a higher number does not prove a lower one
        (f"{U}:5", f"{U}:1-4:6-9"),
        (f"{U}:5", f"{V}:1-9"),
        (f"{U}:5,{V}:1", f"{U}:1-9"),  # all sources count
        (f"{U}:tag:5", f"{U}:1-9"),
        (f"{U}:5", f"{U}:tag:1-9"),
        (f"{U}:5", ""),
    ],
)
def test_a_replica_that_proved_less_is_asked_to_wait_for_all(required: str, applied: str) -> None:
    topology = topology_of(applied)
    session = session_at()
    session.own_scope.own = gtids(required)
    decision = choose_read(session, topology)
    assert decision == Decision(topology.replicas[0], Reason.READ, Proof.WAITED, gtids(required))


def test_the_one_that_proved_enough_is_taken_before_one_that_must_wait() -> None:
    topology = topology_of(f"{U}:1", f"{U}:1", f"{U}:1-9")
    session = session_at()
    session.own_scope.own = gtids(f"{U}:9")
    decision = choose_read(session, topology)
    assert decision.server is topology.replicas[2]
    assert decision.proof is Proof.KNOWN


@pytest.mark.parametrize("preferred", range(3))
def test_among_equals_the_session_keeps_its_own(preferred: int) -> None:
    topology = topology_of("", "", "")
    for required in ("", f"{U}:1"):
        session = session_at(preferred=preferred)
        session.own_scope.own = gtids(required)
        assert choose_read(session, topology).server is topology.replicas[preferred]


def test_the_search_goes_round() -> None:
    topology = topology_of(f"{U}:1-9", "", "")
    session = session_at(preferred=1)
    session.own_scope.own = gtids(f"{U}:9")
    assert choose_read(session, topology).server is topology.replicas[0]


# Replicas that are not asked.


def test_a_replica_that_is_down_is_not_asked_until_its_time() -> None:
    topology = topology_of(f"{U}:1-9", "")
    first, second = topology.replicas
    session = session_at()
    session.own_scope.own = gtids(f"{U}:9")
    first.set_unreachable(NOW)
    assert choose_read(session, topology).server is second
    assert choose_read(session, topology, first.down_until).server is first


def test_a_replica_that_is_behind_is_not_waited_for_until_its_time() -> None:
    topology = topology_of("", "")
    first, second = topology.replicas
    session = session_at()
    session.own_scope.own = gtids(f"{U}:9")
    first.timed_out(NOW)
    assert choose_read(session, topology).server is second
    second.timed_out(NOW)
    decision = choose_read(session, topology)
    assert decision == Decision(topology.primary, Reason.REPLICA_BEHIND, Proof.PRIMARY)
    again = choose_read(session, topology, first.behind_until)
    assert again.server is first
    assert again.is_brief  # no read waits in full before it is known to have applied something
    assert again.wait_limit < session.rules.wait_budget
    first.add_proof(gtids(f"{U}:1"), first.epoch)
    again = choose_read(session, topology, first.behind_until)
    assert (again.server, again.is_brief) == (first, False)


def test_a_replica_that_is_behind_still_answers_what_it_has_proved() -> None:
    topology = topology_of(f"{U}:1-5")
    (replica,) = topology.replicas
    replica.timed_out(NOW)
    session = session_at()
    session.own_scope.own = gtids(f"{U}:5")
    assert choose_read(session, topology).proof is Proof.KNOWN


@pytest.mark.parametrize("policy", [TimeoutPolicy.ERROR, TimeoutPolicy.STALE])
def test_who_does_not_want_the_primary_waits_all_the_same(policy: TimeoutPolicy) -> None:
    topology = topology_of("")
    (replica,) = topology.replicas
    replica.timed_out(NOW)
    session = session_at(on_timeout=policy)
    session.own_scope.own = gtids(f"{U}:5")
    decision = choose_read(session, topology)
    assert (decision.server, decision.proof) == (replica, Proof.WAITED)


def test_a_replica_that_refused_the_user_is_not_asked() -> None:
    for level in Level:
        topology = topology_of("", "")
        session = session_at(level)
        session.avoided = frozenset({topology.replicas[0]})
        decision = decide(session, READ, topology, NOW, probed=EMPTY)
        assert decision.server is topology.replicas[1]


@pytest.mark.parametrize("level", list(Level))
def test_a_replica_that_refused_what_a_session_carries_is_left_alone(level: Level) -> None:
    topology = topology_of("", "")
    first, second = topology.replicas
    session = session_at(level)
    pause = session.rejections.add(first, "no", session.state_versions, NOW)
    assert decide(session, READ, topology, NOW, probed=EMPTY).server is second
    session.rejections.add(second, "no", session.state_versions, NOW)
    decision = decide(session, READ, topology, NOW, probed=EMPTY)
    assert decision == Decision(topology.primary, Reason.REPLICA_REFUSED, Proof.PRIMARY)
    assert decide(session, READ, topology, NOW + pause, probed=EMPTY).server is first
    session.set_variable("time_zone", "'+00:00'")
    assert decide(session, READ, topology, NOW, probed=EMPTY).server is first


def test_a_replica_without_gtids_can_prove_nothing() -> None:
    topology = topology_of(f"{U}:1-9", "")
    topology.replicas[0].gtids = False
    session = session_at()
    session.own_scope.own = gtids(f"{U}:9")
    assert choose_read(session, topology).server is topology.replicas[1]


@pytest.mark.parametrize("level", list(Level))
def test_a_replica_that_lacks_what_filters_left_out_gets_no_guarded_read(level: Level) -> None:
    topology = topology_of(f"{U}:1-1000", f"{U}:1-1000")
    session = session_at(level)
    best_effort = level is Level.BEST_EFFORT
    first, second = topology.replicas
    first.filters.lacking = True
    chosen = decide(session, READ, topology, NOW, probed=EMPTY).server
    assert chosen is (first if best_effort else second)
    second.filters.lacking = True
    for probed in (EMPTY, None):  # the primary has everything: no need to ask it
        decision = decide(session, READ, topology, NOW, probed=probed)
        if best_effort:
            assert decision.server is first
        else:
            assert decision == Decision(topology.primary, Reason.NO_REPLICA, Proof.PRIMARY)
    first.filters.allowed = True
    assert decide(session, READ, topology, NOW, probed=EMPTY).server is first


@pytest.mark.parametrize("level", list(Level))
def test_where_no_replica_can_be_asked_the_primary_answers(level: Level) -> None:
    session = session_at(level)
    none = topology_of()
    assert choose_read(session, none) == Decision(none.primary, Reason.NO_REPLICA, Proof.PRIMARY)
    topology = topology_of("", "", "")
    topology.replicas[0].set_unreachable(NOW)
    topology.replicas[1].set_unreachable(NOW)
    session.avoided = frozenset({topology.replicas[2]})
    assert choose_read(session, topology).reason is Reason.NO_REPLICA


# Replicas that are too far behind to be read.


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 9)), max_size=4),
    st.sampled_from(list(Level)),
    st.sampled_from(list(TimeoutPolicy)),
    st.integers(0, 9),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)
def test_a_replica_that_lags_is_read_only_where_that_is_asked_for(
    replicas: list[tuple[bool, bool, int]],
    level: Level,
    on_timeout: TimeoutPolicy,
    written: int,
    preferred: int,
    crowded: bool,
    reads_lagging: bool,
) -> None:
    topology = topology_of(*(f"{U}:1-{applied}" if applied else "" for *_, applied in replicas))
    topology.reads_lagging = reads_lagging
    for server, (lags, down, _) in zip(topology.replicas, replicas, strict=True):
        server.set_lagging(lags)
        if down:
            server.set_unreachable(NOW)
    session = session_at(level, on_timeout, preferred % max(1, len(replicas)))
    session.own_scope.own = gtids(f"{U}:1-{written}") if written else EMPTY
    probed = session.own_scope.own if level in (Level.STRONG, Level.BOUNDED_STALENESS) else None
    chosen = [
        decide(session, READ, topology, NOW, probed=probed, crowded=crowded).server,
        stale(session, topology, NOW),
    ]
    within = [server for server in topology.replicas if server.shunned_until <= NOW]
    for server, bounded in zip(chosen, (level is Level.BOUNDED_STALENESS, False), strict=True):
        if server is not None and server.lagging:
            assert bounded or (reads_lagging and not within)
            assert server.down_until <= NOW
    if within or (reads_lagging and any(server.down_until <= NOW for server in topology.replicas)):
        assert chosen[1] is not None


def test_why_the_primary_answers_for_them() -> None:
    topology = topology_of(f"{U}:1-5", f"{U}:1-5")
    for server in topology.replicas:
        server.set_lagging(True)
    for level in (Level.BEST_EFFORT, Level.READ_OWN_WRITES, Level.MONOTONIC_READS):
        assert choose_read(session_at(level), topology) == Decision(
            topology.primary, Reason.REPLICA_LAGGING, Proof.PRIMARY
        )
    for server in topology.replicas:
        server.set_unreachable(NOW)
    assert choose_read(session_at(), topology).reason is Reason.NO_REPLICA
    later = topology.replicas[0].down_until
    assert choose_read(session_at(), topology, later).reason is Reason.REPLICA_LAGGING
    topology.replicas[0].set_lagging(False)
    assert choose_read(session_at(), topology, later).server is topology.replicas[0]


# Sessions that read from the primary.


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize("autocommit", [True, False])
def test_a_session_that_is_bound_reads_from_the_primary(level: Level, *, autocommit: bool) -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at(level)
    if autocommit:
        session.transaction.on_restore(IN_TRANS)
    else:
        session.transaction.on_autocommit_set(False)
    primary = Decision(topology.primary, Reason.TRANSACTION, Proof.PRIMARY)
    assert choose_read(session, topology) == primary


def test_a_session_that_holds_something_reads_from_the_primary() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at()
    session.pins.acquire(PinReason.TEMPORARY_TABLE, "`app`.`t`")
    decision = choose_read(session, topology)
    assert decision == Decision(topology.primary, Reason.PINNED, Proof.PRIMARY)
    session.pins.release(PinReason.TEMPORARY_TABLE, "`app`.`t`")
    assert choose_read(session, topology).server is not topology.primary


@pytest.mark.parametrize("schema", ["performance_schema", "information_schema", "mysql", "sys"])
def test_unqualified_names_may_be_a_server_s_own_tables(schema: str) -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at()
    for name in (schema, schema.upper(), schema.capitalize()):  # a login names it as it likes
        session.set_schema(name)
        assert choose_read(session, topology).server is topology.primary
    session.set_schema(f"{schema}_of_mine")
    assert choose_read(session, topology).server is not topology.primary


@pytest.mark.parametrize(
    ("reason", "bound"),
    [
        (PinReason.VARIABLE, True),
        (PinReason.TEMPORARY_TABLE, True),
        (PinReason.UNKNOWN, True),
        (PinReason.NAMED_LOCK, False),
    ],
)
def test_a_snapshot_does_not_show_what_only_the_primary_can(reason: PinReason, bound: bool) -> None:
    topology = topology_of(f"{U}:1-1000")
    replica = topology.replicas[0]
    session = session_at()
    open_on_replica(session, replica, gtids(f"{U}:1-1000"))
    assert choose_read(session, topology).server is replica
    session.pins.acquire(reason)
    decision = choose_read(session, topology)
    assert decision.server is (topology.primary if bound else replica)
    assert decision.reason is Reason.TRANSACTION
    session.pins.clear()
    assert choose_read(session, topology).server is replica
    session.set_schema("information_schema")
    assert choose_read(session, topology).server is topology.primary


def test_a_read_of_a_user_variable_needs_its_value() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at()
    read = Statement(
        StatementClass.READ, StatementReason.USER_VARIABLE, False, "", user_variables=("a", "b")
    )
    session.user_variables.assign("a", "1")
    assert choose(session, read, topology, NOW).server is not topology.primary
    session.user_variables.assign("b", None)
    decision = choose(session, read, topology, NOW)
    assert decision == Decision(topology.primary, Reason.SESSION, Proof.PRIMARY)


def test_an_unknown_required_set_is_a_reason_for_the_primary() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at()
    session.may_have_written()
    decision = choose_read(session, topology)
    assert decision == Decision(topology.primary, Reason.UNKNOWN_REQUIRED, Proof.PRIMARY)
    session.transaction.on_restore(IN_TRANS)
    assert choose_read(session, topology).reason is Reason.UNKNOWN_REQUIRED
    session.transaction.on_restore(0)
    session.on_probe(gtids(f"{U}:1-3"))
    assert choose_read(session, topology).server is topology.replicas[0]


def test_a_required_set_with_too_many_gaps_is_a_reason_for_the_primary() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at()
    session.own_scope.own = gtids(f"{U}:" + ":".join(str(2 * k + 1) for k in range(PROBE_ABOVE)))
    assert choose_read(session, topology).server is topology.replicas[0]
    session.own_scope.own |= gtids(f"{U}:999")
    assert choose_read(session, topology).reason is Reason.UNKNOWN_REQUIRED


def test_a_primary_without_gtids_is_a_reason_to_stay_there() -> None:
    topology = topology_of(f"{U}:1-1000")
    topology.primary.gtids = False
    decision = choose_read(session_at(), topology)
    assert decision == Decision(topology.primary, Reason.NO_GTIDS, Proof.PRIMARY)


# Best effort.


def test_best_effort_takes_any_replica_and_promises_nothing() -> None:
    topology = topology_of("", "")
    session = session_at(Level.BEST_EFFORT, preferred=1)
    session.own_scope.own = gtids(f"{U}:9")
    session.may_have_written()
    topology.primary.gtids = False
    for replica in topology.replicas:
        replica.gtids = False
        replica.timed_out(NOW)
    decision = choose_read(session, topology)
    assert decision == Decision(topology.replicas[1], Reason.READ, Proof.NONE, None)
    topology.replicas[1].set_unreachable(NOW)
    assert choose_read(session, topology).server is topology.replicas[0]
    assert (
        choose_read(session, topology, topology.replicas[1].down_until).server
        is (topology.replicas[1])
    )


# Statements that ask about the previous statement.


def test_diagnostics_follow_the_previous_statement() -> None:
    topology = topology_of("", "")
    diagnostic = replace(statement(StatementClass.DIAGNOSTIC), asks=CONDITIONS)
    primary, replica = topology.primary, topology.replicas[1]
    expected: list[tuple[Server | None, bool, Server, Proof]] = [
        (None, False, primary, Proof.PRIMARY),
        (primary, False, primary, Proof.PRIMARY),
        (replica, False, replica, Proof.NONE),
        (replica, True, primary, Proof.PRIMARY),
    ]
    for last, pinned, server, proof in expected:
        session = session_at()
        session.own_scope.own = gtids(f"{U}:9")  # the server need not have this
        if last is not None:
            session.diagnostics.on_success(ConnectionArea(last), PARTS, 0, 1)
        if pinned:
            session.pins.acquire(PinReason.TABLE_LOCK)
        decision = choose(session, diagnostic, topology, NOW)
        assert decision == Decision(server, Reason.DIAGNOSTIC, proof)


def test_an_explain_goes_where_rows_were_counted() -> None:
    topology = topology_of("", "")
    area = ConnectionArea(topology.primary)
    session = session_at()
    explain = replace(READ, leaves=TAKES_COUNT)
    session.diagnostics.on_success(area, COUNTS_ROWS, 0, 0)
    decision = choose(session, explain, topology, NOW)
    assert decision == on_primary(topology, Reason.SESSION)
    assert choose(session, READ, topology, NOW).server is not topology.primary
    area.disturb(PARTS)
    assert choose(session, explain, topology, NOW).server is not topology.primary


# Levels and scopes.

GUARDED = [level for level in Level if level is not Level.BEST_EFFORT]
REMEMBERING = [level for level in GUARDED if level is not Level.BOUNDED_STALENESS]


def rules_at(level: Level, scope: Scope = Scope.CONNECTION, staleness: float = 0.5) -> Rules:
    return Rules(level, scope, 0.25, TimeoutPolicy.PRIMARY, staleness, "shop")


@pytest.mark.parametrize("scope", list(Scope))
def test_a_strong_read_always_asks_the_primary(scope: Scope) -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at()
    rules = rules_at(Level.STRONG, scope)
    state = session.reading(rules, topology.term, NOW)
    state.on_probe(gtids(f"{U}:1-3"), state.doubts)  # the scope is known, which does not help
    assert decide(session, READ, topology, NOW, rules).proof is Proof.PROBED
    decision = decide(session, READ, topology, NOW, rules, gtids(f"{U}:1-1000"))
    assert (decision.server, decision.proof) == (topology.replicas[0], Proof.KNOWN)
    late = decide(session, READ, topology, NOW, rules, gtids(f"{U}:1-1001"))
    assert (late.proof, late.proof_set) == (Proof.WAITED, gtids(f"{U}:1-1001"))


@pytest.mark.parametrize("level", REMEMBERING)
def test_what_was_asked_adds_to_what_the_scope_knows(level: Level) -> None:
    topology = topology_of("")
    session = session_at(level)
    session.own_scope.own = gtids(f"{V}:7")
    decision = decide(session, READ, topology, NOW, probed=gtids(f"{U}:1-3"))
    assert decision.proof_set == gtids(f"{U}:1-3,{V}:7")


def test_a_bounded_read_needs_the_oldest_observation_within_the_bound() -> None:
    topology = topology_of(f"{U}:1-5")
    session = session_at()
    session.own_scope.own = gtids(f"{U}:99")  # the level promises nothing about own writes
    session.may_have_written()
    rules = rules_at(Level.BOUNDED_STALENESS)
    for asked_at, count in ((NOW - 0.6, 4), (NOW - 0.5, 5), (NOW - 0.1, 6)):
        topology.observations.add(asked_at, gtids(f"{U}:1-{count}"))
    assert decide(session, READ, topology, NOW, rules).proof is Proof.KNOWN
    decision = decide(session, READ, topology, NOW + 0.05, rules)
    assert (decision.proof, decision.proof_set) == (Proof.WAITED, gtids(f"{U}:1-6"))
    assert decide(session, READ, topology, NOW + 0.45, rules).proof is Proof.PROBED
    decision = decide(session, READ, topology, NOW + 9, rules, gtids(f"{U}:1-5"))
    assert decision.proof is Proof.KNOWN


@pytest.mark.parametrize("level", GUARDED)
def test_only_read_all_writes_minds_the_order_of_commits(level: Level) -> None:
    topology = topology_of(f"{U}:1-9", f"{U}:1-9")
    first, second = topology.replicas
    first.ordered = False
    session = session_at(level)
    decision = decide(session, READ, topology, NOW, probed=gtids(f"{U}:1-9"))
    assert decision.server is (second if level is Level.READ_ALL_WRITES else first)
    second.ordered = False
    decision = decide(session, READ, topology, NOW, probed=gtids(f"{U}:1-9"))
    if level is Level.READ_ALL_WRITES:
        assert decision == Decision(topology.primary, Reason.COMMIT_ORDER, Proof.PRIMARY)
    else:
        assert decision.server is first


@pytest.mark.parametrize("level", [Level.MONOTONIC_READS, Level.READ_ALL_WRITES])
def test_what_was_observed_is_required(level: Level) -> None:
    topology = topology_of(f"{U}:1-5")
    session = session_at(level)
    session.record_executed(gtids(f"{U}:1-5"), topology.replicas[0])
    assert choose_read(session, topology).proof is Proof.KNOWN
    session.record_executed(gtids(f"{U}:1-6"), topology.replicas[0])
    assert choose_read(session, topology).proof_set == gtids(f"{U}:1-6")
    may_have_seen(session.own_scope)
    assert choose_read(session, topology).proof is Proof.PROBED
    assert decide(session, READ, topology, NOW, rules_at(Level.READ_OWN_WRITES)).proof is (
        Proof.KNOWN
    )


@pytest.mark.parametrize("level", [Level.MONOTONIC_READS, Level.READ_ALL_WRITES])
def test_a_read_goes_on_where_the_scope_has_read_before(level: Level) -> None:
    topology = topology_of(f"{U}:1-5", f"{U}:1-9")
    session = session_at(level)
    first, second = topology.replicas
    assert choose_read(session, topology).server is first
    session.record_answer(second, second.epoch)
    assert choose_read(session, topology).server is second
    # The replica must have what is required, not all that others have proved.
    session.record_executed(gtids(f"{U}:1-10"), second)
    assert choose_read(session, topology) == Decision(
        second, Reason.READ, Proof.WAITED, gtids(f"{U}:1-10")
    )


@pytest.mark.parametrize("level", [Level.MONOTONIC_READS, Level.READ_ALL_WRITES])
def test_a_read_that_cannot_go_on_there_has_the_primary_asked(level: Level) -> None:
    def gone(topology: Topology, session: Session) -> None:
        topology.replicas[0].set_unreachable(NOW)

    def refused(topology: Topology, session: Session) -> None:
        session.avoided = frozenset({topology.replicas[0]})

    def restarted(topology: Topology, session: Session) -> None:
        topology.replicas[0].observe("another", (0, 0), gtids(f"{U}:1-9"), EMPTY)

    def on_the_primary(topology: Topology, session: Session) -> None:
        session.own_scope.on_primary_settled(topology.primary, topology.primary.epoch)

    for change in (gone, refused, restarted, on_the_primary):
        topology = topology_of(f"{U}:1-9", f"{U}:1-9")
        session = session_at(level)
        session.record_answer(topology.replicas[0], topology.replicas[0].epoch)
        change(topology, session)
        assert choose_read(session, topology).proof is Proof.PROBED
        bound = gtids(f"{U}:1-12")
        decision = decide(session, READ, topology, NOW, probed=bound)
        assert (decision.proof, decision.proof_set) == (Proof.WAITED, bound)
        own_writes = rules_at(Level.READ_OWN_WRITES)
        assert decide(session, READ, topology, NOW, own_writes).proof is Proof.KNOWN


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("level", REMEMBERING)
def test_the_primary_of_another_term_is_asked_though_no_replica_can_answer(
    level: Level, scope: Scope
) -> None:
    """The client must be told what the primary lacks, whichever server answers."""
    topology = topology_of("")
    topology.replicas[0].set_unreachable(NOW)
    session = session_at()
    rules = rules_at(level, scope)
    session.reading(rules, topology.term, NOW)
    assert decide(session, READ, topology, NOW, rules).reason is Reason.NO_REPLICA
    topology.primary.observe(V, (0, 0), EMPTY, EMPTY)
    assert decide(session, READ, topology, NOW, rules).proof is Proof.PROBED
    session.own_scope.may_have_written()
    assert decide(session, READ, topology, NOW, rules).proof is Proof.PROBED
    decision = decide(session, READ, topology, NOW, rules_at(Level.BOUNDED_STALENESS, scope))
    assert decision.reason is Reason.NO_REPLICA


def test_a_long_set_of_another_term_is_compared_first() -> None:
    topology = topology_of("")
    session = session_at()
    numbers = ":".join(str(2 * k + 1) for k in range(PROBE_ABOVE + 1))
    session.own_scope.own = gtids(f"{U}:{numbers}")
    assert choose_read(session, topology).reason is Reason.UNKNOWN_REQUIRED
    topology.primary.observe(V, (0, 0), EMPTY, EMPTY)
    assert choose_read(session, topology).proof is Proof.PROBED


# Waits that are predicted.


def test_the_shortest_wait_is_chosen() -> None:
    topology = topology_of("", "")
    first, second = topology.replicas
    session = session_at()
    session.record_write(gtids(f"{U}:9"), topology.primary, NOW)
    first.applied_after(0.2, 0.2, NOW)
    assert choose_read(session, topology).server is second
    second.applied_after(0.22, 0.22, NOW)
    assert choose_read(session, topology).server is first
    # Replicas probably have what was acknowledged long ago.
    assert choose_read(session, topology, NOW + 0.3).server is first


def test_a_wait_beyond_the_budget_is_not_tried_unless_the_primary_is_crowded() -> None:
    topology = topology_of("", "")
    session = session_at()
    session.record_write(gtids(f"{U}:9"), topology.primary, NOW)
    for replica, delay in zip(topology.replicas, (0.4, 0.3), strict=True):
        replica.applied_after(delay, delay, NOW)
    assert choose_read(session, topology).reason is Reason.REPLICA_BEHIND
    crowded = decide(session, READ, topology, NOW, crowded=True)
    assert (crowded.server, crowded.proof) == (topology.replicas[1], Proof.WAITED)
    session = session_at(on_timeout=TimeoutPolicy.ERROR)
    session.record_write(gtids(f"{U}:9"), topology.primary, NOW)
    assert choose_read(session, topology).server is topology.replicas[1]


def test_where_delays_differ_a_read_waits_briefly() -> None:
    topology = topology_of("", "")
    first, second = topology.replicas
    session = session_at()
    session.record_write(gtids(f"{U}:9"), topology.primary, NOW)
    second.set_unreachable(NOW)
    for delay in (1.0, 2.0):
        first.applied_after(delay, 0.1, NOW)
    second.down_until = NOW
    second.apply_delay.missing(9.0, NOW + 1.0)
    assert choose_read(session, topology, NOW + 0.4).reason is Reason.REPLICA_BEHIND
    brief = choose_read(session, topology, NOW + 0.6)
    assert (brief.server, brief.proof, brief.is_brief) == (first, Proof.WAITED, True)
    wait = choose_read(session, topology, NOW + 1.8)
    assert (wait.server, wait.proof, wait.is_brief) == (first, Proof.WAITED, False)


def test_what_the_primary_has_now_may_be_there_for_long() -> None:
    topology = topology_of("")
    (replica,) = topology.replicas
    for delay in (1.0, 2.0):
        replica.applied_after(delay, 0.1, NOW)
    session = session_at(Level.STRONG)
    requirement = Requirement(session.rules, gtids=gtids(f"{U}:9"), probed=gtids(f"{U}:9"))
    decision = choose(session, READ, topology, NOW, requirement)
    assert (decision.server, decision.proof, decision.is_brief) == (replica, Proof.WAITED, True)


def test_a_replica_that_will_have_it_is_waited_for_rather_than_another_one_briefly() -> None:
    topology = topology_of("", "")
    first, second = topology.replicas
    session = session_at()
    session.record_write(gtids(f"{U}:9"), topology.primary, NOW)
    for delay in (0.1, 1.0, 0.1, 1.0):
        first.applied_after(delay, delay, NOW)
    second.applied_after(0.2, 0.2, NOW)
    decision = choose_read(session, topology, NOW + 0.1)
    assert (decision.server, decision.is_brief) == (second, False)
    second.add_proof(gtids(f"{U}:9"), second.epoch)
    assert choose_read(session, topology, NOW + 0.1).proof is Proof.KNOWN


# How old a proof may be.


@pytest.mark.parametrize("level", [level for level in Level if level is not Level.BEST_EFFORT])
@pytest.mark.parametrize("waits", [False, True])
def test_a_replica_that_was_not_asked_for_long_is_asked(level: Level, waits: bool) -> None:
    topology = topology_of(f"{U}:1-5")
    (server,) = topology.replicas
    server.proof_max_age = 1.0
    session = session_at(level)
    probed = gtids(f"{U}:1-{6 if waits else 5}")
    rules = rules_at(level)

    def asks(now: float) -> bool:
        decision = decide(session, READ, topology, now, rules, probed)
        assert decision.server is server
        assert decision.proof is (Proof.WAITED if waits else Proof.KNOWN)
        return decision.confirm

    session.record_write(probed, topology.primary)
    assert asks(NOW)
    server.add_confirmation(server.epoch, NOW)
    assert not asks(NOW)
    assert not asks(NOW + 0.999)
    assert asks(NOW + 1)
    server.proof_max_age = 0.0
    assert asks(NOW)


@pytest.mark.parametrize("level", list(Level))
def test_a_read_that_relies_on_no_proof_asks_for_none(level: Level) -> None:
    """Only a read that follows others, or that needs commit order, asks even without a proof."""
    topology = topology_of(f"{U}:1-5")
    topology.replicas[0].proof_max_age = 0.0
    decision = decide(session_at(level), READ, topology, NOW, rules_at(level), EMPTY)
    assert decision.server is topology.replicas[0]
    assert decision.confirm is (level in (Level.MONOTONIC_READS, Level.READ_ALL_WRITES))

"""Every rule of `choose`, one test each: who may answer, why, and what allows it."""

from itertools import product

import pytest

from protocol.gtid import EMPTY, GtidSet
from routing.consistency import Rules
from routing.decision import Decision, Level, Proof, Reason, Scope, TimeoutPolicy
from routing.policy import choose, on_primary
from routing.scope import PROBE_ABOVE
from routing.session import Session
from routing.statement import Statement, StatementClass, Touch
from routing.topology import Server, Topology

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"
NOW = 1000.0


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(text)


def statement(kind: StatementClass) -> Statement:
    return Statement(kind, Touch.NOTHING, kind is StatementClass.WRITE, "0" * 16)


READ = statement(StatementClass.READ)


def session_at(
    level: Level = Level.READ_OWN_WRITES,
    on_timeout: TimeoutPolicy = TimeoutPolicy.PRIMARY,
    preferred: int = 0,
) -> Session:
    return Session(Rules(level, Scope.CONNECTION, 0.25, on_timeout), preferred, term=1)


def topology_of(*applied: str) -> Topology:
    """A primary and a replica for each of these applied sets."""
    topology = Topology("primary:1", [f"replica:{k}" for k in range(len(applied))])
    topology.primary.observed(U, (0, 0), gtids(f"{U}:1-1000"), EMPTY)
    for k, (server, text) in enumerate(zip(topology.replicas, applied, strict=True)):
        server.observed(f"uuid-{k}", (0, 0), gtids(text), EMPTY)
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
        (f"{U}:5", f"{U}:6-9"),  # a higher number proves nothing of a lower one
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
    first.unreachable(NOW)
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
    assert choose_read(session, topology, first.behind_until).server is first


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
        decision = choose(session, READ, topology, NOW, probed=EMPTY)
        assert decision.server is topology.replicas[1]


def test_a_replica_without_gtids_can_prove_nothing() -> None:
    topology = topology_of(f"{U}:1-9", "")
    topology.replicas[0].gtids = False
    session = session_at()
    session.own_scope.own = gtids(f"{U}:9")
    assert choose_read(session, topology).server is topology.replicas[1]


@pytest.mark.parametrize("level", list(Level))
def test_where_no_replica_can_be_asked_the_primary_answers(level: Level) -> None:
    session = session_at(level)
    none = topology_of()
    assert choose_read(session, none) == Decision(none.primary, Reason.NO_REPLICA, Proof.PRIMARY)
    topology = topology_of("", "", "")
    topology.replicas[0].unreachable(NOW)
    topology.replicas[1].unreachable(NOW)
    session.avoided = frozenset({topology.replicas[2]})
    assert choose_read(session, topology).reason is Reason.NO_REPLICA


# Sessions that read from the primary.


@pytest.mark.parametrize("level", list(Level))
@pytest.mark.parametrize(
    ("state", "value", "reason"),
    [
        ("in_transaction", True, Reason.TRANSACTION),
        ("autocommit", False, Reason.TRANSACTION),
        ("one_shot", True, Reason.TRANSACTION),
        ("pin", "table lock", Reason.PINNED),
    ],
)
def test_a_session_that_is_bound_reads_from_the_primary(
    level: Level, state: str, value: object, reason: Reason
) -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at(level)
    setattr(session, state, value)
    assert choose_read(session, topology) == Decision(topology.primary, reason, Proof.PRIMARY)


def test_an_unknown_required_set_is_a_reason_for_the_primary() -> None:
    topology = topology_of(f"{U}:1-1000")
    session = session_at()
    session.may_have_written()
    decision = choose_read(session, topology)
    assert decision == Decision(topology.primary, Reason.UNKNOWN_REQUIRED, Proof.PRIMARY)
    session.in_transaction = True
    assert choose_read(session, topology).reason is Reason.UNKNOWN_REQUIRED
    session.in_transaction = False
    session.probed(gtids(f"{U}:1-3"))
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
    topology.replicas[1].unreachable(NOW)
    assert choose_read(session, topology).server is topology.replicas[0]
    assert (
        choose_read(session, topology, topology.replicas[1].down_until).server
        is (topology.replicas[1])
    )


# What asks about the previous statement.


def test_diagnostics_follow_the_previous_statement() -> None:
    topology = topology_of("", "")
    diagnostic = statement(StatementClass.DIAGNOSTIC)
    primary, replica = topology.primary, topology.replicas[1]
    expected: list[tuple[Server | None, str, Server, Proof]] = [
        (None, "", primary, Proof.PRIMARY),
        (primary, "", primary, Proof.PRIMARY),
        (replica, "", replica, Proof.NONE),
        (replica, "table lock", primary, Proof.PRIMARY),
    ]
    for last, pin, server, proof in expected:
        session = session_at()
        session.own_scope.own = gtids(f"{U}:9")  # nothing newer needs to be there
        session.last = last
        session.pin = pin
        decision = choose(session, diagnostic, topology, NOW)
        assert decision == Decision(server, Reason.DIAGNOSTIC, proof)

"""Which servers are asked first: counted over sessions, with no luck in it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY
from routing.consistency.decision import Decision, Level, Proof, Reason, Scope, TimeoutPolicy
from routing.consistency.requirement import Requirement
from routing.consistency.rules import Rules
from routing.policy import by_level, stale
from routing.servers.placement import ANYWHERE, MOST_WEIGHT, Place, Placement, cycle
from routing.servers.topology import Server, Topology
from routing.session.session import Session
from tests.support.gtid_sets import gtids

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NOW = 100.0
PRIMARY = "primary:1"


def topology_of(
    *places: Place,
    zone: str = "",
    with_primary: bool = False,
    primary: Place = ANYWHERE,
    applied: int = 100,
) -> Topology:
    """Replicas at these places, which have so many transactions."""
    topology = Topology(PRIMARY, [f"r{k}:1" for k in range(len(places))])
    topology.primary.observe(U, (0, 0), gtids(f"{U}:1-100"), EMPTY)
    for k, server in enumerate(topology.replicas):
        server.observe(f"uuid-{k}", (0, 0), gtids(f"{U}:1-{applied}") if applied else EMPTY, EMPTY)
    known = {f"r{k}:1": place for k, place in enumerate(places)} | {PRIMARY: primary}
    topology.place(Placement(zone, known, with_primary=with_primary))
    return topology


def session_of(
    number: int,
    level: Level = Level.READ_OWN_WRITES,
    on_timeout: TimeoutPolicy = TimeoutPolicy.PRIMARY,
) -> Session:
    return Session(Rules(level, Scope.CONNECTION, 0.25, on_timeout), number, term=1)


def decide(session: Session, topology: Topology, crowded: bool = False) -> Decision:
    return by_level(session, topology, NOW, Requirement(session.rules), crowded=crowded)


def counted(topology: Topology, sessions: int, first: int = 0x4000_0000) -> Counter[str]:
    return Counter(
        decide(session_of(number), topology).server.name
        for number in range(first, first + sessions)
    )


# Weights.


@given(weights=st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_a_cycle_has_each_server_as_often_as_its_weight_says(weights: list[int]) -> None:
    found = cycle(range(len(weights)), weights)
    shares = Counter(found)
    for k, weight in enumerate(weights):
        for other, its_weight in enumerate(weights):
            if weight and its_weight:
                assert shares[k] * its_weight == shares[other] * weight
        assert shares[k] >= 1


@given(weights=st.lists(st.integers(1, 9), min_size=2, max_size=4))
def test_a_cycle_is_spread_evenly(weights: list[int]) -> None:
    """In no part of it a server occurs more than two more, or less, than its share."""
    found = cycle(range(len(weights)), weights)
    for end in range(len(found) + 1):
        for k, weight in enumerate(weights):
            assert abs(found[:end].count(k) - end * weight / sum(weights)) < len(weights)


def test_the_longest_cycle() -> None:
    assert len(cycle("abc", [MOST_WEIGHT, MOST_WEIGHT - 1, 1])) == 2 * MOST_WEIGHT


@given(weights=st.lists(st.integers(0, 5), min_size=1, max_size=4), first=st.integers(0, 1 << 30))
def test_sessions_are_spread_by_weight(weights: list[int], first: int) -> None:
    topology = topology_of(*(Place(weight) for weight in weights))
    length = sum(weights) or len(weights)
    found = counted(topology, 3 * length, first)
    if any(weights):
        for k, weight in enumerate(weights):
            assert found[f"r{k}:1"] == 3 * weight
    else:
        assert set(found.values()) == {3}


def test_what_a_server_leaves_is_spread_by_weight_too() -> None:
    topology = topology_of(Place(4), Place(2), Place(2))
    topology.replicas[0].set_unreachable(NOW)
    assert counted(topology, 80) == {"r1:1": 40, "r2:1": 40}
    topology = topology_of(Place(5), Place(3), Place(1), Place(2))
    topology.replicas[0].set_unreachable(NOW)
    assert counted(topology, 11 * 6 * 10) == {"r1:1": 330, "r2:1": 110, "r3:1": 220}


def test_weight_0_is_read_only_where_there_is_no_other() -> None:
    topology = topology_of(Place(0), Place(1), Place(1, "far"), zone="")
    assert counted(topology, 20) == {"r1:1": 10, "r2:1": 10}
    topology.replicas[1].set_unreachable(NOW)
    assert counted(topology, 20) == {"r2:1": 20}
    topology.replicas[2].set_unreachable(NOW)
    assert counted(topology, 20) == {"r0:1": 20}


# Zones.

NEAR, FAR, NOWHERE = Place(zone="near"), Place(zone="far"), Place()


def test_near_replicas_are_read_before_others() -> None:
    topology = topology_of(FAR, NEAR, NOWHERE, NEAR, zone="near")
    assert counted(topology, 20) == {"r1:1": 10, "r3:1": 10}
    topology.replicas[1].set_unreachable(NOW)
    assert counted(topology, 20) == {"r3:1": 20}
    topology.replicas[3].set_lagging(True)
    assert counted(topology, 20) == {"r0:1": 10, "r2:1": 10}


def test_a_near_replica_of_weight_0_comes_behind_far_ones() -> None:
    topology = topology_of(Place(0, "near"), Place(0, "far"), FAR, zone="near")
    names = [server.name for server in topology.in_order(0)]
    assert names == ["r2:1", "r0:1", "r1:1"]


@pytest.mark.parametrize("on_timeout", TimeoutPolicy)
def test_a_near_one_that_will_have_it_in_time_comes_before_a_far_one_that_has_it(
    on_timeout: TimeoutPolicy,
) -> None:
    topology = topology_of(FAR, NEAR, zone="near", applied=99)
    far, near = topology.replicas
    far.observe("uuid-0", (0, 0), gtids(f"{U}:1-100"), EMPTY)
    session = session_of(0, on_timeout=on_timeout)
    session.own_scope.own = gtids(f"{U}:1-100")
    far_has = decide(session, topology)
    assert (far_has.server, far_has.proof) == (near, Proof.WAITED)
    near.behind_until = NOW + 1
    if on_timeout is TimeoutPolicy.PRIMARY:  # or it waits, whatever is predicted
        late = decide(session, topology)
        assert (late.server, late.proof) == (far, Proof.KNOWN)


def test_a_far_one_comes_before_the_primary() -> None:
    topology = topology_of(FAR, NEAR, zone="near", applied=99)
    far, near = topology.replicas
    near.behind_until = NOW + 1
    session = session_of(0)
    session.own_scope.own = gtids(f"{U}:1-100")
    decision = decide(session, topology)
    assert (decision.server, decision.proof) == (far, Proof.WAITED)
    far.behind_until = NOW + 1
    assert decide(session, topology).reason is Reason.REPLICA_BEHIND


# The primary's share.


def test_the_primary_takes_its_share() -> None:
    topology = topology_of(Place(2), Place(1), with_primary=True)
    assert counted(topology, 40) == {"r0:1": 20, "r1:1": 10, PRIMARY: 10}
    topology = topology_of(Place(1), with_primary=True, primary=Place(0))
    assert counted(topology, 40) == {"r0:1": 40}
    topology = topology_of(NEAR, with_primary=True, primary=FAR, zone="near")
    assert counted(topology, 40) == {"r0:1": 40}
    topology = topology_of(FAR, with_primary=True, primary=NEAR, zone="near")
    assert counted(topology, 40) == {PRIMARY: 40}


def test_replicas_take_its_share_while_it_is_gone() -> None:
    topology = topology_of(Place(1), Place(1), with_primary=True)
    topology.primary.set_unreachable(NOW)
    assert counted(topology, 30) == {"r0:1": 15, "r1:1": 15}


def test_a_promotion_changes_who_is_asked() -> None:
    topology = topology_of(NEAR, FAR, zone="near", with_primary=True, primary=FAR)
    near = topology.replicas[0]
    assert counted(topology, 10) == {"r0:1": 10}
    topology.promote(near)
    assert near not in topology.in_order(0)
    assert counted(topology, 10) == {"r0:1": 10}  # it is the primary, and the only near one


def test_servers_that_come_and_go() -> None:
    topology = topology_of(Place(1), Place(1))
    topology.remove_replica(topology.replicas[0])
    assert counted(topology, 10) == {"r1:1": 10}
    come = topology.meet("r2:1")
    come.observe("uuid-2", (0, 0), gtids(f"{U}:1-100"), EMPTY)
    topology.add_replica(come)
    assert counted(topology, 10) == {"r1:1": 5, "r2:1": 5}


# What a read must see is none of its business.


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Topology, Session, bool]:
    places = draw(
        st.lists(
            st.builds(Place, st.integers(0, 3), st.sampled_from(["", "near", "far"])), max_size=4
        )
    )
    zone = draw(st.sampled_from(["", "near"]))
    topology = topology_of(*places, zone=zone, applied=0)
    for k, server in enumerate(topology.replicas):
        applied = draw(st.integers(0, 9))
        server.observe(f"uuid-{k}", (0, 0), gtids(f"{U}:1-{applied}") if applied else EMPTY, EMPTY)
        if draw(st.booleans()):
            server.set_unreachable(NOW)
        server.set_lagging(draw(st.booleans()))
        server.ordered = draw(st.booleans())
        if draw(st.booleans()):
            server.behind_until = NOW + 1
    session = session_of(
        draw(st.integers(0, 1 << 30)),
        draw(st.sampled_from(list(Level))),
        draw(st.sampled_from(list(TimeoutPolicy))),
    )
    written = draw(st.integers(0, 9))
    session.own_scope.own = gtids(f"{U}:1-{written}") if written else EMPTY
    return topology, session, draw(st.booleans())


def alone(topology: Topology, server: Server) -> Topology:
    """The same primary, and this replica as the only one, without a placement."""
    found = Topology(PRIMARY, [])
    found.primary = topology.primary
    found.replicas = [server]
    found.observations = topology.observations
    return found


def of(topology: Topology, session: Session, crowded: bool) -> Decision:
    probed = gtids(f"{U}:1-5")
    requirement = Requirement(session.rules, probed=probed)
    return by_level(session, topology, NOW, requirement, crowded=crowded)


@given(worlds())
def test_promises_are_untouched(world: tuple[Topology, Session, bool]) -> None:
    """A replica is chosen only as it would be if it were the only one, with the same proof."""
    topology, session, crowded = world
    found = of(topology, session, crowded)
    alike = [of(alone(topology, server), session, crowded) for server in topology.replicas]
    replicas = [decision for decision in alike if decision.server is not topology.primary]
    if found.server is topology.primary:
        assert not replicas
    else:
        (same,) = (decision for decision in replicas if decision.server is found.server)
        assert found == same
    unguarded = stale(session, topology, NOW)
    assert unguarded is None or stale(session, alone(topology, unguarded), NOW) is unguarded


@given(worlds())
def test_without_places_all_is_as_it_was(world: tuple[Topology, Session, bool]) -> None:
    """A placement in which all are alike asks the same replica first as no placement does.

    Whom they ask next is the same, too, where only one is left; of more, the placement spreads
    what the first leaves over all, and a ring gives it to the neighbour.
    """
    topology, session, crowded = world
    count = max(1, len(topology.replicas))
    topology.place(Placement("", {}, with_primary=False))
    first = topology.first_of(session.preferred) if topology.replicas else None
    placed = of(topology, session, crowded)
    topology.place(None)
    session.preferred %= count
    assert first is None or topology.first_of(session.preferred) is first
    if count < 3 or placed.server is first:
        assert of(topology, session, crowded) == placed

"""Which replicas are too far behind to be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY, GtidSet
from routing.servers.channels import Channels
from routing.servers.lag import SourceLag, Span
from routing.servers.max_lag import is_lagging
from routing.servers.topology import Server, Topology

U = "11111111-1111-1111-1111-111111111111"
LIMIT = 10.0
RUNNING = Channels(1)
STOPPED = Channels(0)


def first(count: int) -> GtidSet:
    return GtidSet({U: [(1, count + 1)]}) if count else EMPTY


class World:
    """A primary that commits a transaction each second, and a replica."""

    def __init__(self) -> None:
        self.topology = Topology("primary:1", ["replica:1"])
        self.now = 0.0
        self.committed = 0
        self.replica.channels = RUNNING

    @property
    def replica(self) -> Server:
        return self.topology.replicas[0]

    def writes(self, seconds: int) -> None:
        """Let so many seconds pass, with a transaction and a look at the primary in each."""
        for _ in range(seconds):
            self.now += 1
            self.committed += 1
            self.looks_at_primary()

    def looks_at_primary(self) -> None:
        self.topology.primary.observe(U, (0, 0), first(self.committed), first(self.committed))
        self.topology.observations.add(self.now, first(self.committed))

    def lags(self, applied: int) -> bool:
        """Look at the replica, which has so many transactions."""
        replica = self.replica
        replica.staleness = self.topology.observations.staleness(first(applied))
        replica.set_lagging(is_lagging(replica, self.topology, LIMIT, self.now))
        return replica.lagging


@pytest.fixture
def world() -> World:
    return World()


def test_a_replica_that_is_late_is_read_up_to_the_limit(world: World) -> None:
    world.writes(30)
    assert not world.lags(30)
    assert not world.lags(19)  # the 20th was there 10 s ago
    assert world.lags(18)


def test_it_is_read_again_when_it_is_well_within_the_limit(world: World) -> None:
    world.writes(30)
    assert world.lags(10)
    assert world.lags(20)
    assert world.lags(23)
    assert not world.lags(24)
    assert not world.lags(20)


def test_while_the_primary_is_idle_or_gone_nobody_falls_behind(world: World) -> None:
    world.writes(30)
    world.now += 3600
    assert not world.lags(30)
    assert not world.lags(29)  # it has missed the primary's last words
    assert world.lags(10)
    world.looks_at_primary()
    assert not world.lags(30)
    assert world.lags(29)  # an hour later the primary still has it


def test_nothing_is_known_of_a_primary_that_was_never_seen(world: World) -> None:
    world.replica.channels = STOPPED
    assert not world.lags(0)
    world.replica.set_lagging(True)
    assert world.lags(0)


def test_a_replica_that_may_have_lacked_something_for_long(world: World) -> None:
    world.committed = 100
    world.looks_at_primary()
    assert not world.lags(99)  # it replicates: what it lacks is probably new
    world.replica.channels = STOPPED
    assert world.lags(99)
    assert not world.lags(100)
    world.writes(1)
    assert not world.lags(100)
    assert world.lags(99)
    world.replica.channels = RUNNING
    assert world.lags(99)  # as long as nobody knows better
    assert not world.lags(100)


def test_what_waits_by_commit_timestamps_counts_where_nothing_else_tells(world: World) -> None:
    world.committed = 100
    world.looks_at_primary()
    lag = world.replica.replication

    def waits(seconds: int, hop: int | None = None, source: str = U) -> bool:
        span = Span(seconds * 1_000_000, 500_000)
        hop_span = span if hop is None else Span(hop * 1_000_000, 500_000)
        lag.sources = [SourceLag("", source, span, hop_span, None, None)]
        world.replica.set_lagging(False)
        return world.lags(50)

    assert waits(11)
    assert not waits(10)
    assert not waits(3600, 2)  # somebody has set original_commit_timestamp
    assert not waits(3600, source="another")
    lag.disordered = True
    assert not waits(3600)
    lag.disordered = False
    world.now += 100  # the primary is gone
    assert not waits(101)
    assert waits(111)


def test_without_gtids_only_what_replicates_is_read(world: World) -> None:
    world.topology.primary.gtids = False
    world.looks_at_primary()
    assert not world.lags(0)
    world.replica.channels = STOPPED
    assert world.lags(0)
    world.replica.channels = None
    assert not world.lags(0)


def test_a_replica_that_is_promoted_lags_behind_nobody(world: World) -> None:
    world.writes(30)
    assert world.lags(3)
    world.topology.promote(world.replica)
    assert not world.topology.primary.lagging
    assert world.topology.primary.shunned_until == 0


STEPS = st.lists(
    st.tuples(st.sampled_from(["writes", "idles", "applies", "stops"]), st.integers(0, 12)),
    max_size=40,
)


@given(STEPS)
def test_no_replica_is_read_that_was_beyond_the_limit_when_the_primary_was_seen(
    steps: list[tuple[str, int]],
) -> None:
    world = World()
    world.looks_at_primary()
    committed_at = [0.0]
    applied = 0
    for step, number in steps:
        if step == "writes":
            committed_at += [world.now + 1 + second for second in range(number)]
            world.writes(number)
        elif step == "idles":
            world.now += number
            world.looks_at_primary()
        elif step == "applies":
            applied = min(world.committed, applied + number)
        else:
            world.replica.channels = STOPPED if number % 2 else RUNNING
        lags = world.lags(applied)
        lacking = applied < world.committed
        age = world.now - committed_at[applied + 1] if lacking else 0.0
        assert lags or age <= LIMIT
        assert not lags or age > LIMIT / 2

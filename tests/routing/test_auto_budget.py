"""``wait-budget = auto``: a read waits, or runs on the primary, by what is measured."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY
from routing.consistency.decision import (
    Decision,
    Level,
    LostPolicy,
    Proof,
    Reason,
    Scope,
    TimeoutPolicy,
)
from routing.consistency.rules import AUTO, LONGEST_AUTO_S, Rules, StatementRules, WaitBudget
from routing.policy import choose
from routing.request.command_progress import CommandProgress
from routing.request.read import Read
from routing.request.step import Send
from routing.servers.primary_share import LEAST_SHARE
from routing.servers.topology import Server, Topology
from routing.servers.waits import Waits
from routing.session.session import Session
from routing.sql.statement import Statement, StatementClass, StatementReason
from tests.support.gtid_sets import gtids

U = "11111111-1111-1111-1111-111111111111"
NOW = 1000.0
READ = Statement(StatementClass.READ, StatementReason.NOTHING, False, "0" * 16)


class World:
    """A session that has just written, and replicas that may lack that."""

    def __init__(self, budget: WaitBudget = AUTO, replicas: int = 2, **rules: Any) -> None:
        names = [f"replica:{number}" for number in range(replicas)]
        self.topology = Topology("primary:1", names, fallback_rate=5.0)
        self.topology.primary.observe(U, (0, 0), gtids(f"{U}:1-9"), EMPTY)
        for number, server in enumerate(self.topology.replicas):
            server.observe(f"uuid-{number}", (0, 0), gtids(f"{U}:1-3"), EMPTY)
        rules = {"on_timeout": TimeoutPolicy.PRIMARY, **rules}
        self.rules = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, budget, **rules)
        self.session = Session(self.rules, 0, term=1)
        self.session.record_write(gtids(f"{U}:9"), self.topology.primary, NOW)
        self.topology.primary_share.share = LEAST_SHARE

    def measure(self, server: Server, alone: float, catch_up: float = 0.0) -> None:
        """Let a server be known to take so long for an answer, and to apply a write, s."""
        server.answer_times.answered(alone, 0.0)
        if catch_up:
            server.answer_times.caught_up(catch_up, catch_up, NOW)

    def choose(self, now: float = NOW, *, crowded: bool = False) -> Decision:
        return choose(self.session, READ, self.topology, now, crowded=crowded)

    def read(self) -> Decision:
        """Send a read, as its machine does."""
        progress = CommandProgress()
        progress.on_command()
        read = Read(self.session, self.topology, Waits(), LostPolicy.ERROR, progress)
        step = read.begin(READ, None, NOW)
        assert isinstance(step, Send)
        return step.decision


def late(budget: WaitBudget = AUTO, **rules: Any) -> World:
    """Replicas that are 10 ms behind a primary that answers in 0.2 ms."""
    world = World(budget, **rules)
    world.measure(world.topology.primary, 0.0002)
    for replica in world.topology.replicas:
        world.measure(replica, 0.0002, 0.01)
    return world


def test_a_read_waits_while_nothing_is_known() -> None:
    world = World()
    decision = world.choose()
    assert (decision.server, decision.proof) == (world.topology.replicas[0], Proof.WAITED)


def test_a_read_that_would_wait_long_runs_on_the_primary() -> None:
    world = late()
    assert world.choose() == Decision(world.topology.primary, Reason.WAIT_DEARER, Proof.PRIMARY)


def test_a_read_that_comes_late_enough_finds_the_write_applied() -> None:
    assert late().choose(NOW + 0.0099).proof is Proof.WAITED


def test_the_replica_that_will_have_it_first_is_waited_for() -> None:
    world = late()
    second = world.topology.replicas[1]
    for _ in range(20):
        world.measure(second, 0.0002, 0.0001)
    assert world.choose().server is second


def test_what_a_replica_has_is_read_there_however_slow_it_is() -> None:
    world = late()
    replica = world.topology.replicas[1]
    replica.add_proof(gtids(f"{U}:9"), replica.epoch)
    assert world.choose().proof is Proof.KNOWN


@pytest.mark.parametrize("on_timeout", [TimeoutPolicy.ERROR, TimeoutPolicy.STALE])
def test_reads_that_may_not_leave_a_late_replica_wait(on_timeout: TimeoutPolicy) -> None:
    assert late(on_timeout=on_timeout).choose().proof is Proof.WAITED


def test_a_read_waits_where_the_primary_is_gone() -> None:
    world = late()
    world.topology.primary.set_unreachable(NOW)
    assert world.choose().proof is Proof.WAITED


def test_the_primary_is_spared_when_it_has_its_share() -> None:
    world = late()
    world.topology.primary_share.share = 1 - LEAST_SHARE
    assert world.choose().proof is Proof.WAITED


def test_a_read_on_the_primary_counts_for_its_share_and_a_wait_against_it() -> None:
    world = late()
    before = world.topology.primary_share.share
    assert world.read().proof is Proof.PRIMARY
    after = world.topology.primary_share.share
    assert after > before
    world.topology.primary_share.share = 1 - LEAST_SHARE / 2
    assert world.read().proof is Proof.WAITED
    assert world.topology.primary_share.share < 1 - LEAST_SHARE / 2


def test_no_more_reads_leave_late_replicas_than_the_primary_is_to_be_given() -> None:
    """The rate is five in a second; all others wait."""
    world = late()
    proofs = []
    for _ in range(40):
        world.topology.primary_share.share = LEAST_SHARE
        proofs.append(world.read().proof)
    assert proofs == [Proof.PRIMARY] * 5 + [Proof.WAITED] * 35


def test_a_replica_where_a_wait_ran_out_is_left_alone_for_a_while() -> None:
    world = World(replicas=1)
    world.topology.primary_share.share = 1.0
    assert world.choose().proof is Proof.WAITED
    world.topology.replicas[0].timed_out(NOW, LONGEST_AUTO_S)
    assert world.choose().proof is Proof.PRIMARY


@given(
    st.sampled_from([0.001, 0.05, 0.25, 1.0]),
    st.sampled_from(TimeoutPolicy),
    st.lists(st.tuples(st.integers(0, 2), st.floats(1e-6, 1), st.floats(1e-6, 1)), max_size=9),
    st.floats(0, 1),
    st.floats(0, 2),
)
def test_a_fixed_budget_knows_nothing_of_all_that(
    budget: float,
    on_timeout: TimeoutPolicy,
    measured: list[tuple[int, float, float]],
    share: float,
    pause: float,
) -> None:
    plain, weighed = (World(budget, on_timeout=on_timeout) for _ in range(2))
    for number, alone, catch_up in measured:
        weighed.measure(weighed.topology.servers[number], alone, catch_up)
    weighed.topology.primary_share.share = share
    for world in (plain, weighed):
        world.topology.replicas[0].applied_after(0.03, 0.03, NOW)
    first, second = (world.choose(NOW + pause) for world in (plain, weighed))
    assert (first.server.name, first.reason, first.proof) == (
        *(second.server.name, second.reason, second.proof),
    )
    weighed.read()
    assert weighed.topology.primary_share.share == share


def test_rules_keep_how_the_budget_was_set() -> None:
    auto = late().rules
    assert (auto.is_auto, auto.wait_budget, auto.budget) == (True, LONGEST_AUTO_S, AUTO)
    assert StatementRules(auto) == auto
    fixed = World(LONGEST_AUTO_S).rules
    assert (fixed.is_auto, fixed.wait_budget) == (False, LONGEST_AUTO_S)
    assert fixed != auto

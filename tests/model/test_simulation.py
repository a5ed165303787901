"""The simulation finds no read that breaks its promise, whatever the steps; see `simulation`."""

from collections import Counter
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from routing.consistency.decision import Level, Scope
from tests.model.options import (
    FOLLOWED,
    LAGGING,
    PLACED,
    REBUILDS,
    RESTARTED,
    WATCHED,
    Options,
    some_options,
)
from tests.model.servers import Physics
from tests.model.simulation import Simulation
from tests.support.seeds import seeds

NUMBERS = st.integers(0, (1 << 32) - 1)


def judged(options: Options, seed: int, steps: int) -> Simulation:
    simulation = Simulation(options)
    simulation.run(seed, steps)
    assert [str(complaint) for complaint in simulation.judge()] == []
    return simulation


@pytest.mark.parametrize("seed", seeds(100, 100, fast=30))
def test_random_steps(seed: int) -> None:
    judged(some_options(seed), seed, 2000)


@pytest.mark.parametrize("physics", [Physics.SIMPLE, *Physics, Physics.REAL])
def test_it_does_not_matter_which_moments_of_a_commit_are_apart(physics: Physics) -> None:
    judged(Options(physics=physics), 1, 5000)


@pytest.mark.parametrize("age", [0.0, 0.3])
@pytest.mark.parametrize("seed", seeds(25, 25, fast=8))
def test_replicas_that_are_made_anew_while_in_use(seed: int, age: float) -> None:
    judged(Options(proof_max_age=age, weights=REBUILDS), seed, 2000)


@pytest.mark.parametrize("seed", seeds(25, 25, fast=8))
def test_a_monitor_and_late_acknowledgements(seed: int) -> None:
    judged(Options(proof_max_age=(0.0, 0.3)[seed % 2], weights=WATCHED), seed, 2000)


@pytest.mark.parametrize("seed", seeds(25, 25, fast=8))
def test_replicas_that_are_left_out_since_they_lag(seed: int) -> None:
    """That changes who answers, and no promise."""
    counts = judged(Options(proof_max_age=(0.0, 0.3)[seed % 2], weights=LAGGING), seed, 2000).counts
    assert counts["lagging"] > 3


@pytest.mark.parametrize("seed", seeds(25, 25, fast=8))
def test_servers_of_other_zones_and_weights(seed: int) -> None:
    """That changes who answers, too, and no promise; the primary may have a share of the reads."""
    options = Options(proof_max_age=(0.0, 0.3)[seed % 2], weights=PLACED)
    counts = judged(options, 100 + seed, 2000).counts
    assert counts["placed"] > 3


def test_the_primary_has_its_share_of_reads_somewhere() -> None:
    """Not by every seed: it depends on where the servers are placed, and when."""
    runs = (judged(Options(weights=PLACED), seed, 2000).counts for seed in range(100, 110))
    assert sum(counts["read of the primary's share"] for counts in runs) > 10


@pytest.mark.parametrize("seed", seeds(20, 40, fast=5))
def test_reads_that_depend_on_some_tables(seed: int) -> None:
    """And on a view, which others define anew, at replicas that are late, in order or not."""
    levels = (Level.READ_OWN_WRITES,) if seed % 4 else tuple(Level)
    scopes = ((Scope.CONNECTION,), (Scope.USER, Scope.PROXY))[seed % 2]
    replicas = ((True, True, False), (True,), (True, True))[seed % 3]
    weights = {**FOLLOWED, "change_order": (0, 0.6)[seed % 5 == 0]}
    options = Options(
        replicas=replicas,
        levels=levels,
        scopes=scopes,
        weights=weights,
        views=True,
        proof_max_age=(inf, 0.3)[seed % 5 == 0],
    )
    judged(options, seed, 3000)


def test_some_reads_depend_on_some_tables_only() -> None:
    """Not by every seed: it depends on what is written, and how late replicas are."""
    options = Options(
        replicas=(True, True),
        levels=(Level.READ_OWN_WRITES,),
        scopes=(Scope.CONNECTION,),
        weights=FOLLOWED,
        views=True,
    )
    runs = (judged(options, seed, 3000).counts for seed in range(6))
    assert sum(counts["read independent"] for counts in runs) > 10


@pytest.mark.parametrize("seed", seeds(25, 25, fast=8))
def test_a_proxy_that_starts_again(seed: int) -> None:
    scopes = (Scope.USER, Scope.APPLICATION, Scope.PROXY)
    counts = judged(Options(scopes=scopes, weights=RESTARTED), seed, 2000).counts
    assert counts["proxy killed"] + counts["proxy stopped"] > 1
    assert counts["scope found known"] + counts["scope found unknown"] > 1


def test_all_kinds_of_things_happen() -> None:
    counts: Counter[str] = Counter()
    for seed in range(8):
        counts += judged(Options(), seed, 4000).counts
    reads = [f"read {level}" for level in Level]
    writes = ["write ok", "write lost", "implicit error", "refused error"]
    faults = ["replica crashed", "primary crashed", "promoted", "lost", "hang up"]
    sessions = ["reset ok", "set ok", "read told", "read error", "read lost"]
    sessions.append("read unsettled")
    missing = [event for event in (*reads, *writes, *faults, *sessions) if counts[event] < 3]
    assert missing == []
    assert sum(counts[read] for read in reads) > 400


def test_a_run_depends_on_its_seed_alone() -> None:
    first, second = (judged(some_options(7), 7, 2000) for _ in range(2))
    assert first.history == second.history
    assert first.history != judged(some_options(7), 8, 2000).history


@pytest.mark.deep
def test_a_hundred_thousand_steps() -> None:
    counts = judged(Options(clients=6), 1, 100_000).counts
    assert sum(counts[f"read {level}"] for level in Level) > 2000


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_many_random_steps(seed: int) -> None:
    judged(some_options(seed), seed, 4000)


class SimulationMachine(RuleBasedStateMachine):
    """Lets Hypothesis choose the steps, and find the shortest list of steps that goes wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.simulation = Simulation(Options(clients=3, replicas=(True, False), registers=2))

    @rule(number=NUMBERS)
    def client_acts(self, number: int) -> None:
        self.simulation.step("client", number)

    @rule(number=NUMBERS)
    def direct_writer_acts(self, number: int) -> None:
        self.simulation.step("direct", number)

    @rule(number=NUMBERS)
    def server_executes(self, number: int) -> None:
        self.simulation.step("server", number)

    @rule(number=NUMBERS)
    def commit_goes_on(self, number: int) -> None:
        self.simulation.step("commit", number)

    @rule(number=NUMBERS)
    def answer_arrives(self, number: int) -> None:
        self.simulation.step("answer", number)

    @rule(number=NUMBERS)
    def replica_receives(self, number: int) -> None:
        self.simulation.step("receive", number)

    @rule(number=NUMBERS)
    def replica_applies(self, number: int) -> None:
        self.simulation.step("apply", number)

    @rule(number=NUMBERS, kind=st.sampled_from(["timer", "time", "delay", "hint"]))
    def time_passes(self, number: int, kind: str) -> None:
        self.simulation.step(kind, number)

    @rule(
        number=NUMBERS,
        kind=st.sampled_from(
            ["hang_up", "restart_replica", "restart_primary", "promote", "notice", "place"]
        ),
    )
    def something_fails(self, number: int, kind: str) -> None:
        self.simulation.step(kind, number)

    @rule(seed=NUMBERS)
    def much_happens(self, seed: int) -> None:
        self.simulation.run(seed, 40)

    def teardown(self) -> None:
        assert [str(complaint) for complaint in self.simulation.judge()] == []


TestSimulation = SimulationMachine.TestCase
TestSimulation.settings = settings(max_examples=120, stateful_step_count=80)

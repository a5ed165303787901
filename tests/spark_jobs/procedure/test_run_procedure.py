"""What a proxy left out, event by event and without Spark."""

from random import Random

import pytest

pytest.importorskip("pyspark")

from spark_jobs.findings.findings import VIOLATED, Findings
from spark_jobs.procedure.run_procedure import (
    ANSWERED,
    ASKED,
    CLAIMED,
    LOST,
    READ,
    TOLD,
    Event,
    Procedure,
)
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Lapse
from tests.spark_jobs.lapses import lapses, plant
from tests.spark_jobs.routing_log import UUID, Run
from tests.spark_jobs.simulation import Simulation

P, R = UUID["primary"], UUID["r1"]


class Proxy:
    """A proxy's events in their order, and what is found."""

    def __init__(self) -> None:
        self.procedure = Procedure()
        self.found: list[tuple[str, int, str]] = []

    def add(self, what: int, at_us: int, gtids: str, **fields: object) -> None:
        plain: dict[str, object] = dict.fromkeys(Event._fields)
        plain |= {"proxy": "gate", "worker": 0, "run": "a1", "seq": at_us, "session": 1}
        plain |= {"at_us": at_us, "what": what, "arrived_us": at_us, "asked_us": at_us}
        plain |= {"user": "app", "scope": "connection", "level": "STRONG", "gtids": gtids}
        plain |= {"server_uuid": R, "incarnation": 1}
        row = tuple((plain | fields)[name] for name in Event._fields)
        its = self.procedure.eval(row)  # type: ignore[arg-type]  # a Row is a tuple
        self.found += [(it.finding, it.seq, it.lacking) for it in its]

    def told(self, asked_us: int, at_us: int, gtids: str) -> None:
        self.add(TOLD, at_us, gtids, asked_us=asked_us, server_uuid=P)

    def end(self) -> list[tuple[str, int, str]]:
        return [
            *self.found,
            *((it.finding, it.seq, it.lacking) for it in self.procedure.terminate()),
        ]


@pytest.mark.parametrize(
    ("arrived_us", "proof", "lacking"),
    [
        (10, f"{P}:1-5", None),
        (11, f"{P}:1-5", ""),  # the question was sent before the read arrived
        (10, f"{P}:1-4", f"{P}:5"),  # the proof does not cover what the primary said
    ],
)
def test_a_strong_read_needs_an_answer_of_its_own_time(
    arrived_us: int, proof: str, lacking: str | None
) -> None:
    proxy = Proxy()
    proxy.told(10, 15, f"{P}:1-5")
    proxy.add(READ, 20, proof, arrived_us=arrived_us)
    assert proxy.end() == ([] if lacking is None else [(Lapse.NOT_ASKED, 20, lacking)])


def test_an_answer_that_came_after_the_read_was_sent_does_not_count() -> None:
    proxy = Proxy()
    proxy.add(READ, 20, f"{P}:1-5", arrived_us=10)
    proxy.told(12, 25, f"{P}:1-5")
    assert proxy.end() == [(Lapse.NOT_ASKED, 20, "")]


def test_of_questions_that_cross_any_will_do() -> None:
    proxy = Proxy()
    proxy.told(11, 13, f"{P}:1-6")
    proxy.told(10, 15, f"{P}:1-5")
    proxy.add(READ, 20, f"{P}:1-5", arrived_us=10)
    assert proxy.end() == []


def test_questions_that_were_answered_slowly_hide_no_quick_one_behind_them() -> None:
    # Asked before the one whose answer the read got, and answered with more: as many as there are
    # sessions that ask for themselves.
    proxy = Proxy()
    proxy.told(30, 31, f"{P}:1-5")
    for number in range(20):
        proxy.told(10 + number, 40 + number, f"{P}:1-6")
        proxy.told(50 + number, 70 + number, f"{P}:1-7")
    proxy.add(READ, 100, f"{P}:1-5", arrived_us=10)
    assert proxy.end() == []


def test_an_answer_that_ends_while_a_read_waits_hides_none_before() -> None:
    proxy = Proxy()
    for at_us in (5, 15):
        proxy.add(ANSWERED, at_us, "", server_uuid=UUID["r2"])
    proxy.add(READ, 20, f"{P}:1-5", arrived_us=10, level="MONOTONIC_READS")
    assert proxy.end() == [(Lapse.LEFT, 20, "")]


@pytest.mark.parametrize(("proof", "found"), [("1-4", 1), ("1-5", 0)])
def test_where_no_order_is_certain_any_set_will_do(proof: str, found: int) -> None:
    # As `procedure_events` puts them where times may be wrong.
    error_us = 40
    proxy = Proxy()
    for number in range(20):
        gtids = f"{P}:1-5" if number == 10 else f"{P}:1-6"
        proxy.told(10 + number + 2 * error_us, 30 + number - error_us, gtids)
    proxy.add(READ, 60, f"{P}:{proof}", arrived_us=10)
    assert len(proxy.end()) == found


def test_a_crash_may_have_taken_what_another_worker_was_told() -> None:
    proxy = Proxy()
    proxy.told(4, 5, f"{P}:1-5")
    proxy.add(LOST, 8, "", until_us=30, worker=1, run="b1")
    proxy.add(READ, 20, f"{P}:1-5", arrived_us=10)
    proxy.add(READ, 50, f"{P}:1-5", arrived_us=40)
    assert proxy.end() == [(Lapse.NOT_ASKED, 50, "")]


@pytest.mark.parametrize(
    ("asked_us", "proof", "lacking"),
    [
        (None, f"{P}:1-9", ""),
        (390, f"{P}:1-9", None),
        (389, f"{P}:1-9", ""),  # that is too long ago
        (390, f"{P}:1-8", f"{P}:9"),
        (493, f"{P}:1-9", None),
        (496, f"{P}:1-9", ""),  # the answer came after the read was sent
    ],
)
def test_a_bounded_read_needs_an_answer_within_its_bound(
    asked_us: int | None, proof: str, lacking: str | None
) -> None:
    proxy = Proxy()
    bounded = {"level": "BOUNDED_STALENESS", "bound_us": 100, "arrived_us": 490}
    events = [(500, lambda: proxy.add(READ, 500, proof, **bounded))]
    if asked_us is not None:
        at_us = asked_us + 6
        events.append((at_us, lambda: proxy.told(asked_us, at_us, f"{P}:1-9")))
    for _, happens in sorted(events, key=lambda it: it[0]):
        happens()
    assert proxy.end() == ([] if lacking is None else [(Lapse.NOT_ASKED, 500, lacking)])


@pytest.mark.parametrize(
    ("asked_us", "server", "scope", "session", "found"),
    [
        (None, "r2", "connection", 1, True),
        (12, "r2", "connection", 1, False),
        (9, "r2", "connection", 1, True),
        (None, "r1", "connection", 1, False),
        (None, "r2", "connection", 2, False),
        (None, "r2", "user", 2, True),
        (None, "r2", "application", 2, False),
    ],
)
def test_who_leaves_a_server_that_told_no_set_has_to_ask(
    asked_us: int | None, server: str, scope: str, session: int, found: bool
) -> None:
    proxy = Proxy()
    proxy.add(ANSWERED, 10, "")
    if asked_us is not None:
        proxy.told(asked_us, 15, f"{P}:1-5")
    its = {"level": "MONOTONIC_READS", "server_uuid": UUID[server], "scope": scope}
    proxy.add(READ, 20, f"{P}:1-5", session=session, **its)
    assert [it[0] for it in proxy.end()] == [Lapse.LEFT] * found


@pytest.mark.parametrize(
    ("asked_us", "worker", "found"),
    [
        (12, 1, False),
        (8, 1, False),  # the system may have stopped the other worker right before its record
        (7, 1, True),  # the server had not begun with what it showed
        (None, 1, True),
        (10, 0, False),
        (9, 0, True),  # one worker does one thing at a time
    ],
)
def test_a_worker_may_ask_before_another_one_has_recorded_the_answer(
    asked_us: int | None, worker: int, found: bool
) -> None:
    proxy = Proxy()
    proxy.add(ANSWERED, 10, "", asked_us=8, worker=worker)
    if asked_us is not None:
        proxy.told(asked_us, 15, f"{P}:1-5")
    read = {"level": "MONOTONIC_READS", "server_uuid": UUID["r2"], "scope": "user"}
    proxy.add(READ, 20, f"{P}:1-5", session=2, **read)
    assert [lapse for lapse, *_ in proxy.end()] == [Lapse.LEFT] * found


@pytest.mark.parametrize(
    ("server", "proof", "wait_us", "found"),
    [
        ("r1", "waited", 300, 0),
        ("r1", "waited", 800, 1),
        ("primary", "primary", 250_000, 0),  # it had waited for a replica before
    ],
)
def test_a_worker_that_stops_before_its_record_accuses_no_other(
    server: str, proof: str, wait_us: int, found: int
) -> None:
    """The question is sent 500 us after the statement, which a server may begin with later."""
    first, second = Run("a1"), Run("b1", worker=1)
    second.clock = first.clock
    gtids = {"scope": "user", "scope_key": "gate/app", "level": "MONOTONIC_READS"}
    wait = {"proof_set": f"{P}:1-5", "wait_us": wait_us}
    read = first.read(1, server, proof, **gtids, **wait)
    sent_us = int(str(read["dispatched_us"]))
    read["ended_us"] = sent_us + 3000
    times = {"dispatched_us": sent_us + 500, "ended_us": sent_us + 700}
    second.probe("primary", f"{P}:1-5", arrived_us=sent_us + 500, **times)
    first.clock.now += 5000
    second.known(2, "r2", f"{P}:1-5", **gtids)
    first.write(3, f"{P}:6")  # it did not crash, so no record is missing
    found_lapses = lapses([*first.records, *second.records])
    assert [lapse.finding for lapse in found_lapses] == [Lapse.LEFT] * found


@pytest.mark.parametrize(
    ("asked_us", "incarnation", "found"), [(20, 1, True), (9, 1, False), (20, 2, False)]
)
def test_a_wait_that_lied_is_contradicted(asked_us: int, incarnation: int, found: bool) -> None:
    proxy = Proxy()
    events = [(CLAIMED, 10, f"{P}:1-7", 1), (ASKED, asked_us, f"{P}:1-5", incarnation)]
    for what, at_us, gtids, its in sorted(events, key=lambda it: it[1]):
        proxy.add(what, at_us, gtids, incarnation=its)
    assert proxy.end() == ([(Lapse.CONTRADICTED, 10, f"{P}:6-7")] if found else [])


@pytest.mark.parametrize(
    ("level", "told", "found"),
    [
        ("READ_ALL_WRITES", f"{P}:1-9", True),
        ("READ_ALL_WRITES", f"{P}:1-3:5-9", False),  # nobody ever had it
        ("MONOTONIC_READS", f"{P}:1-9", False),  # which is not promised there
    ],
)
def test_a_state_that_the_primary_never_had(level: str, told: str, found: bool) -> None:
    proxy = Proxy()
    proxy.add(READ, 20, f"{P}:1-3", level=level, shown=f"{P}:1-3:5")
    proxy.told(30, 31, told)
    assert proxy.end() == ([(Lapse.HOLES, 20, f"{P}:4")] if found else [])


@pytest.mark.parametrize("failover", [False, True])
def test_a_clean_log_has_no_lapse(failover: bool) -> None:
    for seed in range(20, 22):
        simulation = Simulation(seed)
        simulation.run(1200, failover=failover)
        simulation.finish()
        assert lapses(simulation.records()) == []


@pytest.mark.not_fast
@pytest.mark.parametrize("lapse", list(Lapse))
def test_exactly_what_was_planted_is_found(lapse: Lapse) -> None:
    count = 0
    for seed in range(30, 33):
        simulation = Simulation(seed)
        simulation.run(1200, failover=seed % 2 == 0)
        runs = simulation.finish()
        planted = plant(lapse, runs, Random(seed), 3)
        found = lapses(simulation.records())
        assert {(it.run, it.seq) for it in found} == planted
        assert {it.finding for it in found} <= {lapse}
        count += len(planted)
    assert count > 2


def test_lapses_are_told_beside_the_outcome() -> None:
    names = ("faults", "runs", "verdicts", "lost", "undecided", "lag", "replication")
    nothing: dict[str, list[Row]] = {name: [] for name in (*names, "mix", "fallbacks", "errors")}
    told = Findings("log", 1, 0, understated=0, lapsed=1200, **nothing)
    assert told.exit_code == VIOLATED
    assert told.verdict == "1,200 reads had no valid proof."


def test_what_is_no_set_shows_no_gaps() -> None:
    proxy = Proxy()
    proxy.add(READ, 20, f"{P}:1-3", level="READ_ALL_WRITES", shown=f"{P}:1-3:5:")
    proxy.told(30, 31, f"{P}:1-9")
    assert proxy.end() == []

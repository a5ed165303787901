"""Where a clock was set back, by what a run's records show of it; without Spark."""

import pytest

pytest.importorskip("pyspark")

from spark_jobs.clocks.clocks import Fall, Step, later, stepped
from tests.spark_jobs.routing_log import UUID, Run
from tests.spark_jobs.without_spark import audit

P = UUID["primary"]
SECOND = 1_000_000


def test_an_end_before_the_end_of_the_one_before_is_a_step() -> None:
    assert stepped([Fall(4, 5, 900, 300, 400)]) == [Step(4, 5, 900, 400)]


def test_an_end_before_its_own_begin_is_a_step() -> None:
    # The clock fell by less than it took since the statement before it had ended.
    assert stepped([Fall(4, 5, 300, 900, 400)]) == [Step(4, 5, 900, 400)]


def test_what_was_in_flight_at_a_step_shows_no_second_one() -> None:
    falls = [Fall(4, 5, 300, 900, 400), Fall(5, 6, 400, 880, 420), Fall(6, 8, 420, 950, 440)]
    assert stepped(falls) == [Step(4, 5, 950, 400)]


def test_a_statement_behind_a_proof_that_shows_a_step_shows_no_second_one() -> None:
    falls = [Fall(4, 5, 800, 900, 400), Fall(4, 6, 800, 410, 420)]
    assert stepped(falls) == [Step(4, 5, 900, 400)]


def test_an_end_that_falls_again_or_a_late_begin_is_a_second_step() -> None:
    again = Fall(5, 6, 400, 200, 350)
    much_later = Fall(5, 6, 400, 5 * SECOND, 4 * SECOND)
    first = Fall(4, 5, 900, 300, 400)
    assert stepped([first, again]) == [Step(4, 5, 900, 400), Step(5, 6, 400, 350)]
    assert stepped([first, much_later]) == [
        Step(4, 5, 900, 400),
        Step(5, 6, 5 * SECOND, 4 * SECOND),
    ]


def test_a_proof_that_ended_later_was_before_the_step() -> None:
    assert later((4, 300), 6, 950, 400) == (6, 950)
    assert later((4, 960), 6, 950, 400) == (6, 960)
    assert later((4, 300), 6, 390, 400) == (4, 300)  # nobody knows


@pytest.mark.parametrize("shows", ["end", "begin", "proof", "earlier proof"])
def test_a_clock_that_was_set_back_is_found(shows: str) -> None:
    run = Run()
    run.write(7, f"{P}:1")
    if shows != "end":
        run.clock.now += 60_000  # nothing ends for longer than it is set back
    if shows == "earlier proof":
        run.probe("primary", f"{P}:1")
    begun = {"arrived_us": run.clock.now, "dispatched_us": run.clock.now}
    run.clock.now -= 50_000
    if shows == "proof":
        run.probe("primary", f"{P}:1", **begun)
    run.write(7, f"{P}:2", **(begun if shows == "begin" else {}))
    found = audit(run.records)
    assert found.clocks == {"gate"}

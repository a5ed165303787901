"""Comparisons say what the judge says of small histories, each of a cluster, with failovers."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from tests.spark_jobs.reads.test_plain_reads import Compared
from tests.spark_jobs.routing_log import Run, move
from tests.spark_jobs.small_histories import NOTHING, ROUGH, Numbers, Step, play, steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(1800)]

MANY = 12


def step(what: str, session: int = 1, server: str = "r1", survive: Numbers = NOTHING) -> Step:
    """At the default level; nothing overlaps."""
    plain = ("READ_OWN_WRITES", "connection", 10, 1, 1)
    return Step(what, session, server, *plain, shown=survive, observed=NOTHING)


LOST = [
    *(step("write", 2), step("write"), step("look: all")),
    step("fail over", server="r2", survive=frozenset({1})),
    # Its only write is gone, so it is owed nothing, though the replica still shows it.
    *(step("primary"), step("ask"), step("known: seen")),
]


def drawn(number: int) -> list[list[Step]]:
    """So many plans, the same ones each time."""
    plans: list[list[Step]] = []

    @seed(number)
    @settings(max_examples=MANY, database=None, phases=[Phase.generate])
    @given(st.lists(steps(ROUGH), min_size=20, max_size=80))
    def draw(plan: list[Step]) -> None:
        plans.append(plan)

    draw()
    return plans


def played(plans: list[list[Step]]) -> list[Run]:
    """Each before a cluster of its own."""
    log: list[Run] = []
    for number, plan in enumerate(plans, 1):
        runs = [Run(f"{number:x}{worker}", worker, f"gate{number}") for worker in range(2)]
        play(plan, *runs)
        for run in runs:
            move(run, f"{number:04x}")
        log += runs
    return log


@pytest.mark.parametrize("number", [1])
def test_on_small_histories(spark: "SparkSession", tmp_path: Path, number: int) -> None:
    found = Compared(spark, tmp_path, *played([*drawn(number), LOST])).agree()
    settled = {finding for finding in found.values() if finding}
    assert {"known", "waited", "primary", "nothing written"} <= settled
    assert found[f"{MANY + 1:x}1", 5] is None

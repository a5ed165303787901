"""Comparisons say what the judge says of simulated traffic of many seeds, each a cluster.

`test_left_reads` compares a few seeds.
"""

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.spark_jobs.lapses import troubled
from tests.spark_jobs.reads.test_plain_reads import Compared
from tests.spark_jobs.routing_log import Run, move

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(1800)]

AT_ONCE = 10
"""So many seeds are one log."""


def mar(runs: list[Run], random: Random) -> None:
    """Write some sets in another way than servers do, or as none."""
    for run in runs:
        for record in random.sample(run.records, len(run.records) // 15):
            name = random.choice(("observed", "observed", "proof_set", "own_gtids", "required"))
            text = record.get(name)
            if isinstance(text, str) and text:
                record[name] = random.choice((text.upper(), f"{text}:", text.replace("-", " - ")))


def traffic(seed: int) -> list[Run]:
    """Traffic with what may happen to a log; most seeds have something of their own."""
    random = Random(seed)
    runs = troubled(seed, random, 200)
    if seed % 3 == 2:
        mar(runs, random)
    for run in runs:
        move(run, f"{seed:04x}")
    return runs


@pytest.mark.parametrize("first", range(0, 1000, AT_ONCE))
def test_on_simulated_traffic(spark: "SparkSession", tmp_path: Path, first: int) -> None:
    runs = [run for seed in range(first, first + AT_ONCE) for run in traffic(seed)]
    compared = Compared(spark, tmp_path, *runs)
    compared.agree(divided=True)
    found = compared.divided
    settled = [finding for finding in found.values() if finding]
    assert {"known", "waited", "primary", "nothing written"} <= set(settled)
    # That is what comparisons are for.
    assert len(settled) > len(found) / 2

"""What primaries came to have and no record names."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from spark_jobs.audit.unreported import Unreported, count, growth
from tests.spark_jobs.routing_log import UUID, Run, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P, R = UUID["primary"], UUID["r1"]


def test_what_grew_is_counted_from_the_first_set_on() -> None:
    sets = [
        ("a", f"{P}:1-5", f"{P}:1-9"),
        ("a", f"{P}:1-7", f"{P}:1-8,{R}:1"),  # of another run, later
        ("b", f"{P}:1-5", f"{P}:1-5"),
        ("b", "5-3", "5-3"),
    ]
    grown = growth(sets)
    assert {name: gtids.text() for name, gtids in grown.items()} == {"a": f"{P}:6-9,{R}:1", "b": ""}


def test_it_is_told_only_if_there_is_something() -> None:
    assert Unreported(0, 7).sentences == []
    (told,) = Unreported(1200, 7).sentences
    assert told.startswith("Unreported writes: 1,200 transactions that primaries came to have ")


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_what_no_record_names_is_counted(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.primaries import clusters
    from spark_jobs.records import ingest, survey, take
    from spark_jobs.records.statement import facts
    from tests.spark_jobs.found_segments import find_segments

    run = Run()
    run.probe("primary", f"{P}:1-5")
    run.write(7, f"{P}:4:7:9,{P}:blue:1")
    run.write(7, f"{P}:7")  # as a copy of a segment would say
    run.unnamed(7)
    run.write(8, "", own_known=False, observed=f"{P}:1-12:blue:1-2")
    other = Run("b2", proxy="gate2", clock=run.clock)
    other.write(8, f"{P}:10-13")
    other.probe("primary", f"{P}:1-13:blue:1-2")
    save(tmp_path / "log", run, other)
    (tmp_path / "scratch").mkdir()
    segments = find_segments(tmp_path / "log")
    parsed = take.all_in(spark, segments, tmp_path / "parsed").parsed
    found = survey.look(parsed.withColumns(facts()), None, None)
    known, _ = clusters.group(found.named)
    records = ingest.number(parsed)
    # 6, 8 and blue:2.
    assert count(found, records, clusters.of_record(known), known) == Unreported(3, 2)

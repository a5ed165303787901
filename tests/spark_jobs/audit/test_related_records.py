"""The records that belong to a counter-example's story."""

from typing import TYPE_CHECKING

import pytest

from tests.spark_jobs.found_segments import lines_of
from tests.spark_jobs.routing_log import UUID, Run, save

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

P = UUID["primary"]


def test_a_scene(spark: "SparkSession", tmp_path: "Path") -> None:
    from spark_jobs.audit import related_records
    from spark_jobs.primaries import primary_history
    from spark_jobs.reads import consistency_audit
    from spark_jobs.records import ingest
    from spark_jobs.verdict import Verdict

    run, other = Run(), Run("b2", worker=1)
    run.probe("r1", f"{P}:1-4")
    run.probe("r1", f"{P}:1-5")
    run.probe("r2", f"{P}:1-5")
    run.write(7, f"{P}:6", digest="wrote")
    other.clock.now = run.clock.now
    other.probe("r1", f"{P}:1-6")  # to another run, whose word this one did not have
    run.known(7, "r1", f"{P}:1-5", digest="missed")
    run.waited(8, "r1", f"{P}:6")
    run.probe("r1", f"{P}:1-7")
    run.known(9, "r2", f"{P}:1-5")
    save(tmp_path, run, other)
    (tmp_path / "scratch").mkdir()
    records = ingest.number(ingest.parse(lines_of(spark, tmp_path))).persist()
    judged = consistency_audit.transform(records, primary_history.learn(records))
    reads = consistency_audit.examples(judged, Verdict.VIOLATION, 5)
    rows = related_records.transform(records, reads).collect()
    assert {(row.proxy, row.worker, row.run, row.seq) for row in rows} == {("gate", 0, "a1", 5)}
    assert {(row.what, row.by_seq, row.server, row.gtids) for row in rows} == {
        ("wrote", 4, "primary:3306", f"{P}:6"),
        ("before", 2, "r1:3306", f"{P}:1-5"),
        ("after", 6, "r1:3306", f"{P}:6"),
    }
    (wrote,) = (row for row in rows if row.what == "wrote")
    assert (wrote.by_run, wrote.by_session, wrote.by_user, wrote.digest) == (
        "a1",
        7,
        "app",
        "wrote",
    )
    assert wrote.arrived_us < wrote.dispatched_us < wrote.ended_us

"""From a log to incidents: one act is found once, however many reads it concerned."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from spark_jobs.findings.incident import Failover, Incident, group
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Finding
from tests.spark_jobs.found_segments import lines_of
from tests.spark_jobs.routing_log import UUID, Clock, Run, move, on, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

P, OTHER = UUID["primary"], UUID["other"]
SEES_ALL = {"level": "READ_ALL_WRITES", "scope": "proxy"}


def incidents(spark: "SparkSession", tmp_path: Path, *runs: Run) -> list[Incident]:
    from spark_jobs.audit import causes
    from spark_jobs.primaries import primary_history
    from spark_jobs.reads import consistency_audit
    from spark_jobs.records import ingest

    save(tmp_path / "log", *runs)
    (tmp_path / "scratch").mkdir()
    parsed = ingest.parse(lines_of(spark, tmp_path / "log"))
    records = ingest.number(parsed).persist()
    history = primary_history.learn(records)
    judged = consistency_audit.transform(records, history)
    lost = [Row(row.asDict(True)) for row in primary_history.lost(history.past).collect()]
    return group(
        [
            *causes.of_violations(judged, records, history),
            *causes.of_losses(lost, records, history),
        ]
    )


def losing(clock: Clock) -> Run:
    """Another proxy's primary was replaced by a server that lacks what it had acknowledged."""
    run = Run("c3", proxy="gate2", clock=clock)
    run.probe("primary", f"{P}:1-10")
    run.write(7, f"{P}:11", user="ann", application="till")
    run.write(8, f"{P}:12-13", user="bob")
    run.probe("r1", f"{P}:1-10", role="primary")
    move(run, "cafe")
    return run


def test_each_act_is_found_once(spark: "SparkSession", tmp_path: Path) -> None:
    clock = Clock()
    other = losing(clock)
    first, second = Run("a1", clock=clock), Run("b2", worker=1, clock=clock)
    for run in (first, second):
        run.probe("primary", f"{P}:1-10")
        for server in ("r1", "r2"):
            run.probe(server, f"{P}:1-10")
    # r1 lacks one transaction, and every read of the session that wrote it misses that.
    first.write(7, f"{P}:11", user="ann")
    for _ in range(3):
        first.known(7, "r1", f"{P}:1-10", user="ann", application="till")
    # Another server takes over, and a worker that does not know goes on with the old one.
    second.probe("other", f"{P}:1-11", role="primary")
    first.write(8, f"{P}:12", user="bob")
    for server in ("r1", "r2", "r2"):
        second.known(9, server, f"{P}:1-11", user="cy", **SEES_ALL)
    second.probe("other", f"{P}:1-11,{OTHER}:1", **on("other") | {"role": "primary"})

    found = incidents(spark, tmp_path, first, second, other)
    (lost,) = (incident for incident in found if incident.cause == Failover.LOST)
    assert (lost.culprit, lost.successor) == ("primary:3306", "r1:3306")
    assert (lost.reads, lost.lost.text()) == (0, f"{P.replace('-e53d-', '-cafe-')}:11-13")
    assert (lost.users, lost.applications) == (Counter(ann=1, bob=1), Counter(till=1))
    failover, late = (incident for incident in found if incident is not lost)
    assert (failover.cause, failover.culprit, failover.successor) == (
        *(Failover.TWO_PRIMARIES, "primary:3306", "other:3306"),
    )
    assert failover.reads == 3
    assert failover.servers == Counter({"r2:3306": 2, "r1:3306": 1})
    assert failover.users["cy"] == 3
    assert failover.read is not None
    assert failover.read.text("missing") == f"{P}:12"
    assert (late.cause, late.culprit, late.reads) == (Finding.KNOWN_TOO_SMALL, "r1:3306", 3)
    assert (late.users, late.applications) == (Counter(ann=3), Counter(till=3))
    assert late.read is not None
    assert late.read.number("arrived_us") == late.since_us < late.until_us

"""Waits, lag and where statements went."""

from typing import TYPE_CHECKING

import pytest

from spark_jobs.segments import find_segments
from tests.spark_jobs.routing_log import UUID, Run, on, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

P = UUID["primary"]


@pytest.fixture(scope="module")
def lines(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "DataFrame":
    from spark_jobs import ingest

    run = Run()
    write = run.write(7, f"{P}:10")
    for wait in range(1, 101):
        begun = int(str(write["ended_us"])) + 50
        run.waited(7, "r1", f"{P}:10", wait_us=wait, dispatched_us=begun)
    run.waited(8, "r1", f"{P}:10", wait_us=1000)
    run.waited(7, "r2", f"{P}:10", wait_us=7)
    timed_out = {"reason": "wait_timeout", "wait_us": 50_000}
    run.read(7, "primary", "primary", fallbacks="r1:3306:wait_timeout", **timed_out)
    two = "r1:3306:wait_timeout,[::1]:3306:replica_lost"
    run.read(7, "primary", "primary", fallbacks=two, **timed_out)
    run.read(7, "primary", "primary")
    run.write(7, "", outcome="error", error_code=1062, own_known=False)
    run.write(8, "", outcome="error", error_code=1062, own_known=False)
    run.write(8, "", outcome="lost")
    nobody = dict.fromkeys(on("primary"))
    run.statement(8, outcome="error", error_code=1105, proof="none", **nobody)
    run.gap(8)
    run.probe("r1", f"{P}:1-10")
    for number, taken in ((9, 100), (9, 100), (10, 300)):  # two proxies tell of the first
        applied = {
            "channel": "",
            "gtid": f"{P}:{number}",
            "original_us": 1_000,
            "immediate_us": 1_050,
            "began_us": 990 + taken,
            "ended_us": 1_000 + taken,
            "end_to_end_us": taken,
            "last_hop_us": taken - 50,
            "error_us": None,
        }
        run.probe("r1", f"{P}:1-10", lag={"applied": [applied], "waits": []})
    waits = {"channel": "", "source": P, "waits_us": 7_000, "hop_waits_us": None}
    for server in ("r1", "r2"):
        run.probe(server, f"{P}:1-10", lag={"applied": [], "waits": [waits]})
    log = tmp_path_factory.mktemp("log")
    save(log, run)
    segments = find_segments(log, tmp_path_factory.mktemp("scratch"))
    return ingest.read(spark, segments).persist()


@pytest.fixture(scope="module")
def records(lines: "DataFrame") -> "DataFrame":
    from spark_jobs import ingest

    parsed = ingest.parse(lines).persist()
    assert parsed.where("fault is not null").count() == 0
    numbered: DataFrame = ingest.number(parsed)
    return numbered.persist()


def test_replication_lag(lines: "DataFrame") -> None:
    from spark_jobs import replication

    first, second = (row.asDict() for row in replication.transform(lines).collect())
    assert (first["server"], first["channel"], first["source"]) == ("r1:3306", "", P)
    assert (first["transactions"], first["disordered"]) == (2, 0)
    assert [first[f"end_to_end_{name}_us"] for name in ("p50", "max")] == [100, 300]
    assert [first[f"last_hop_{name}_us"] for name in ("p50", "max")] == [50, 250]
    assert (first["upstream_max_us"], first["apply_max_us"]) == (50, 10)
    assert first["waits_max_us"] == second["waits_max_us"] == 7_000
    assert (second["server"], second["transactions"]) == ("r2:3306", 0)
    assert second["end_to_end_max_us"] is None


def test_what_is_written_of_lag_is_what_is_read() -> None:
    from pyspark.sql.types import LongType, StringType

    from routing.record import LAG
    from spark_jobs.schema import REPLICATED, WAITING

    types = {str: StringType(), int: LongType()}
    for name, schema in (("applied", REPLICATED), ("waits", WAITING)):
        assert [(f.name, f.dataType) for f in schema] == [
            (field, types[kind]) for field, kind, _ in LAG[name]
        ]


def test_waits_and_lag(records: "DataFrame") -> None:
    from spark_jobs import consistency_audit, lag_analysis, primary_history

    judged = consistency_audit.transform(records, primary_history.learn(records))
    rows = [row.asDict() for row in lag_analysis.transform(judged).collect()]
    assert [(row["server"], row["proof"], row["reads"]) for row in rows] == [
        ("primary:3306", "primary", 2),
        ("r1:3306", "waited", 101),
        ("r2:3306", "waited", 1),
    ]
    waits = [[row[f"wait_{name}_us"] for name in ("p50", "p95", "p99", "max")] for row in rows]
    assert waits == [[50_000] * 4, [51, 96, 100, 1000], [7] * 4]
    # A WAIT that ran out says nothing of when the write got there, and one without a write neither.
    lags = [
        [row["after_write"], *(row[f"since_write_{name}_us"] for name in ("p50", "max"))]
        for row in rows
    ]
    assert lags[:2] == [[0, None, None], [100, 100, 150]]


def test_where_statements_went(records: "DataFrame") -> None:
    from spark_jobs import routing_mix

    rows = [row.asDict() for row in routing_mix.transform(records).collect()]
    dimensions = [row["dimension"] for row in rows]
    assert list(dict.fromkeys(dimensions)) == list(routing_mix.DIMENSIONS)
    by = {(row["dimension"], row["value"]): row for row in rows}
    total = 110
    for dimension in routing_mix.DIMENSIONS:
        mine = [row for row in rows if row["dimension"] == dimension]
        assert sum(row["statements"] for row in mine) == total
        assert sum(row["share"] for row in mine) == pytest.approx(1)
        assert [row["statements"] for row in mine] == sorted(
            (row["statements"] for row in mine), reverse=True
        )
    assert by["role", "replica"]["statements"] == 102
    primary = by["role", "primary"]
    assert (primary["statements"], primary["errors"], primary["lost"]) == (7, 2, 1)
    assert by["server", "none"]["errors"] == 1
    assert by["reason", "wait_timeout"]["statements"] == 2
    assert by["proof", "waited"]["p50_us"] == 900


def test_fallbacks_and_errors(records: "DataFrame") -> None:
    from spark_jobs import routing_mix

    assert [tuple(row) for row in routing_mix.fallbacks(records).collect()] == [
        ("r1:3306", "wait_timeout", 2),
        ("[::1]:3306", "replica_lost", 1),
    ]
    assert [tuple(row) for row in routing_mix.errors(records).collect()] == [
        ("error", 1062, "primary", 2),
        ("error", 1105, "none", 1),
        ("lost", 0, "primary", 1),
    ]

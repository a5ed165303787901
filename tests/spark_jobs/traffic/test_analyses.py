"""Waits, lag and where statements went."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_jobs.found_segments import find_segments
from tests.spark_jobs.routing_log import DAY_US, UUID, Run, on, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

P = UUID["primary"]
HOUR_US = 3_600_000_000


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    run = Run()
    write = run.write(7, f"{P}:10")
    for wait in range(1, 101):
        begun = int(str(write["ended_us"])) + 50
        run.waited(7, "r1", f"{P}:10", wait_us=wait, dispatched_us=begun)
    run.waited(8, "r1", f"{P}:10", wait_us=1000, required=f"{P}:10")
    run.waited(7, "r2", f"{P}:10", wait_us=7)
    timed_out = {"reason": "wait_timeout", "wait_us": 50_000}
    run.read(7, "primary", "primary", fallbacks="r1:3306:wait_timeout", **timed_out)
    two = "r1:3306:wait_timeout,[::1]:3306:replica_lost"
    run.read(7, "primary", "primary", fallbacks=two, **timed_out)
    run.read(7, "primary", "primary", reason="pinned", digest="kept")
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
    run.probe("primary", f"{P}:1-10:20:30:tag:1-3,{UUID['other']}:t_2:1:5")
    later = applied | {"ended_us": HOUR_US + 5}
    run.probe("other", f"{P}:1-9", lag={"applied": [later], "waits": []})
    log = tmp_path_factory.mktemp("log")
    save(log, run)
    return find_segments(log)


@pytest.fixture(scope="module")
def lines(
    spark: "SparkSession", paths: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory
) -> "DataFrame":
    from spark_jobs.records import take

    kept = take.all_in(spark, paths, tmp_path_factory.mktemp("parsed") / "records")
    assert kept.parsed.where("fault is not null").count() == 0
    return kept.parsed


@pytest.fixture(scope="module")
def records(lines: "DataFrame") -> "DataFrame":
    from spark_jobs.records import ingest

    return ingest.number(lines).persist()


@pytest.fixture(scope="module")
def statements(records: "DataFrame") -> "DataFrame":
    return records.where("kind = 'statement'")


@pytest.fixture(scope="module")
def reads(records: "DataFrame") -> "DataFrame":
    from spark_jobs.primaries import primary_history
    from spark_jobs.reads import consistency_audit

    return consistency_audit.transform(records, primary_history.learn(records)).persist()


def test_replication_lag(lines: "DataFrame") -> None:
    from spark_jobs.traffic import replication

    _, first, second = (
        row.asDict() for row in replication.transform(replication.told(lines)).collect()
    )
    assert (first["server"], first["channel"], first["source"]) == ("r1:3306", "", P)
    assert (first["transactions"], first["disordered"]) == (2, 0)
    assert [first[f"end_to_end_{name}_us"] for name in ("p50", "max")] == [100, 300]
    assert [first[f"last_hop_{name}_us"] for name in ("p50", "max")] == [50, 250]
    assert (first["upstream_max_us"], first["apply_max_us"]) == (50, 10)
    assert first["waits_max_us"] == second["waits_max_us"] == 7_000
    assert (second["server"], second["transactions"]) == ("r2:3306", 0)
    assert second["end_to_end_max_us"] is None


def test_replication_lag_by_hour(lines: "DataFrame") -> None:
    from spark_jobs.traffic import replication

    first, second = (row.asDict() for row in replication.by_hour(replication.told(lines)).collect())
    assert [first[name] for name in ("hour_us", "server", "source")] == [0, "r1:3306", P]
    assert [
        first[f"{name}_max_us"] for name in ("end_to_end", "last_hop", "upstream", "apply")
    ] == [*(300, 250, 50, 10)]
    assert (first["transactions"], second["transactions"]) == (2, 1)
    assert (second["hour_us"], second["server"]) == (HOUR_US, "other:3306")


def test_what_is_written_of_lag_is_what_is_read() -> None:
    from pyspark.sql.types import LongType, StringType

    from routing.record import LAG
    from spark_jobs.tables.schema import REPLICATED, WAITING

    types = {str: StringType(), int: LongType()}
    for name, schema in (("applied", REPLICATED), ("waits", WAITING)):
        assert [(f.name, f.dataType) for f in schema] == [
            (field, types[kind]) for field, kind, _ in LAG[name]
        ]


def test_waits_and_lag(
    records: "DataFrame", statements: "DataFrame", reads: "DataFrame", lines: "DataFrame"
) -> None:
    from spark_jobs.traffic import lag_analysis, replication, routing_mix

    rows = lag_analysis.lag(reads).collect()
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

    hours = {row["server"]: row for row in lag_analysis.hours(reads).collect()}
    assert {row["hour_us"] for row in hours.values()} == {DAY_US}
    assert [hours["r1:3306"][name] for name in ("reads", "waited", "wait_max_us")] == [
        101,
        101,
        1000,
    ]
    assert [hours["primary:3306"][name] for name in ("reads", "waited")] == [3, 2]

    (probe,) = lag_analysis.probes(records).collect()
    tables = (
        *(lag_analysis.exposed(reads), routing_mix.fallbacks(statements)),
        replication.transform(replication.told(lines)),
    )
    exposed, fell_back, lags_of = ([row.asDict() for row in table.collect()] for table in tables)
    first, second = lag_analysis.foregone(exposed, fell_back, probe.asDict(), lags_of)
    # Reads were sent 50 µs after the write; what they waited is no part of its age.
    assert [first[name] for name in ("server", "reads", "exposed", "late")] == [
        "r1:3306",
        101,
        100,
        2,
    ]
    assert [first[f"age_{name}_us"] for name in ("p50", "p99", "max")] == [50, 50, 50]
    assert [first[f"probe_{name}_us"] for name in ("p50", "p99")] == [880, 880]
    assert [first[f"strong_{name}_us"] for name in ("p50", "p99")] == [880 + 100, 880 + 300]
    assert [second[name] for name in ("server", "reads", "late", "lag_p50_us")] == [
        *("r2:3306", 1, 0, None)
    ]
    assert second["strong_p99_us"] == 880


def test_waits_by_level(statements: "DataFrame") -> None:
    from spark_jobs.traffic import lag_analysis

    (row,) = lag_analysis.waits(statements).collect()
    assert (row["level"], row["reads"], row["waited"]) == ("READ_OWN_WRITES", 105, 104)
    assert row["wait_total_us"] == 5050 + 1000 + 7 + 2 * 50_000
    assert (row["wait_p50_us"], row["wait_max_us"]) == (51, 50_000)
    assert (row["fell_back"], row["fallback_total_us"], row["fallback_max_us"]) == (2, 40, 20)


def test_the_worst_minutes(statements: "DataFrame") -> None:
    from spark_jobs.traffic import lag_analysis

    worst = [row.asDict() for row in lag_analysis.minutes(statements).collect()]
    assert [row["minute_us"] for row in worst] == [DAY_US]
    written = lag_analysis.written(statements, {DAY_US}).collect()
    rows = [row.asDict(recursive=True) for row in written]
    (row,) = lag_analysis.with_written(worst, rows)
    assert [row[name] for name in ("reads", "waited", "wait_max_us")] == [105, 104, 50_000]
    assert row["wait_total_us"] == 5050 + 1000 + 7 + 2 * 50_000
    assert (row["fell_back"], row["writes"]) == (2, 1)
    digest = {"writes": 1, "digest": f"{0:016x}", "schema": "shop", "user": "app"}
    assert row["written"] == [digest]
    assert lag_analysis.with_written(worst, [])[0]["written"] == []


def test_the_most_frequent_statements_of_a_minute_come_first(statements: "DataFrame") -> None:
    from pyspark.sql import functions as fn

    from spark_jobs.traffic import lag_analysis

    (write,) = statements.where("class = 'write' and outcome = 'ok'").limit(1).collect()
    counts = {"a": 2, "b": 4, "c": 1, "d": 3, "e": 4}
    many = statements.where((fn.col("run") == write.run) & (fn.col("seq") == write.seq)).withColumn(
        "digest", fn.explode(fn.lit([name for name in counts for _ in range(counts[name])]))
    )
    (row,) = lag_analysis.written(many, {DAY_US}).collect()
    assert row["writes"] == sum(counts.values())
    assert [(digest, writes) for writes, digest, *_ in row["written"]] == [
        ("b", 4),
        ("e", 4),
        ("d", 3),
    ]


def test_the_begin_of_an_hour(spark: "SparkSession") -> None:
    from spark_jobs.traffic.quantiles import begin_of

    times = spark.createDataFrame([(HOUR_US - 1,), (HOUR_US,)], "at_us bigint")
    begins = times.selectExpr(f"{begin_of(HOUR_US, 'at_us')} as hour_us").collect()
    assert [row["hour_us"] for row in begins] == [0, HOUR_US]


def test_how_sets_grow(records: "DataFrame") -> None:
    from spark_jobs.traffic import gtid_growth

    rows = gtid_growth.growth(records).collect()
    assert {row["hour_us"] for row in rows} == {DAY_US}
    sizes = {row["server"]: tuple(row)[4:] for row in rows}
    whole = f"{P}:1-10:20:30:tag:1-3,{UUID['other']}:t_2:1:5"
    assert sizes["primary:3306"] == (1, 2, 2, 6, len(whole))
    assert sizes["r1:3306"] == (5, 1, 0, 1, len(P) + 5)
    assert sizes[""] == (1, 1, 0, 1, len(P) + 3)
    assert {(row["what"], row["role"]) for row in rows} == {
        *(("executed", "primary"), ("executed", "replica"), ("required", ""))
    }


def test_what_misses_the_replicas_most(statements: "DataFrame") -> None:
    from spark_jobs.traffic import routing_mix

    *rows, user = routing_mix.pinned(statements).collect()
    assert [row["by_user"] for row in (*rows, user)] == [False, False, False, True]
    assert [(row["kept"], row["fell_back"], row["reason"]) for row in rows] == [
        *((0, 1, "wait_timeout"), (0, 1, "wait_timeout"), (1, 0, "pinned"))
    ]
    assert rows[2]["digest"] == "kept"
    assert (user["digest"], user["user"], user["reason"]) == (None, "app", "wait_timeout")
    assert [user[name] for name in ("reads", "on_primary", "kept", "fell_back")] == [105, 3, 1, 2]
    assert user["total_us"] == 105 * 900


def test_where_statements_went(statements: "DataFrame") -> None:
    from spark_jobs.traffic import routing_mix

    rows = routing_mix.mix(statements).collect()
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


def test_fallbacks_and_errors(statements: "DataFrame") -> None:
    from spark_jobs.traffic import routing_mix

    assert [tuple(row) for row in routing_mix.fallbacks(statements).collect()] == [
        ("r1:3306", "wait_timeout", 2, 2),
        ("[::1]:3306", "replica_lost", 1, 1),
    ]
    assert [tuple(row) for row in routing_mix.errors(statements).collect()] == [
        ("error", 1062, "primary", 2),
        ("error", 1105, "none", 1),
        ("lost", 0, "primary", 1),
    ]


def test_verdicts_are_counted(reads: "DataFrame") -> None:
    from spark_jobs.reads import verdict_counts

    rows = verdict_counts.transform(reads).collect()
    assert sum(row["reads"] for row in rows) == reads.count()
    assert [row["reads"] for row in rows] == sorted((row["reads"] for row in rows), reverse=True)


def test_what_nobody_did(records: "DataFrame", reads: "DataFrame") -> None:
    from spark_jobs.reads import verdict_counts
    from spark_jobs.traffic import gtid_growth, lag_analysis, routing_mix

    nothing, no_reads = records.limit(0), reads.limit(0)
    tables = (
        *(lag_analysis.lag(no_reads), lag_analysis.hours(no_reads), lag_analysis.exposed(no_reads)),
        *(lag_analysis.waits(nothing), lag_analysis.minutes(nothing)),
        *(routing_mix.mix(nothing), routing_mix.errors(nothing), routing_mix.fallbacks(nothing)),
        *(routing_mix.pinned(nothing), gtid_growth.growth(nothing)),
        verdict_counts.transform(no_reads),
    )
    assert [table.count() for table in tables] == [0] * len(tables)
    (probe,) = lag_analysis.probes(nothing).collect()
    assert set(probe) == {None}
    assert lag_analysis.foregone([], [], probe.asDict(), []) == []

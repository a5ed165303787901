"""Waits, lag and where statements went."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_jobs.found_segments import find_segments
from tests.spark_jobs.routing_log import DAY_US, UUID, Run, on, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.columns.piece import Piece
    from spark_jobs.columns.tally import Tally

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
    return find_segments(log, tmp_path_factory.mktemp("scratch")).paths


@pytest.fixture(scope="module")
def parsed(
    spark: "SparkSession", paths: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory
) -> "tuple[DataFrame, list[Piece]]":
    from spark_jobs.columns.piece import pieces
    from spark_jobs.records import take

    folder = tmp_path_factory.mktemp("parsed") / "records"
    kept = take.all_in(spark, paths, folder)
    assert kept.parsed.where("fault is not null").count() == 0
    return kept.parsed, list(pieces(kept.files, 1))


@pytest.fixture(scope="module")
def lines(parsed: "tuple[DataFrame, list[Piece]]") -> "DataFrame":
    return parsed[0]


@pytest.fixture(scope="module")
def tallies(
    spark: "SparkSession",
    parsed: "tuple[DataFrame, list[Piece]]",
    tmp_path_factory: pytest.TempPathFactory,
) -> "dict[str, Tally]":
    """Of records and of reads, as an audit makes them of pieces."""
    from spark_jobs.columns import traffic
    from spark_jobs.columns.chunk import EVERYTHING
    from spark_jobs.columns.piece import pieces, read
    from spark_jobs.primaries import primary_history
    from spark_jobs.reads import consistency_audit
    from spark_jobs.records import ingest
    from spark_jobs.tables.timestamps import published

    lines, files = parsed
    records = ingest.number(lines)
    judged = consistency_audit.transform(records, primary_history.learn(records))
    folder = tmp_path_factory.mktemp("reads") / "reads"
    published(judged).repartition(2).write.parquet(str(folder))
    found = [
        traffic.of_records(chunk)
        for piece in files
        for chunk in read(piece, traffic.COLUMNS, EVERYTHING)
    ]
    found += [
        traffic.of_reads(piece).tallies
        for piece in pieces(list(map(str, folder.glob("*.parquet"))), 1)
    ]
    return traffic.together(*found)


def test_replication_lag(lines: "DataFrame") -> None:
    from spark_jobs.audit import replication

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
    from spark_jobs.audit import replication

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


def test_waits_and_lag(tallies: "dict[str, Tally]", lines: "DataFrame") -> None:
    from spark_jobs.audit import replication
    from spark_jobs.columns import lag_analysis

    rows = lag_analysis.lag(tallies["lag"])
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

    hours = {row["server"]: row for row in lag_analysis.hours(tallies["hours"])}
    assert {row["hour_us"] for row in hours.values()} == {DAY_US}
    assert [hours["r1:3306"][name] for name in ("reads", "waited", "wait_max_us")] == [
        101,
        101,
        1000,
    ]
    assert [hours["primary:3306"][name] for name in ("reads", "waited")] == [3, 2]

    replicated = replication.transform(replication.told(lines)).collect()
    first, second = lag_analysis.foregone(
        *(tallies[name] for name in ("foregone", "fallbacks", "probes")),
        [row.asDict() for row in replicated],
    )
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


def test_waits_by_level(tallies: "dict[str, Tally]") -> None:
    from spark_jobs.columns import lag_analysis

    (row,) = lag_analysis.waits(tallies["waits"])
    assert (row["level"], row["reads"], row["waited"]) == ("READ_OWN_WRITES", 105, 104)
    assert row["wait_total_us"] == 5050 + 1000 + 7 + 2 * 50_000
    assert (row["wait_p50_us"], row["wait_max_us"]) == (51, 50_000)
    assert (row["fell_back"], row["fallback_total_us"], row["fallback_max_us"]) == (2, 40, 20)


def test_the_worst_minutes(
    tallies: "dict[str, Tally]", parsed: "tuple[DataFrame, list[Piece]]"
) -> None:
    import numpy as np

    from spark_jobs.columns import lag_analysis, traffic
    from spark_jobs.columns.chunk import EVERYTHING

    worst = lag_analysis.minutes(tallies["minutes"])
    assert [row["minute_us"] for row in worst] == [DAY_US]
    parts = (traffic.of_minutes(it, EVERYTHING, {DAY_US}).tallies for it in parsed[1])
    (row,) = lag_analysis.with_written(worst, traffic.together(*parts)["written"])
    assert [row[name] for name in ("reads", "waited", "wait_max_us")] == [105, 104, 50_000]
    assert row["wait_total_us"] == 5050 + 1000 + 7 + 2 * 50_000
    assert (row["fell_back"], row["writes"]) == (2, 1)
    one = {"writes": 1, "digest": f"{0:016x}", "schema": "shop", "user": "app"}
    assert row["written"] == [one]
    assert lag_analysis.with_written(worst, None)[0]["written"] == []
    assert lag_analysis.minutes(traffic.of_no_records()["minutes"]) == []
    times = np.array([HOUR_US - 1, HOUR_US])
    assert lag_analysis.begin_of(HOUR_US, times).tolist() == [0, HOUR_US]


def test_how_sets_grow(tallies: "dict[str, Tally]") -> None:
    from spark_jobs.columns import gtid_growth

    rows = gtid_growth.growth(tallies["growth"])
    assert {row["hour_us"] for row in rows} == {DAY_US}
    sizes = {row["server"]: tuple(row.values())[4:] for row in rows}
    whole = f"{P}:1-10:20:30:tag:1-3,{UUID['other']}:t_2:1:5"
    assert sizes["primary:3306"] == (1, 2, 2, 6, len(whole))
    assert sizes["r1:3306"] == (5, 1, 0, 1, len(P) + 5)
    assert sizes[""] == (1, 1, 0, 1, len(P) + 3)
    assert {(row["what"], row["role"]) for row in rows} == {
        *(("executed", "primary"), ("executed", "replica"), ("required", ""))
    }


def test_what_misses_the_replicas_most(tallies: "dict[str, Tally]") -> None:
    from spark_jobs.columns import routing_mix

    rows = routing_mix.pinned(tallies["pinned"])
    assert [(row["kept"], row["fell_back"], row["reason"]) for row in rows] == [
        *((0, 1, "wait_timeout"), (0, 1, "wait_timeout"), (1, 0, "pinned"))
    ]
    assert rows[2]["digest"] == "kept"
    (user,) = routing_mix.pinned_users(tallies["pinned"])
    assert (user["digest"], user["user"], user["reason"]) == (None, "app", "wait_timeout")
    assert [user[name] for name in ("reads", "on_primary", "kept", "fell_back")] == [105, 3, 1, 2]
    assert user["total_us"] == 105 * 900


def test_where_statements_went(tallies: "dict[str, Tally]") -> None:
    from spark_jobs.columns import routing_mix

    rows = routing_mix.mix(tallies["mix"])
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


def test_fallbacks_and_errors(tallies: "dict[str, Tally]") -> None:
    from spark_jobs.columns import routing_mix

    assert [tuple(row.values()) for row in routing_mix.fallbacks(tallies["fallbacks"])] == [
        ("r1:3306", "wait_timeout", 2),
        ("[::1]:3306", "replica_lost", 1),
    ]
    assert [tuple(row.values()) for row in routing_mix.errors(tallies["errors"])] == [
        ("error", 1062, "primary", 2),
        ("error", 1105, "none", 1),
        ("lost", 0, "primary", 1),
    ]


def test_what_nobody_did(tallies: "dict[str, Tally]") -> None:
    from spark_jobs.columns import (
        consistency_tally,
        gtid_growth,
        lag_analysis,
        routing_mix,
        traffic,
    )

    none = {**traffic.of_no_records(), **traffic.of_no_reads()}
    assert none.keys() == tallies.keys()
    tables = (
        *(lag_analysis.lag(none["lag"]), lag_analysis.hours(none["hours"])),
        *(lag_analysis.waits(none["waits"]), gtid_growth.growth(none["growth"])),
        lag_analysis.foregone(none["foregone"], none["fallbacks"], none["probes"], []),
        *(routing_mix.mix(none["mix"]), routing_mix.errors(none["errors"])),
        *(routing_mix.pinned(none["pinned"]), routing_mix.fallbacks(none["fallbacks"])),
        consistency_tally.verdicts(none["verdicts"]),
    )
    assert not any(tables)
    assert consistency_tally.understated(none["understated"]) == 0
    both = traffic.together(none, tallies)
    assert routing_mix.mix(both["mix"]) == routing_mix.mix(tallies["mix"])

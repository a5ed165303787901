"""What is in the log's files, and what is not, is known exactly."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark_jobs.found_segments import find_segments, lines_of
from tests.spark_jobs.looked import look, same
from tests.spark_jobs.routing_log import NOTHING, UUID, Run, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

P = UUID["primary"]
YEAR_10000_US = 253_402_300_800_000_000

IMPOSSIBLE: tuple[dict[str, int], ...] = (
    {"arrived_us": -1},
    {"snapshot_us": YEAR_10000_US},
    {"dispatched_us": YEAR_10000_US},
    {"ended_us": 2**63 - 1},
    {"wait_us": 2**63 - 1},
    {"wait_us": -(2**48) - 1},
    {"bound_us": -(2**63)},
    {"seq": -(2**63)},
    {"ordinal": 2**48 + 1},
    {"rows": 2**63 - 1},
)
"""What no proxy writes, and what sums of would overflow."""

POSSIBLE: tuple[dict[str, int | None], ...] = (
    {"arrived_us": 0, "dispatched_us": YEAR_10000_US - 1, "ended_us": 0},
    {"snapshot_us": YEAR_10000_US - 1},
    # A clock that was set back.
    {"wait_us": -(2**48), "bound_us": None, "bytes": 2**48},
)


def load(spark: "SparkSession", log: Path, scratch: Path) -> "DataFrame":
    from spark_jobs.records import ingest

    return ingest.parse(lines_of(spark, log))


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def test_the_schema_is_the_writers() -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.types import BooleanType, LongType, StringType

    from routing.record import FIELDS, RECORD_VERSION, SNAPSHOT, TABLES
    from spark_jobs.tables import schema

    types = {int: LongType(), str: StringType(), bool: BooleanType()}
    assert [(f.name, f.dataType, f.nullable) for f in schema.RECORD] == [
        (name, types[kind], nullable) for name, kind, nullable in (*FIELDS, *SNAPSHOT, *TABLES)
    ]
    assert schema.RECORD_VERSION == RECORD_VERSION


def test_the_rows_of_the_judge_are_the_schemas() -> None:
    pytest.importorskip("pyspark")
    from spark_jobs.primaries.primary_snapshots import _Past
    from spark_jobs.reads import groups
    from spark_jobs.reads.event import Event
    from spark_jobs.sources import Source
    from spark_jobs.tables import schema

    assert Event._fields == groups.COLUMNS
    assert list(_Past._fields) == schema.PAST.names
    assert list(Source._fields) == schema.MISSED.names
    assert list(NOTHING) == schema.RECORD.names


def test_records_come_back_as_they_were_written(
    spark: "SparkSession", tmp_path: Path, scratch: Path
) -> None:
    from routing.record import (
        NO_SERVER,
        RecordStream,
        Route,
        server_fragment,
        session_fragment,
        statement_fragment,
    )
    from tests.support.statement_records import RULES, add_statement

    stream = RecordStream('db "1"\n', 3, "00ff", 1 << 20)
    name = 'Ünïcode \U0001f30a "\\\r\n\0\x1f'
    session = session_fragment(7, name, None, "00ff/7", RULES)
    read = statement_fragment("COM_QUERY", "read", None, False)
    replica = server_fragment("r1:3306", UUID["r1"], "replica", 1)
    first = {"required": None, "proof_set": f"{P}:1-5", "fallbacks": "r2:1:wait_timeout"}
    known = Route(replica, "read", "known", "ok")
    add_statement(stream, session, read, known, **first, wait_us=4, bytes=2**40)
    second = {"own_gtids": f"{P}:tag:1", "own_known": False, "rows": 17, "snapshot_us": 5}
    nobody = Route(NO_SERVER, "wait_timeout", "none", "error")
    add_statement(stream, session, read, nobody, **second, wait_us=4, error_code=1205, ordinal=2)
    stream.proof(replica, "probed", f"{P}:1-5", 8, 9)
    stream._drop(10, 11)
    stream.finish()
    text = stream.take(10)
    path = tmp_path / "date=2026-11-30" / "db-3-00ff-1.jsonl"
    path.parent.mkdir()
    path.write_text(text)

    rows = load(spark, tmp_path, scratch).orderBy("seq").collect()
    written = [
        {"snapshot_us": None, "tables": None} | json.loads(line) for line in text.splitlines()
    ]
    assert [row.snapshot_us for row in rows] == [None, 5, None, None]
    assert [row.fault for row in rows] == [None] * 4
    assert [{name: row[name] for name in NOTHING} for row in rows] == written
    assert {row.file for row in rows} == {"date=2026-11-30/db-3-00ff-1.jsonl"}


def test_names_that_are_no_text_stay_apart(
    spark: "SparkSession", tmp_path: Path, scratch: Path
) -> None:
    run = Run()
    names = ("\udcff", "\udcfe", "\udcfe\udcff", "?", "\\udcff", "\\\udcff", "\U0001f4ff")
    for name in names:
        run.write(7, f"{P}:1", user=name, application=name)
    save(tmp_path, run)
    rows = load(spark, tmp_path, scratch).orderBy("seq").collect()
    assert {(row.fault, row.own_gtids) for row in rows} == {(None, f"{P}:1")}
    assert len({row.user for row in rows}) == len(names)
    assert [row.application for row in rows] == [row.user for row in rows]
    # What is text is read as it is.
    assert [rows[at].user for at in (3, 4, 6)] == [names[at] for at in (3, 4, 6)]


def test_a_line_with_more_than_one_record_is_none(
    spark: "SparkSession", tmp_path: Path, scratch: Path
) -> None:
    run = Run()
    run.write(7, f"{P}:1")
    run.read(7, "r1", "none")
    (path,) = save(tmp_path, run)
    first, second = path.read_text().splitlines()
    betweens = ("", " ", ",", "}", "]", "],[")
    path.write_text("".join(f"{first}{between}{second}\n" for between in betweens))
    rows = load(spark, tmp_path, scratch).collect()
    assert [row.fault for row in rows] == ["damaged"] * len(betweens)


def test_lines_that_are_no_records_are_told_by_kind_and_file(
    spark: "SparkSession", tmp_path: Path, scratch: Path
) -> None:
    from spark_jobs.audit import log_integrity
    from spark_jobs.records import take

    run = Run()
    for fields in ({}, {}, {}, {}, {}, {}, {}, *POSSIBLE):
        run.write(7, "", **fields)
    (path,) = save(tmp_path, run)
    lines = path.read_text().splitlines()
    record = json.loads(lines[0])
    without = {name: value for name, value in record.items() if name != "own_gtids"}
    path.write_text(
        "\n".join(
            [
                *lines,
                lines[0].replace('"v":', '"v') + "}",
                json.dumps(record | {"seq": "one"}),
                json.dumps(record | {"session": None}),
                *(json.dumps(record | impossible) for impossible in IMPOSSIBLE),
                json.dumps(without),
                "{}",
                json.dumps(record | {"v": 2}),
                json.dumps({"v": 3, "sequence": 1}),
                # Version 2 may change types.
                json.dumps(record | {"v": 2, "seq": "one"}),
                json.dumps(record | {"v": 2, "own_known": 1, "bytes": 2**64}),
                json.dumps(record | {"kind": "confession"}),
                "",
                lines[0][:-1],
            ]
        )
    )
    torn = tmp_path / "date=2026-12-01" / "gate-0-a1-2.jsonl.open"
    torn.parent.mkdir()
    torn.write_text(lines[1] + "\n" + lines[2][:40])

    kept = take.all_in(spark, find_segments(tmp_path), tmp_path / "parsed")
    faults = log_integrity.faults(look(spark, kept, scratch).survey)
    assert [tuple(row.values()) for row in faults] == [
        ("date=2026-11-30/gate-0-a1.jsonl", "damaged", 5 + len(IMPOSSIBLE)),
        ("date=2026-11-30/gate-0-a1.jsonl", "foreign", 5),
        ("date=2026-11-30/gate-0-a1.jsonl", "torn", 1),
        ("date=2026-12-01/gate-0-a1-2.jsonl.open", "torn", 1),
    ]


def test_a_line_torn_anywhere_is_torn_or_nothing(
    spark: "SparkSession", tmp_path: Path, scratch: Path
) -> None:
    run = Run()
    run.write(7, f"{P}:1", user="{curly}")
    (path,) = save(tmp_path, run)
    line = path.read_text().rstrip("\n")
    path.write_text("\n".join(line[:length] for length in range(1, len(line) + 1)))
    faults = [row.fault for row in load(spark, tmp_path, scratch).select("fault").collect()]
    assert faults.count(None) == 1
    # A cut right behind a brace looks damaged; either way it is no record.
    assert faults.count("torn") == len(line) - 1 - line[:-1].count("}")


def test_the_numbers_tell_what_is_missing_and_what_is_there_twice(
    spark: "SparkSession", tmp_path: Path, scratch: Path
) -> None:
    from spark_jobs.audit import log_integrity
    from spark_jobs.records import ingest, take

    whole, holed, other = Run("a1"), Run("b2"), Run("a1", worker=1)
    for number in range(1, 6):
        whole.write(7, f"{P}:{number}")
        other.write(7, f"{P}:{number}")
    whole.probe("r1", f"{P}:1")
    kept = [holed.write(7, f"{P}:{number}") for number in range(11, 21)]
    for index in (0, 1, 4, 9):
        holed.lose(kept[index])
    holed.gap(7, 7, 8)
    holed.write(7, f"{P}:30")
    # More was dropped than the gap says.
    holed.gap(8)
    holed.records[-1]["dropped"] = 0
    other.records.append(dict(other.records[2]))
    other.records.append(dict(other.records[2]))
    other.records.append(other.records[3] | {"own_gtids": f"{P}:99"})
    save(tmp_path, whole, holed)
    save(tmp_path, other, day="2026-12-01")

    lines = load(spark, tmp_path, scratch)
    numbered = ingest.number(lines).persist()
    kept = take.all_in(spark, find_segments(tmp_path), tmp_path / "parsed")
    once = look(spark, kept, scratch)
    assert same(once.records, numbered.where("repeat is null"))
    found = log_integrity.runs(once.survey, once.missing(), once.repeats)
    runs = {(row["worker"], row["run"]): row for row in found}
    clean = {"statements": 5, "gaps": 0, "first_seq": 1, "missing": 0, "declared": 0}
    doubled = {"repeated": 0, "conflicting": 0}
    assert runs[0, "a1"].items() >= (clean | doubled | {"proofs": 1, "last_seq": 6}).items()
    assert runs[1, "a1"].items() >= (clean | {"repeated": 2, "conflicting": 1}).items()
    lost = {"statements": 7, "gaps": 2, "first_seq": 3, "missing": 8, "declared": 3}
    assert runs[0, "b2"].items() >= (lost | doubled).items()

    holes = [row.seq for row in numbered.where("hole").orderBy("run", "seq").collect()]
    assert holes == [3, 6, 15]
    # Of nothing to tell the same is told.
    alone = numbered.where("run = 'a1' and worker = 0").orderBy("seq").collect()
    assert ingest.number(lines.where("run = 'a1' and worker = 0")).orderBy("seq").collect() == alone
    assert [(row.missing, row.hole, row.since_us, row.repeat) for row in alone] == [
        (0, False, 0, None)
    ] * 6


@pytest.mark.parametrize("name", ["[a] {b,c} *?\\ %41 + d", "%41 + d:e"])
def test_a_directory_may_have_any_name(spark: "SparkSession", tmp_path: Path, name: str) -> None:
    from spark_jobs.records import take

    run = Run()
    run.write(7, f"{P}:1")
    save(tmp_path / name, run)
    kept = take.all_in(spark, find_segments(tmp_path / name), tmp_path / "parsed")
    (row,) = kept.parsed.collect()
    assert (row.own_gtids, row.file) == (f"{P}:1", "date=2026-11-30/gate-0-a1.jsonl")


def test_what_hadoop_cannot_read_is_told() -> None:
    pytest.importorskip("pyspark")
    from spark_jobs.paths import escape

    uris = ["s3a://bucket:80/a [b]", "hdfs:/a", "/a:b"]
    assert escape(uris) == ["s3a://bucket:80/a \\[b\\]", "hdfs:/a", "/a:b"]
    with pytest.raises(OSError, match=r"cannot read /a:b/\[c\], .* a link of another name"):
        escape(["/a:b/[c]"])

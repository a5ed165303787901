"""Segments as Parquet say what their lines say."""

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.day import DAY_US, HOUR_US, Day
from spark_jobs.paths import escape
from spark_jobs.records.segments import list_segments
from spark_jobs.store.store import Span, Store
from tests.spark_jobs import routing_log
from tests.spark_jobs.found_segments import lines_of
from tests.spark_jobs.routing_log import UUID, Clock, Run, save

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

P = UUID["primary"]
DAY = Day.parse("2026-11-30")
assert DAY.begin_us == routing_log.DAY_US


def rows(table: "DataFrame") -> list[tuple[object, ...]]:
    from spark_jobs.tables.schema import PARSED

    names = [name for name in PARSED.names if name != "line"]
    return sorted((tuple(row) for row in table.select(names).collect()), key=repr)


def test_what_comes_back_is_what_the_log_says(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.records import ingest
    from spark_jobs.store import parquet

    log, clock = tmp_path / "[log]", Clock(DAY.before.begin_us - 1000)
    run = Run(clock=clock)
    moments = [clock.now, DAY.before.begin_us, DAY.begin_us - 1, DAY.begin_us + 5 * HOUR_US]
    moments += [DAY.end_us - 1, DAY.end_us, DAY.end_us + HOUR_US - 1, DAY.end_us + HOUR_US]
    for number, clock.now in enumerate(moments, 1):
        run.write(7, f"{P}:{number}")
    clock.now = DAY.begin_us
    run.probe("r1", f"{P}:1-5", lag={"applied": [], "waits": []})
    first, second = run.records[:4], run.records[4:]
    run.records = first
    (path,) = save(log, run)
    # Of the day before, but in this day's segment.
    torn = "".join(f"{json.dumps(record)}\n" for record in first[:1])
    text = f"\n{path.read_text()}{torn[:80]}\n\n{torn.replace('own_gtids', 'mine')}"
    path.write_text(text)
    packed = path.with_name("gate-0-b2.jsonl.gz")
    run.records = second
    (named,) = save(log, run, suffix=".open")
    live = named.rename(named.with_name("gate-0-c3.jsonl.open"))
    packed.write_bytes(gzip.compress(live.read_bytes() + b"{}\n"))
    live.write_text(json.dumps(Run("live").write(8, f"{P}:99")) + "\n{")

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    listing = list_segments(log)
    store = Store(tmp_path / "{store}")
    assert store.take(listing.closed, parquet.reader(spark)).segments == 2
    taken = {it.name: it for it in store.manifest.taken}
    plain = taken["date=2026-11-30/gate-0-a1.jsonl"]
    assert (plain.records, plain.torn, plain.damaged, plain.foreign) == (4, 1, 1, 0)
    assert plain.hours == {
        "2026-11-28T23": 1,
        "2026-11-29T00": 1,
        "2026-11-29T23": 1,
        "2026-11-30T05": 1,
    }
    assert (taken["date=2026-11-30/gate-0-b2.jsonl"].records, plain.take) == (5, 1)

    parsed = ingest.parse(lines_of(spark, log))
    within = f"arrived_us >= {DAY.begin_us - DAY_US} and arrived_us < {DAY.end_us + HOUR_US}"
    direct = parsed.where(f"fault is not null or ({within})")
    read = parquet.read(spark, store, Span(DAY), listing.live, scratch).parsed
    assert rows(read) == rows(direct)
    assert direct.where("fault is not null").count() == 4

    # What RECORD does not hold stays.
    (line,) = read.where("kind = 'proof'").select("line").collect()
    assert json.loads(line[0])["lag"] == {"applied": [], "waits": []}
    assert read.where("kind = 'statement' and fault is null and line is not null").count() == 0

    (folder,) = store.folders(Span(DAY))[1]
    lines = spark.read.parquet(*escape([folder])).orderBy("file", "number").collect()
    assert [(row.file[-7:], row.number, row.fault, row.line[:1]) for row in lines] == [
        *(("1.jsonl", 6, "torn", "{"), ("1.jsonl", 8, "damaged", "{")),
        ("sonl.gz", 6, "damaged", "{"),
    ]

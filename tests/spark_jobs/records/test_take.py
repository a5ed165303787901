"""Executors turn files into Parquet, and no line is lost or taken twice."""

import errno
import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard

from spark_jobs.day import HOUR_US
from spark_jobs.records.content import QUARANTINE, RECORDS, measure, unpacked, unreadable
from spark_jobs.records.segments import LARGEST, Segment, list_remote, list_segments
from tests.spark_jobs.found_segments import find_segments
from tests.spark_jobs.mounted import mounted
from tests.spark_jobs.routing_log import DAY_US, UUID, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.records.take import Kept

spark_test = pytest.mark.spark
timeout = pytest.mark.timeout(600)

P = UUID["primary"]
DAY = "date=2026-11-30"


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_every_line_is_in_one_block(monkeypatch: pytest.MonkeyPatch, end: str, suffix: str) -> None:
    pytest.importorskip("pyspark")
    from spark_jobs.records import content, take

    monkeypatch.setattr(take, "_BLOCK", 50)
    monkeypatch.setattr(content, "_CHUNK", 37)
    # Of all lengths, so that blocks end anywhere: also where a line does.
    text = "\n".join(f"{number}{'x' * (number % 130)}" for number in range(300)) + end
    data = gzip.compress(text.encode()) if suffix else text.encode()
    for certain in (len(text), len(text) - 1, 1000, 51, 1, 0):
        blocks = [*take._blocks(unpacked(BytesIO(data), suffix), certain)]
        assert b"".join(blocks) == text.encode()[:certain]
        assert all(block.endswith(b"\n") for block in blocks[:-1])
        assert len(blocks) >= certain // 200


def records() -> list[str]:
    run = Run()
    for number, hour in enumerate((0, 5, 23, 24), 1):
        run.clock.now = DAY_US + hour * HOUR_US
        run.write(7, f"{P}:{number}")
    return [json.dumps(record) for record in run.records]


def counted(kept: "Kept") -> Counter[tuple[str, str | None]]:
    return Counter(map(tuple, kept.parsed.select("file", "fault").collect()))


@spark_test
@timeout
def test_odd_lines_are_taken_beside_plain_ones(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.records import take

    folder = tmp_path / "[log]" / DAY
    folder.mkdir(parents=True)
    lines = records()
    (folder / "plain.jsonl").write_text("\n".join(lines))
    odd = [lines[0].replace("app", "\\udcff"), "{}", "", "  ", lines[1][:50]]
    (folder / "odd [1].jsonl.gz").write_bytes(gzip.compress("\n".join(odd).encode()))
    (folder / "empty.jsonl").touch()
    segments = find_segments(tmp_path / "[log]")
    found = take.by_hour(spark, segments, tmp_path / "{hours}")
    hours = ["2026-11-30T00", "2026-11-30T05", "2026-11-30T23", "2026-12-01T00"]
    told = {name: (here.hours, here.faults) for name, here in found.items()}
    assert told == {
        f"{DAY}/plain.jsonl": (dict.fromkeys(hours, 1), {}),
        f"{DAY}/odd [1].jsonl": ({hours[0]: 1}, {"torn": 1, "damaged": 1}),
        f"{DAY}/empty.jsonl": ({}, {}),
    }
    assert found[f"{DAY}/odd [1].jsonl"].file == f"{DAY}/odd [1].jsonl.gz"
    measured = take.measure(spark, segments)
    assert all(found[name].measured == here for name, here in measured.items())
    # Those that are no record are elsewhere, with their numbers.
    placed = (tmp_path / "{hours}" / RECORDS).glob("date=*/hour=*/*.parquet")
    assert len([*placed]) == 5
    faulty = spark.read.parquet(str(tmp_path / "\\{hours\\}" / QUARANTINE))
    assert [(row.number, row.fault) for row in faulty.collect()] == [(2, "damaged"), (5, "torn")]
    whole = take.all_in(spark, segments, tmp_path / "all")
    assert counted(whole) == {
        (f"{DAY}/plain.jsonl", None): 4,
        (f"{DAY}/odd [1].jsonl.gz", None): 1,
        (f"{DAY}/odd [1].jsonl.gz", "torn"): 1,
        (f"{DAY}/odd [1].jsonl.gz", "damaged"): 1,
    }
    assert whole.damaged == {}


@spark_test
@timeout
def test_what_cannot_be_read_costs_its_own_records(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.records import take

    folder = tmp_path / DAY
    folder.mkdir()
    data = ("\n".join(records() * 2000) + "\n").encode()
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(data)[:-20])
    (folder / "cut.jsonl.zst.gz").write_bytes(b"")
    (folder / "gone.jsonl").write_bytes(data)
    (folder / "large.jsonl").touch()
    (folder / "whole.jsonl").write_bytes(data)
    (folder / "x:y.jsonl").write_bytes(data)
    with (folder / "large.jsonl").open("ab") as large:
        large.truncate(100 << 20)
    segments = find_segments(tmp_path)
    (folder / "gone.jsonl").unlink()
    kept = take.all_in(spark, segments, tmp_path / "all")
    cut = kept.damaged.pop(f"{DAY}/cut.jsonl.gz")  # type: ignore[attr-defined]  # it is a dict
    assert cut.startswith("cut short; its first ")
    assert kept.damaged == {
        f"{DAY}/gone.jsonl": "deleted meanwhile, or Spark cannot read it; none of it counts",
        f"{DAY}/large.jsonl": "a line has more than 64 MiB; none of it counts",
    }
    found = counted(kept)
    assert found[f"{DAY}/x:y.jsonl", None] == 8000
    assert found[f"{DAY}/whole.jsonl", None] == 8000
    assert found[f"{DAY}/cut.jsonl.gz", None] > 7000
    # Of a damaged one, the store takes nothing.
    taken = take.by_hour(spark, segments, tmp_path / "hours")
    assert {name: sum(here.hours.values()) for name, here in taken.items()} == {
        **dict.fromkeys((f"{DAY}/whole.jsonl", f"{DAY}/x:y.jsonl"), 8000),
        **dict.fromkeys((f"{DAY}/cut.jsonl", f"{DAY}/large.jsonl"), 0),
    }
    assert taken[f"{DAY}/cut.jsonl"].measured.damage == cut


MOVES: dict[str, Callable[[Path], object]] = {
    "finished": lambda path: path.rename(path.with_suffix("")),
    "compressed": lambda path: (
        path.with_suffix(".gz").write_bytes(gzip.compress(path.read_bytes())),
        path.unlink(),
    ),
    "compressed, and not yet removed": lambda path: (
        path.with_suffix(".gz").write_bytes(gzip.compress(path.read_bytes())),
        path.rename(path.with_suffix("")),
    ),
    "compressed by zstd": lambda path: (
        path.with_suffix(".zst").write_bytes(zstandard.compress(path.read_bytes())),
        path.unlink(),
    ),
}


@spark_test
@timeout
@pytest.mark.parametrize("move", MOVES)
def test_a_live_segment_may_be_finished_meanwhile(
    spark: "SparkSession", tmp_path: Path, move: str
) -> None:
    from spark_jobs.records import take

    path, other = tmp_path / DAY / "a.jsonl.open", tmp_path / DAY / "b.jsonl"
    path.parent.mkdir()
    lines = records()
    path.write_text(f"{lines[0]}\n{lines[1]}\n{lines[2][:40]}")
    other.write_text(f"{lines[0]}\n")
    listing = list_segments(tmp_path)
    # What is written after the log was listed does not count.
    path.write_text("\n".join(lines) + "\n")
    MOVES[move](path)
    kept = take.all_in(spark, [*listing.closed, *listing.live], tmp_path / "all")
    assert (sum(counted(kept).values()), kept.damaged) == (4, {})
    faults = sorted((name[-7:], fault) for name, fault in counted(kept) if fault)
    assert [fault for _, fault in faults] == ["torn"]


@spark_test
@timeout
def test_a_log_of_another_file_system_is_taken_where_it_is(
    spark: "SparkSession", tmp_path: Path
) -> None:
    from spark_jobs.records import take

    folder = tmp_path / "log 1%20" / DAY
    folder.mkdir(parents=True)
    text = "\n".join(records())
    (folder / "[a] b%20.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "gone.jsonl").write_text(text)
    with mounted(spark, folder.parent) as uri:
        listing = list_remote(spark, uri)
        (folder / "gone.jsonl").rename(folder / "gone.jsonl.gone")
        large = replace(listing.closed[0], name=f"{DAY}/large.jsonl", size=LARGEST + 1)
        kept = take.all_in(spark, [*listing.closed, large], tmp_path / "all")
        assert all(segment.path.startswith("viewfs://") for segment in listing.closed)
    assert counted(kept) == {(f"{DAY}/[a] b%20.jsonl.gz", None): 4}
    assert kept.damaged == {
        f"{DAY}/gone.jsonl": "deleted meanwhile, or Spark cannot read it; none of it counts",
        large.file: "larger than 128 MiB; none of it counts",
    }


def test_a_file_that_cannot_be_read_to_its_end_has_what_came_before() -> None:
    class Broken(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if data := super().read(size):
                return data
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    measured = measure(Broken(b"one\ntwo"), "")
    assert (measured.certain, measured.size) == (7, 7)
    assert measured.damage == "Input/output error; its first 7 bytes count"
    assert unreadable(PermissionError(errno.EACCES, "Permission denied")).damage == (
        "Permission denied; none of it counts"
    )


@spark_test
@timeout
def test_nothing_can_be_taken_of_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    from spark_jobs.records import take

    gone = Segment(f"{DAY}/a.jsonl", str(tmp_path / DAY / "a.jsonl"), 7, 0)
    assert take.by_hour(spark, [gone], tmp_path / "hours") == {}
    assert take.measure(spark, [gone]) == {}
    kept = take.all_in(spark, [gone], tmp_path / "all")
    assert (kept.parsed.count(), [*kept.damaged]) == (0, [f"{DAY}/a.jsonl"])

"""Which files of a log are read, and that no other is passed over in silence."""

import errno
import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard

from spark_jobs.records import segments
from spark_jobs.records.segments import list_remote, list_segments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = "date=2026-11-30"


def lay(log: Path, *names: str) -> None:
    for name in names:
        (log / name).parent.mkdir(parents=True, exist_ok=True)
        pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(Path(name).suffix, bytes)
        (log / name).write_bytes(pack(b"?"))


def test_a_live_segment_counts_as_far_as_it_was_when_it_was_listed(tmp_path: Path) -> None:
    lay(tmp_path, f"{DAY}/a.jsonl.open", f"_audit/{DAY}/b.jsonl", f"{DAY}/notes.txt")
    found = list_segments(tmp_path)
    (live,) = found.live
    assert (found.closed, live.name, live.file) == (
        *((), f"{DAY}/a.jsonl"),
        f"{DAY}/a.jsonl.open",
    )
    assert (live.is_live, live.size, live.log) == (True, 1, str(tmp_path))
    plain = f"{tmp_path}/{DAY}/a.jsonl"
    assert live.forms == [f"{plain}.open", plain, f"{plain}.gz", f"{plain}.zst"]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_segment_that_is_finished_while_the_log_is_listed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    lay(tmp_path, f"{DAY}/a.jsonl.open", f"{DAY}/b.jsonl")
    walked = segments._files

    def moving(*arguments: object) -> list[str]:
        files = [*walked(*arguments)]  # type: ignore[arg-type]  # whatever they are
        for name in ("a.jsonl.open", "b.jsonl"):
            plain = tmp_path / DAY / name
            if suffix or plain.suffix == ".open":
                plain.rename(plain.with_name(f"{name[0]}.jsonl{suffix}"))
        return files

    monkeypatch.setattr(segments, "_files", moving)
    found = list_segments(tmp_path)
    assert [segment.file for segment in found.closed] == [
        f"{DAY}/{name}.jsonl{suffix}" for name in "ab"
    ]
    assert (found.live, found.damaged) == ((), {})
    # A segment has one name, whatever it is packed in.
    assert [segment.name for segment in found.closed] == [f"{DAY}/a.jsonl", f"{DAY}/b.jsonl"]
    assert found.closed[0].place == f"{tmp_path}/{DAY}/a.jsonl{suffix}"


def test_what_seems_to_hold_records_and_is_not_read_is_told(tmp_path: Path) -> None:
    lay(
        tmp_path,
        *(f"{DAY}/a.jsonl", f"{DAY}/b.jsonl.gz", f"{DAY}/c.jsonl.bz2"),
        *("d.jsonl", f"old/{DAY}/e.jsonl", f"{DAY}/f.jsonl.open.gz"),
        *(f"{DAY}/notes.txt", f"{DAY}/hour=1/g.JSONL", f"{DAY}/h.gz"),
        *("_audit/report.md", "out/x.jsonl"),
    )
    found = list_segments(tmp_path, tmp_path / "out")
    assert [segment.file for segment in found.closed] == [f"{DAY}/a.jsonl", f"{DAY}/b.jsonl.gz"]
    assert set(found.unread) == {
        *(f"{DAY}/c.jsonl.bz2", "d.jsonl", f"old/{DAY}/e.jsonl", f"{DAY}/f.jsonl.open.gz"),
        *(f"{DAY}/hour=1/g.JSONL", f"{DAY}/h.gz"),
    }
    assert set(found.unknown) == {f"{DAY}/notes.txt"}


def test_a_segment_in_several_forms_is_read_once(tmp_path: Path) -> None:
    lay(tmp_path, *(f"{DAY}/a.jsonl{suffix}" for suffix in ("", ".gz", ".zst", ".gz.tmp")))
    lay(tmp_path, f"{DAY}/b.jsonl.gz", f"{DAY}/b.jsonl.zst", f"{DAY}/b.jsonl.open")
    found = list_segments(tmp_path)
    assert [segment.file for segment in found.closed] == [f"{DAY}/a.jsonl", f"{DAY}/b.jsonl.gz"]
    assert (found.live, found.unread, len(found.unknown)) == ((), (), 4)


def test_a_day_may_be_elsewhere_and_links_may_go_round(tmp_path: Path) -> None:
    elsewhere, log = tmp_path / "elsewhere", tmp_path / "log"
    lay(elsewhere, "a.jsonl")
    log.mkdir()
    (log / DAY).symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(log)
    (segment,) = list_segments(log).closed
    assert Path(segment.path).read_text() == "?"


def test_what_is_no_file_or_gone_or_closed_to_us_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path, f"{DAY}/a.jsonl", f"{DAY}/b.jsonl")
    os.mkfifo(tmp_path / DAY / "pipe.jsonl")
    (tmp_path / DAY / "dangling.jsonl.gz").symlink_to("nothing")
    opened = Path.open

    def refuse(path: Path, *arguments: object) -> object:
        if path.name == "b.jsonl":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments)  # type: ignore[call-overload]  # whatever they are

    (tmp_path / DAY / os.fsdecode(b"\xff.jsonl")).touch()
    monkeypatch.setattr(Path, "open", refuse)
    found = list_segments(tmp_path)
    assert found.damaged == {
        f"{DAY}/\udcff.jsonl": "its path is not UTF-8, so Spark cannot read it; none of it counts",
        f"{DAY}/b.jsonl": "Permission denied; none of it counts",
        f"{DAY}/dangling.jsonl.gz": "deleted meanwhile; none of it counts",
        f"{DAY}/pipe.jsonl": "not a regular file; none of it counts",
    }
    assert [segment.name for segment in found.closed] == [f"{DAY}/a.jsonl"]


def test_a_folder_that_cannot_be_listed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path, "date=2026-11-29/a.jsonl", f"{DAY}/b.jsonl")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name in refused:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    refused = ["date=2026-11-29"]
    monkeypatch.setattr(os, "scandir", refuse)
    listing = list_segments(tmp_path)
    assert listing.damaged == {"date=2026-11-29/": "Permission denied"}
    assert [segment.name for segment in listing.closed] == [f"{DAY}/b.jsonl"]
    refused.append(tmp_path.name)
    with pytest.raises(PermissionError, match=tmp_path.name):
        list_segments(tmp_path)


def test_the_size_of_a_log_is_that_of_its_days_unpacked(tmp_path: Path) -> None:
    text = b"{}\n" * 1000
    for date in ("2026-11-28", "2026-11-29", "2026-11-30"):
        folder = tmp_path / f"date={date}"
        folder.mkdir()
        (folder / "gate-0-0.jsonl").write_bytes(text)
    (tmp_path / DAY / "gate-1-0.jsonl.open").write_bytes(text)
    listing = list_segments(tmp_path)
    assert listing.plain_size() == 4 * len(text)
    assert listing.plain_size(("2026-11-29", "2026-11-30")) == 3 * len(text)
    packed = gzip.compress(text)
    (tmp_path / "date=2026-11-29" / "gate-2-0.jsonl.gz").write_bytes(packed)
    again = list_segments(tmp_path)
    assert again.plain_size(("2026-11-29",)) > len(text) + 2 * len(packed)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_log_that_only_spark_can_read_is_listed_alike(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = tmp_path / "[log] 1%20"
    lay(
        log,
        *(f"{DAY}/a.jsonl", f"{DAY}/[b] c%20.jsonl.gz", f"{DAY}/d.jsonl.open", f"{DAY}/x:y.jsonl"),
        *(f"{DAY}/c.jsonl.bz2", f"{DAY}/notes.txt", f"_audit/{DAY}/e.jsonl"),
        # Neither is of this log, though each looks like it from its last folder on.
        *(f"old/{DAY}/a.jsonl", f"old/{DAY}/f.jsonl", "g.jsonl"),
    )
    here, there = list_segments(log), list_remote(spark, f"file:{log}/")
    assert f"old/{DAY}/a.jsonl" in here.unread
    assert [segment.file for segment in there.closed] == [segment.file for segment in here.closed]
    assert [segment.file for segment in there.live] == [f"{DAY}/d.jsonl.open"]
    assert (there.unread, there.unknown) == (here.unread, here.unknown)
    sizes = {segment.name: segment.size for segment in there.closed}
    assert sizes == {segment.name: segment.size for segment in here.closed}
    assert {segment.log for segment in there.closed} == {f"file:{log}/"}
    assert all(segment.path.startswith("file:/") for segment in there.closed)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_spark_without_s3_says_what_it_lacks(spark: "SparkSession") -> None:
    lacks = r"s3a://bucket/log, .* to org\.apache\.hadoop:hadoop-aws:VERSION in"
    with pytest.raises(OSError, match=lacks):
        list_remote(spark, "s3a://bucket/log")

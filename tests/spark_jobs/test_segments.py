"""Which files of a log are read, and that no other is passed over in silence."""

import gzip
import os
from pathlib import Path

import pytest
import zstandard

from spark_jobs.segments import content, list_segments, readable
from tests.spark_jobs.found_segments import find_segments
from tests.spark_jobs.routing_log import UUID, Run, save

P = UUID["primary"]


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def lay(log: Path, *names: str) -> None:
    for name in names:
        (log / name).parent.mkdir(parents=True, exist_ok=True)
        (log / name).write_text("?")


def test_a_live_segment_is_read_once(
    tmp_path: Path, scratch: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = Run()
    run.write(7, f"{P}:1")
    (live,) = save(tmp_path, run, suffix=".open")
    (tmp_path / "_audit" / "date=2026-11-30").mkdir(parents=True)
    (tmp_path / "date=2026-11-30" / "notes.txt").write_text("no segment")

    segments = find_segments(tmp_path, scratch)
    assert (len(segments.complete), len(segments.live)) == (0, 1)
    assert segments.live[0].is_relative_to(scratch)
    live.rename(live.with_suffix(""))
    assert segments.live[0].read_text() == live.with_suffix("").read_text()

    # The proxy completes it between the two looks.
    live.write_text("the copy that came first")
    (path,) = find_segments(tmp_path, tmp_path_factory.mktemp("scratch")).paths
    assert (path.name, path.read_text()) == ("gate-0-a1.jsonl", live.with_suffix("").read_text())


def test_a_segment_that_is_compressed_meanwhile_is_read_all_the_same(
    tmp_path: Path, scratch: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lay(tmp_path, "date=2026-11-30/a.jsonl")
    plain = tmp_path / "date=2026-11-30" / "a.jsonl"
    (segment,) = list_segments(tmp_path, scratch).closed
    plain.with_name("a.jsonl.zst").write_bytes(zstandard.compress(plain.read_bytes()))
    plain.unlink()
    path = readable(segment, scratch)
    assert (path.name, path.read_text()) == ("a.jsonl", "?")
    # A segment has one name, whatever it is packed in.
    (packed,) = list_segments(tmp_path, tmp_path_factory.mktemp("scratch")).closed
    assert (packed.name, packed.path.suffix) == (segment.name, ".zst")


def test_an_old_segment_is_read_where_it_is(tmp_path: Path, scratch: Path) -> None:
    lay(tmp_path, "date=2026-11-30/a.jsonl")
    plain = tmp_path / "date=2026-11-30" / "a.jsonl"
    os.utime(plain, (0, 0))
    (segment,) = list_segments(tmp_path, scratch).closed
    assert readable(segment, scratch).samefile(plain)


def test_content_is_the_same_however_it_is_packed(tmp_path: Path) -> None:
    text = b"one\ntwo\n" * 300_000
    forms = {"a.jsonl": text, "b.jsonl.gz": gzip.compress(text)}
    for name, data in (forms | {"c.jsonl.zst": zstandard.compress(text)}).items():
        (tmp_path / name).write_bytes(data)
        assert b"".join(content(tmp_path / name)) == text
    for damaged in (gzip.compress(text)[:-20], gzip.compress(b"?")[:12], b"no gzip at all"):
        (tmp_path / "b.jsonl.gz").write_bytes(damaged)
        with pytest.raises(OSError, match=r"b\.jsonl\.gz is cut short or damaged"):
            list(content(tmp_path / "b.jsonl.gz"))


def test_what_seems_to_hold_records_and_is_not_read_is_told(tmp_path: Path, scratch: Path) -> None:
    lay(
        tmp_path,
        *("date=2026-11-30/a.jsonl", "date=2026-11-30/b.jsonl.gz", "date=2026-11-30/c.jsonl.bz2"),
        *("d.jsonl", "old/date=2026-11-30/e.jsonl", "date=2026-11-30/f.jsonl.open.gz"),
        *("date=2026-11-30/notes.txt", "date=2026-11-30/hour=1/g.JSONL", "date=2026-11-30/h.gz"),
        *("_audit/report.md", "out/x.jsonl"),
    )
    segments = find_segments(tmp_path, scratch, tmp_path / "out")
    day = "date=2026-11-30"
    assert [path.name for path in segments.complete] == ["a.jsonl", "b.jsonl.gz"]
    assert set(segments.unread) == {
        *(f"{day}/c.jsonl.bz2", "d.jsonl", f"old/{day}/e.jsonl", f"{day}/f.jsonl.open.gz"),
        *(f"{day}/hour=1/g.JSONL", f"{day}/h.gz"),
    }
    assert set(segments.unknown) == {f"{day}/notes.txt"}


def test_a_segment_beside_its_compressed_self_is_read_once(tmp_path: Path, scratch: Path) -> None:
    day = "date=2026-11-30"
    lay(tmp_path, *(f"{day}/a.jsonl{suffix}" for suffix in ("", ".gz", ".zst", ".gz.tmp")))
    lay(tmp_path, f"{day}/b.jsonl.gz", f"{day}/b.jsonl.zst")
    segments = find_segments(tmp_path, scratch)
    assert [path.name for path in segments.complete] == ["a.jsonl", "b.jsonl.gz"]
    assert len(segments.unknown) == 4
    assert segments.unread == ()


def test_a_day_may_be_elsewhere_and_links_may_go_round(tmp_path: Path, scratch: Path) -> None:
    elsewhere, log = tmp_path / "elsewhere", tmp_path / "log"
    lay(elsewhere, "a.jsonl")
    log.mkdir()
    (log / "date=2026-11-30").symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(log)
    (path,) = find_segments(log, scratch).paths
    assert path.read_text() == "?"


@pytest.mark.parametrize("damage", ["short", "no zst", "empty"])
def test_a_zst_that_is_damaged_is_an_error_that_names_it(
    tmp_path: Path, scratch: Path, damage: str
) -> None:
    run = Run()
    run.write(7, f"{P}:1")
    (path,) = save(tmp_path, run)
    whole = path.read_bytes()
    packed = path.with_name("gate-0-b2.jsonl.zst")
    path.unlink()
    packed.write_bytes(zstandard.compress(whole) + zstandard.compress(whole))
    (plain,) = find_segments(tmp_path, scratch).paths
    assert plain.read_bytes() == whole + whole
    packed.write_bytes(
        {"short": zstandard.compress(whole)[:-20], "no zst": whole, "empty": b""}[damage]
    )
    again = tmp_path / "again"
    again.mkdir()
    with pytest.raises(OSError, match="gate-0-b2"):
        find_segments(tmp_path, again, again)

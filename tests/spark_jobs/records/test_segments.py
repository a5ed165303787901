"""Which files of a log are read, and that no other is passed over in silence."""

import errno
import gzip
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
import zstandard

from spark_jobs.records import segments
from spark_jobs.records.segments import (
    DamagedError,
    content,
    list_segments,
    make_readable,
    readable,
)
from tests.spark_jobs.found_segments import find_segments
from tests.spark_jobs.routing_log import UUID, Run, save

P = UUID["primary"]


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def lay(log: Path, *names: str) -> None:
    for name in names:
        (log / name).parent.mkdir(parents=True, exist_ok=True)
        pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(Path(name).suffix, bytes)
        (log / name).write_bytes(pack(b"?"))


def test_a_live_segment_is_read_once(
    tmp_path: Path, scratch: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = Run()
    run.write(7, f"{P}:1")
    (live,) = save(tmp_path, run, suffix=".open")
    (tmp_path / "_audit" / "date=2026-11-30").mkdir(parents=True)
    (tmp_path / "date=2026-11-30" / "notes.txt").write_text("no segment")

    found = find_segments(tmp_path, scratch)
    assert (len(found.complete), len(found.live)) == (0, 1)
    assert found.live[0].is_relative_to(scratch)
    live.rename(live.with_suffix(""))
    assert found.live[0].read_text() == live.with_suffix("").read_text()

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
    path = readable(segment, scratch).path
    assert (path.name, path.read_text()) == ("a.jsonl", "?")
    # A segment has one name, whatever it is packed in.
    (packed,) = list_segments(tmp_path, tmp_path_factory.mktemp("scratch")).closed
    assert (packed.name, packed.path.suffix) == (segment.name, ".zst")


def test_an_old_segment_is_read_where_it_is(tmp_path: Path, scratch: Path) -> None:
    lay(tmp_path, "date=2026-11-30/a.jsonl")
    plain = tmp_path / "date=2026-11-30" / "a.jsonl"
    os.utime(plain, (0, 0))
    (segment,) = list_segments(tmp_path, scratch).closed
    assert readable(segment, scratch).path.samefile(plain)


def test_content_is_the_same_however_it_is_packed(tmp_path: Path) -> None:
    text = b"one\ntwo\n" * 300_000
    forms = {"a.jsonl": text, "b.jsonl.gz": gzip.compress(text)}
    for name, data in (forms | {"c.jsonl.zst": zstandard.compress(text)}).items():
        (tmp_path / name).write_bytes(data)
        assert b"".join(content(tmp_path / name)) == text


def test_what_seems_to_hold_records_and_is_not_read_is_told(tmp_path: Path, scratch: Path) -> None:
    lay(
        tmp_path,
        *("date=2026-11-30/a.jsonl", "date=2026-11-30/b.jsonl.gz", "date=2026-11-30/c.jsonl.bz2"),
        *("d.jsonl", "old/date=2026-11-30/e.jsonl", "date=2026-11-30/f.jsonl.open.gz"),
        *("date=2026-11-30/notes.txt", "date=2026-11-30/hour=1/g.JSONL", "date=2026-11-30/h.gz"),
        *("_audit/report.md", "out/x.jsonl"),
    )
    found = find_segments(tmp_path, scratch, tmp_path / "out")
    day = "date=2026-11-30"
    assert [path.name for path in found.complete] == ["a.jsonl", "b.jsonl.gz"]
    assert set(found.unread) == {
        *(f"{day}/c.jsonl.bz2", "d.jsonl", f"old/{day}/e.jsonl", f"{day}/f.jsonl.open.gz"),
        *(f"{day}/hour=1/g.JSONL", f"{day}/h.gz"),
    }
    assert set(found.unknown) == {f"{day}/notes.txt"}


def test_a_segment_beside_its_compressed_self_is_read_once(tmp_path: Path, scratch: Path) -> None:
    day = "date=2026-11-30"
    lay(tmp_path, *(f"{day}/a.jsonl{suffix}" for suffix in ("", ".gz", ".zst", ".gz.tmp")))
    lay(tmp_path, f"{day}/b.jsonl.gz", f"{day}/b.jsonl.zst")
    found = find_segments(tmp_path, scratch)
    assert [path.name for path in found.complete] == ["a.jsonl", "b.jsonl.gz"]
    assert len(found.unknown) == 4
    assert found.unread == ()


def test_a_day_may_be_elsewhere_and_links_may_go_round(tmp_path: Path, scratch: Path) -> None:
    elsewhere, log = tmp_path / "elsewhere", tmp_path / "log"
    lay(elsewhere, "a.jsonl")
    log.mkdir()
    (log / "date=2026-11-30").symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(log)
    (path,) = find_segments(log, scratch).paths
    assert path.read_text() == "?"


TEXT = "".join(f"{number * 7919 % 104_729}\n" for number in range(100_000)).encode()
"""Several blocks of any compression."""


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


def zstd(text: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(text)


GZ, ZST = gzip.compress(TEXT, mtime=0), zstd(TEXT)
DAMAGES = {
    "cut.gz": (GZ[: len(GZ) // 2], "cut short; its first [0-9,]+ bytes count"),
    "in its header.gz": (GZ[:9], "cut short; none of it counts"),
    "without its checksum.gz": (GZ[:-8], f"cut short; its first {len(TEXT):,} bytes count"),
    "empty.gz": (b"", "cut short; none of it counts"),
    "zeros.gz": (bytes(4096), "cut short; none of it counts"),
    "flipped.gz": (flipped(GZ, len(GZ) // 2), "damaged, .*; none of it counts"),
    "wrong checksum.gz": (flipped(GZ, len(GZ) - 6), "damaged, .* incorrect data check; none .*"),
    "second member.gz": (
        GZ + flipped(GZ, len(GZ) // 2),
        f"damaged, .*; its first {len(TEXT):,} bytes count",
    ),
    "rubbish behind.gz": (GZ + b"rubbish", f"damaged, .*; its first {len(TEXT):,} bytes count"),
    "no gzip.gz": (TEXT, "damaged, .*; none of it counts"),
    "cut.zst": (ZST[: len(ZST) // 2], "cut short; its first [0-9,]+ bytes count"),
    "empty.zst": (b"", "cut short; none of it counts"),
    "flipped.zst": (flipped(ZST, len(ZST) // 2), "damaged, .*; none of it counts"),
    "wrong checksum.zst": (flipped(ZST, len(ZST) - 1), "damaged, .*; none of it counts"),
    "second frame.zst": (ZST + ZST[:100], f"cut short; its first {len(TEXT):,} bytes count"),
    "no zst.zst": (TEXT, "damaged, .*; none of it counts"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("is_noted", [False, True])
def test_a_damaged_segment_has_what_is_certain(
    tmp_path: Path, scratch: Path, damage: str, is_noted: bool
) -> None:
    data, why = DAMAGES[damage]
    path = tmp_path / "log" / "date=2026-11-30" / f"a.jsonl{damage[damage.index('.') :]}"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    (segment,) = list_segments(tmp_path / "log", scratch).closed
    noted: list[bytes] = []
    made = readable(segment, scratch, noted.append if is_noted else None)
    assert made.damage is not None
    assert re.fullmatch(why, made.damage)
    assert segment.file == f"date=2026-11-30/{path.name}"
    part, count = made.path.read_bytes(), re.search("([0-9,]+) bytes", made.damage)
    assert part == TEXT[: int(count[1].replace(",", "")) if count else 0]
    assert len(part) > 10_000 or not count
    assert made.path.suffix == ".jsonl"


def test_whole_segments_are_told_from_damaged_ones(tmp_path: Path, scratch: Path) -> None:
    day = "date=2026-11-30"
    lay(tmp_path, *(f"{day}/{name}.jsonl" for name in "abc"))
    for name, data in {"d.jsonl.gz": GZ + GZ + bytes(9), "e.jsonl.gz": GZ[:-1]}.items():
        (tmp_path / day / name).write_bytes(data)
    (tmp_path / day / "f.jsonl.zst").write_bytes(ZST + ZST)
    found = find_segments(tmp_path, scratch)
    assert [path.name for path in found.complete] == [
        *("a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl.gz", "f.jsonl")
    ]
    assert [*found.damaged] == [f"{day}/e.jsonl.gz"]
    assert [path.read_bytes() for path in found.parts] == [TEXT]


def test_what_is_no_file_or_gone_is_told(tmp_path: Path, scratch: Path) -> None:
    day = "date=2026-11-30"
    lay(tmp_path, f"{day}/a.jsonl", f"{day}/b.jsonl")
    os.mkfifo(tmp_path / day / "pipe.jsonl")
    (tmp_path / day / "dangling.jsonl.gz").symlink_to("nothing")
    os.utime(tmp_path / day / "b.jsonl", (0, 0))
    listing = list_segments(tmp_path, scratch)
    assert listing.damaged == {
        f"{day}/dangling.jsonl.gz": "deleted meanwhile; none of it counts",
        f"{day}/pipe.jsonl": "not a regular file; none of it counts",
    }
    (tmp_path / day / "b.jsonl").unlink()
    found = make_readable(listing, scratch)
    assert found.damaged == {
        **listing.damaged,
        f"{day}/b.jsonl": "No such file or directory; none of it counts",
    }
    assert [path.name for path in found.complete] == ["a.jsonl"]


def test_a_folder_that_cannot_be_listed_is_told(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path, "date=2026-11-29/a.jsonl", "date=2026-11-30/b.jsonl")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name in refused:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    refused = ["date=2026-11-29"]
    monkeypatch.setattr(os, "scandir", refuse)
    listing = list_segments(tmp_path, scratch)
    assert listing.damaged == {"date=2026-11-29/": "Permission denied"}
    assert [segment.path.name for segment in listing.closed] == ["b.jsonl"]
    refused.append(tmp_path.name)
    (scratch / "again").mkdir()
    with pytest.raises(PermissionError, match=tmp_path.name):
        list_segments(tmp_path, scratch / "again")


def test_a_file_that_cannot_be_read_to_its_end_has_what_came_before(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path, "date=2026-11-30/a.jsonl", "date=2026-11-30/b.jsonl.open")

    def fail(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
        yield file.read(), True
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(segments, "_plain", fail)
    listing = list_segments(tmp_path, scratch)
    why = "Input/output error; its first 1 byte count"
    assert listing.damaged == {"date=2026-11-30/b.jsonl.open": why}
    (segment,) = listing.closed
    made = readable(segment, scratch, len)
    assert (made.damage, made.path.read_text()) == (why, "?")
    assert [path.read_text() for path in listing.live] == ["?"]


@pytest.mark.parametrize("suffix", ["", ".open", ".zst", ".gz"])
def test_a_full_scratch_directory_is_no_damage(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path = tmp_path / "date=2026-11-30" / f"a.jsonl{suffix}"
    path.parent.mkdir()
    path.write_bytes(ZST if suffix == ".zst" else GZ[:-1])

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(segments, "_write", fail)
    with pytest.raises(OSError, match="No space left") as told:
        find_segments(tmp_path, scratch)
    assert not isinstance(told.value, DamagedError)


def test_without_its_library_a_zst_is_not_read(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "date=2026-11-30").mkdir()
    (tmp_path / "date=2026-11-30" / "a.jsonl.zst").write_bytes(ZST)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (why,) = find_segments(tmp_path, scratch).damaged.values()
    assert "no package zstandard is installed" in why


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_segment_that_is_compressed_while_the_log_is_listed_is_found(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    lay(tmp_path, "date=2026-11-30/a.jsonl")
    status = segments._status

    def compressed(path: Path) -> os.stat_result:
        if path.suffix == ".jsonl":
            path.rename(f"{path}{suffix}")
        return status(path)

    monkeypatch.setattr(segments, "_status", compressed)
    (segment,) = list_segments(tmp_path, scratch).closed
    assert segment.file == f"date=2026-11-30/a.jsonl{suffix}"
    assert segment.place == f"{tmp_path}/{segment.file}"


def test_the_size_of_a_log_is_that_of_its_days_unpacked(tmp_path: Path, scratch: Path) -> None:
    text = b"{}\n" * 1000
    for date in ("2026-11-28", "2026-11-29", "2026-11-30"):
        folder = tmp_path / f"date={date}"
        folder.mkdir()
        (folder / "gate-0-0.jsonl").write_bytes(text)
    (tmp_path / "date=2026-11-30" / "gate-1-0.jsonl.open").write_bytes(text)
    listing = list_segments(tmp_path, scratch)
    assert listing.plain_size() == 4 * len(text)
    assert listing.plain_size(("2026-11-29", "2026-11-30")) == 3 * len(text)
    packed = gzip.compress(text)
    (tmp_path / "date=2026-11-29" / "gate-2-0.jsonl.gz").write_bytes(packed)
    (scratch / "again").mkdir()
    again = list_segments(tmp_path, scratch / "again")
    assert again.plain_size(("2026-11-29",)) > len(text) + 2 * len(packed)

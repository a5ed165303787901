import errno
import gzip
import io
import logging
import os
import stat
import time
from pathlib import Path

import pytest
import zstandard

from proxy.config.log_keep import LogKeep
from proxy.config.words import LogCompression
from proxy.observe import log_upkeep
from proxy.observe.log_upkeep import LogUpkeep
from proxy.observe.metrics import Metrics

NOON = 1_700_000_000.0  # 2023-11-14
DAY = 86_400.0
LINES = b'{"v":1,"kind":"statement"}\n' * 1000


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def upkeep(
    log: Path,
    metrics: Metrics,
    *,
    compression: LogCompression = "off",
    keep: LogKeep | None = None,
) -> LogUpkeep:
    return LogUpkeep(
        log,
        "edge",
        metrics,
        compression=compression,
        keep=keep or LogKeep(),
        clock=lambda: NOON,
    )


def put(log: Path, name: str, age: float = 0, data: bytes = LINES) -> Path:
    path = log / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (NOON - age, NOON - age))
    return path


def files(log: Path) -> set[str]:
    return {str(path.relative_to(log)) for path in log.glob("*/*")}


def unpacked(path: Path) -> bytes:
    if ".gz" in path.suffixes:
        return gzip.decompress(path.read_bytes())
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(path.read_bytes())).read()


def count(metrics: Metrics, name: str, *labels: str) -> float:
    series = metrics.snapshot()["values"][f"tidegate_routing_log_{name}"]
    return {tuple(names): value for names, value in series}.get(labels, 0)


@pytest.mark.parametrize(("compression", "suffix"), [("gzip", ".gz"), ("zstd", ".zst")])
def test_closed_segments_are_packed_and_no_others(
    tmp_path: Path, metrics: Metrics, compression: LogCompression, suffix: str
) -> None:
    plain = put(tmp_path, "date=2023-11-14/edge-3-0a-1.jsonl", age=70)
    plain.chmod(0o640)
    others = {
        "date=2023-11-14/edge-0-0a-2.jsonl.open",
        "date=2023-11-14/edge-1-0-0a-1.jsonl",  # proxy "edge-1"
        "date=2023-11-14/west-0-0a-1.jsonl",
        "date=2023-11-14/edge-0-0a-1.jsonl.bz2",
        "_audit/edge-0-0a-1.jsonl",
    }
    for name in others:
        put(tmp_path, name)
    upkeep(tmp_path, metrics, compression=compression).look()
    packed = plain.with_name(plain.name + suffix)
    assert files(tmp_path) == {*others, str(packed.relative_to(tmp_path))}
    assert unpacked(packed) == LINES
    if compression == "zstd":
        assert zstandard.get_frame_parameters(packed.read_bytes()).has_checksum
    assert packed.stat().st_mtime == NOON - 70
    assert stat.S_IMODE(packed.stat().st_mode) == 0o640
    assert count(metrics, "compressed_segments_total") == 1
    assert count(metrics, "compressed_bytes_total") == packed.stat().st_size
    assert count(metrics, "closed_bytes") == packed.stat().st_size


def test_without_packing_they_stay(tmp_path: Path, metrics: Metrics) -> None:
    put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl", age=10_000 * DAY)
    upkeep(tmp_path, metrics).look()
    assert files(tmp_path) == {"date=2023-11-14/edge-0-0a-1.jsonl"}
    assert count(metrics, "closed_bytes") == len(LINES)


def test_the_plain_one_goes_when_the_other_is_on_the_disk(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl")
    steps = []
    sync, rename, unlink = os.fsync, Path.rename, Path.unlink

    def fsync(fd: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"
        steps.append(f"sync {kind}")
        sync(fd)

    def renamed(path: Path, to: Path) -> Path:
        assert unpacked(path) == LINES
        steps.append("rename")
        return rename(path, to)

    def unlinked(path: Path, missing_ok: bool = False) -> None:
        if path == plain:
            steps.append("remove")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(Path, "unlink", unlinked)
    upkeep(tmp_path, metrics, compression="gzip").look()
    assert steps == ["sync file", "rename", "sync folder", "remove"]


def test_a_segment_that_stands_there_twice_is_packed_anew(tmp_path: Path, metrics: Metrics) -> None:
    put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl")
    other = put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl.gz", data=b"half of anoth")
    upkeep(tmp_path, metrics, compression="gzip").look()
    assert files(tmp_path) == {"date=2023-11-14/edge-0-0a-1.jsonl.gz"}
    assert unpacked(other) == LINES


def test_what_a_crash_left_unfinished_is_removed_in_time(tmp_path: Path, metrics: Metrics) -> None:
    put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl.0b.zst.open", age=3601)
    put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl.0b.gz.open", age=3601)
    young = put(tmp_path, "date=2023-11-14/edge-0-0a-2.jsonl.0b.gz.open", age=3599)
    upkeep(tmp_path, metrics).look()
    assert files(tmp_path) == {str(young.relative_to(tmp_path))}


@pytest.mark.parametrize("fails", ["write", "fsync", "rename"])
def test_a_failed_packing_loses_nothing(
    tmp_path: Path,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fails: str,
) -> None:
    names = {f"date=2023-11-14/edge-0-0a-{number}.jsonl" for number in (1, 2)}
    for name in names:
        put(tmp_path, name)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    look = upkeep(tmp_path, metrics, compression="gzip").look
    with monkeypatch.context() as broken:
        match fails:
            case "write":
                broken.setattr(log_upkeep.zlib, "compressobj", fail)
            case "fsync":
                broken.setattr(os, "fsync", fail)
            case _:
                broken.setattr(Path, "rename", fail)
        look()
        look()
    assert files(tmp_path) == names
    assert count(metrics, "upkeep_errors_total", "compress") == 2  # the other needs room, too
    assert count(metrics, "closed_bytes") == 2 * len(LINES)
    messages = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(messages) == 1
    assert "No space left" in messages[0].getMessage()
    look()
    assert files(tmp_path) == {f"{name}.gz" for name in names}


def test_one_that_cannot_be_read_does_not_hold_up_the_others(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl", age=9)
    put(tmp_path, "date=2023-11-14/edge-0-0a-2.jsonl")
    pack = LogUpkeep._write_packed

    def write(self: LogUpkeep, plain: Path, to: Path, compression: LogCompression) -> bool:
        if plain == bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pack(self, plain, to, compression)

    monkeypatch.setattr(LogUpkeep, "_write_packed", write)
    upkeep(tmp_path, metrics, compression="gzip").look()
    assert files(tmp_path) == {
        "date=2023-11-14/edge-0-0a-1.jsonl",
        "date=2023-11-14/edge-0-0a-2.jsonl.gz",
    }


def test_a_segment_that_another_value_packed_stays_as_it_is(
    tmp_path: Path, metrics: Metrics
) -> None:
    names = {f"date=2023-11-14/edge-0-0a-1.jsonl{suffix}" for suffix in (".gz", ".zst")}
    for name in names:
        put(tmp_path, name)
    upkeep(tmp_path, metrics, compression="gzip").look()
    upkeep(tmp_path, metrics, compression="zstd").look()
    assert files(tmp_path) == names
    assert count(metrics, "closed_bytes") == 2 * len(LINES)


@pytest.mark.parametrize(
    ("before", "after", "suffix"), [("zstd", "gzip", ".gz"), ("gzip", "zstd", ".zst")]
)
def test_what_a_crash_left_in_two_forms_is_packed_once(
    tmp_path: Path, metrics: Metrics, before: LogCompression, after: LogCompression, suffix: str
) -> None:
    plain = put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl")
    upkeep(tmp_path, metrics, compression=before).look()
    put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl")
    upkeep(tmp_path, metrics, compression=after).look()
    (packed,) = plain.parent.iterdir()
    assert packed.name == f"{plain.name}{suffix}"
    assert unpacked(packed) == LINES
    assert count(metrics, "closed_bytes") == packed.stat().st_size


def test_a_segment_that_grows_while_it_is_packed_stays_plain(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl")
    fstat = os.fstat

    def grown(fd: int) -> os.stat_result:
        status = fstat(fd)
        with plain.open("ab") as file:
            file.write(b"{}\n")
        return status

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", grown)
        upkeep(tmp_path, metrics, compression="gzip").look()
    assert files(tmp_path) == {str(plain.relative_to(tmp_path))}
    assert count(metrics, "upkeep_errors_total", "compress") == 1


def test_old_segments_are_deleted(tmp_path: Path, metrics: Metrics) -> None:
    put(tmp_path, "date=2023-11-01/edge-0-0a-1.jsonl.zst", age=2 * DAY)
    put(tmp_path, "date=2023-11-01/edge-0-0a-6.jsonl.gz", age=2 * DAY)
    put(tmp_path, "date=2023-11-12/edge-0-0a-2.jsonl", age=2 * DAY)
    kept = {
        put(tmp_path, "date=2023-11-12/edge-0-0a-3.jsonl", age=2 * DAY - 1),
        put(tmp_path, "date=2023-11-12/edge-0-0a-4.jsonl.open", age=9 * DAY),
        put(tmp_path, "date=2023-11-12/west-0-0a-1.jsonl", age=9 * DAY),
        put(tmp_path, "date=2023-11-12/notes.jsonl", age=9 * DAY),
    }
    upkeep(tmp_path, metrics, keep=LogKeep(age=2 * DAY)).look()
    assert files(tmp_path) == {str(path.relative_to(tmp_path)) for path in kept}
    assert not (tmp_path / "date=2023-11-01").exists()
    assert count(metrics, "deleted_segments_total") == 3
    assert count(metrics, "closed_bytes") == len(LINES)


def test_the_oldest_go_where_all_are_too_large(tmp_path: Path, metrics: Metrics) -> None:
    mebibyte = bytes(1 << 20)
    for number in range(1, 5):
        put(tmp_path, f"date=2023-11-14/edge-0-0a-{number}.jsonl", age=-number, data=mebibyte)
    put(tmp_path, "date=2023-11-14/edge-0-0a-5.jsonl.open", age=9, data=mebibyte)
    put(tmp_path, "date=2023-11-14/west-0-0a-1.jsonl", age=9, data=mebibyte)
    upkeep(tmp_path, metrics, keep=LogKeep(size=2 << 20)).look()
    assert files(tmp_path) == {
        "date=2023-11-14/edge-0-0a-3.jsonl",
        "date=2023-11-14/edge-0-0a-4.jsonl",
        "date=2023-11-14/edge-0-0a-5.jsonl.open",
        "date=2023-11-14/west-0-0a-1.jsonl",
    }
    assert count(metrics, "deleted_segments_total") == 2
    assert count(metrics, "closed_bytes") == 2 << 20


def test_a_deletion_that_is_refused_is_counted(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl", age=DAY)

    def fail(*_: object, missing_ok: bool) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "unlink", fail)
    upkeep(tmp_path, metrics, keep=LogKeep(age=DAY)).look()
    assert count(metrics, "upkeep_errors_total", "delete") == 1
    assert count(metrics, "deleted_segments_total") == 0
    assert count(metrics, "closed_bytes") == len(LINES)


def test_a_stop_leaves_a_whole_segment(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = put(tmp_path, "date=2023-11-14/edge-0-0a-1.jsonl", data=LINES * 100)
    monkeypatch.setattr(log_upkeep, "_CHUNK_BYTES", 1000)
    monkeypatch.setattr(log_upkeep, "_REST", 1e9)  # it rests before the second chunk
    keeper = upkeep(tmp_path, metrics, compression="gzip")
    keeper.start()
    deadline = time.monotonic() + 60
    while len(files(tmp_path)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    keeper.stop()
    assert files(tmp_path) == {str(plain.relative_to(tmp_path))}
    assert plain.read_bytes() == LINES * 100
    assert count(metrics, "upkeep_errors_total", "compress") == 0

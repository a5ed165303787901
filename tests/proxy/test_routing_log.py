import errno
import fcntl
import json
import logging
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from proxy.observe import routing_log
from proxy.observe.metrics import Metrics
from proxy.observe.routing_log import LogLimits, RoutingLog
from routing.record import Route, server_fragment, session_fragment, statement_fragment
from tests.support.statement_records import RULES, add_statement

SESSION = session_fragment(7, "app", "shop", "ab/7", RULES)
STATEMENT = statement_fragment("COM_QUERY", "read", "0123456789abcdef", False)
SERVER = server_fragment("db2:3306", "uuid", "replica", 1)
NOON = 1_700_000_000.0  # 2023-11-14


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


ROUTE = Route(SERVER, "read", "known", "ok")


def add(log: RoutingLog, count: int = 1) -> None:
    for ordinal in range(1, count + 1):
        add_statement(
            log.records, SESSION, STATEMENT, ROUTE, proof_set="", bytes=9, ordinal=ordinal
        )


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.glob("*/*"))


def read(directory: Path) -> list[dict[str, Any]]:
    records = []
    for path in directory.glob("*/*"):
        text = path.read_text()
        assert text.endswith("\n") or not text
        records += [json.loads(line) for line in text.splitlines()]
    return sorted(records, key=lambda record: record["seq"])


def count(metrics: Metrics, name: str) -> float:
    return metrics.snapshot()["values"][f"tidegate_routing_log_{name}_total"][0][1]


def test_records_reach_a_file_that_is_completed_at_the_stop(
    tmp_path: Path, metrics: Metrics
) -> None:
    directory = tmp_path / "new" / "log"
    log = RoutingLog(directory, "edge", 2, metrics, clock=Clock())
    log.start()
    add(log, 1000)
    log.records.proof(SERVER, "probed", "", 1, 2)
    log.stop()
    assert files(directory) == [f"date=2023-11-14/edge-2-{log.run}-1.jsonl"]
    records = read(directory)
    assert [record["seq"] for record in records] == list(range(1, 1002))
    assert {record["run"] for record in records} == {log.run}
    assert {(record["proxy"], record["worker"]) for record in records} == {("edge", 2)}
    assert records[-1]["kind"] == "proof"
    assert count(metrics, "records") == 1001
    assert count(metrics, "dropped") == 0
    (path,) = directory.glob("*/*")
    assert stat.S_IMODE(path.stat().st_mode) & ~0o640 == 0
    assert stat.S_IMODE(directory.stat().st_mode) & 0o007 == 0


def test_the_thread_writes_while_the_log_runs(tmp_path: Path, metrics: Metrics) -> None:
    log = RoutingLog(tmp_path, "edge", 0, metrics)
    log.start()
    add(log, 3)
    deadline = time.monotonic() + 60
    while count(metrics, "records") < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (name,) = files(tmp_path)
    assert name.endswith("-1.jsonl.open")
    assert len(read(tmp_path)) == 3
    log.stop()
    assert files(tmp_path) == [name.removesuffix(".open")]


def test_without_records_there_is_no_file(tmp_path: Path, metrics: Metrics) -> None:
    log = RoutingLog(tmp_path, "edge", 0, metrics)
    log.start()
    log.stop()
    assert files(tmp_path) == []


def test_a_file_ends_by_size_age_and_date(tmp_path: Path, metrics: Metrics) -> None:
    clock = Clock()
    log = RoutingLog(
        tmp_path, "edge", 0, metrics, clock=clock, limits=LogLimits(max_segment_bytes=2000)
    )
    add(log, 2)
    log.flush()
    assert files(tmp_path)[-1].endswith("-1.jsonl.open")
    add(log, 2)
    log.flush()
    log.flush()  # 2000 bytes stand in it
    assert files(tmp_path)[-1].endswith("-1.jsonl")
    add(log)
    log.flush()
    clock.now += 299
    log.flush()
    assert files(tmp_path)[-1].endswith("-2.jsonl.open")
    clock.now += 1
    log.flush()
    assert files(tmp_path)[-1].endswith("-2.jsonl")
    add(log)
    log.flush()
    midnight = (NOON // 86400 + 1) * 86400
    clock.now = midnight - 1
    log.flush()
    add(log)
    log.flush()
    clock.now = midnight
    add(log)
    log.flush()
    run = log.run
    assert files(tmp_path) == [
        f"date=2023-11-14/edge-0-{run}-1.jsonl",
        f"date=2023-11-14/edge-0-{run}-2.jsonl",
        f"date=2023-11-14/edge-0-{run}-3.jsonl",
        f"date=2023-11-14/edge-0-{run}-4.jsonl",
        f"date=2023-11-15/edge-0-{run}-5.jsonl.open",
    ]
    assert [record["seq"] for record in read(tmp_path)] == list(range(1, 9))


def test_what_exceeds_the_bound_is_dropped_counted_and_told(
    tmp_path: Path, metrics: Metrics
) -> None:
    log = RoutingLog(tmp_path, "edge", 0, metrics, limits=LogLimits(max_pending_bytes=5000))
    add(log, 100)
    log.flush()
    kept = count(metrics, "records")
    assert 0 < kept < 100
    assert count(metrics, "dropped") == 100 - kept
    add(log)
    log.flush()
    gap, last = read(tmp_path)[-2:]
    assert (gap["kind"], gap["dropped"], gap["seq"]) == ("gap", 100 - kept, 101)
    assert last["seq"] == 102
    assert count(metrics, "dropped") == 100 - kept


@pytest.mark.parametrize(("interval", "synced"), [(1.0, [2, 5, 6]), (0.0, [])])
def test_it_is_brought_to_the_disk_at_intervals(
    tmp_path: Path,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
    interval: float,
    synced: list[int],
) -> None:
    clock = Clock()
    log = RoutingLog(
        tmp_path, "edge", 0, metrics, clock=clock, limits=LogLimits(sync_interval=interval)
    )
    lines = []

    def fsync(fd: int) -> None:
        lines.append(len(read(tmp_path)))

    monkeypatch.setattr(os, "fsync", fsync)
    for step in (0.0, 1.0, 0.2, 0.2, 0.6, -9.0, 0.9):
        clock.now += step
        add(log)
        log.flush()
    assert lines == synced
    assert count(metrics, "bytes") == sum(path.stat().st_size for path in tmp_path.glob("*/*"))


def test_a_disk_that_does_not_sync_is_counted_and_stops_nothing(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    log = RoutingLog(tmp_path, "edge", 0, metrics, clock=clock)

    def fsync(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    add(log)
    log.flush()
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fsync)
        clock.now += 1
        log.flush()
    assert count(metrics, "errors") == 1
    add(log)
    log.flush()
    assert [record["seq"] for record in read(tmp_path)] == [1, 2]


class Disk:
    """Stands for os.write: takes so many bytes, then fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, fd: int, data: memoryview) -> int:
        if self.room is None:
            return self._write(fd, data)
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(fd, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 700, 5000])
def test_a_full_disk_tears_no_line_and_loses_nothing_within_the_bound(
    tmp_path: Path,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    room: int,
) -> None:
    disk = Disk(monkeypatch)
    log = RoutingLog(tmp_path, "edge", 0, metrics)
    add(log, 3)
    log.flush()
    disk.room = room
    add(log, 300)
    for _ in range(5):
        log.flush()
    assert count(metrics, "errors") == 5
    messages = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(messages) == 1
    assert "No space left" in messages[0].getMessage()
    caplog.clear()
    caplog.set_level(logging.INFO)
    disk.room = None
    add(log, 2)
    for _ in range(2):
        log.flush()
    assert [record["seq"] for record in read(tmp_path)] == list(range(1, 306))
    assert count(metrics, "records") == 305
    assert caplog.messages == ["routing log: records are written again; those that waited are, too"]
    assert count(metrics, "dropped") == 0
    assert len(files(tmp_path)) == 1


def test_a_disk_that_stays_full_costs_what_exceeds_the_bound(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    log = RoutingLog(tmp_path, "edge", 0, metrics, limits=LogLimits(max_pending_bytes=5000))
    disk.room = 0
    for _ in range(20):
        add(log, 20)
        log.flush()
    disk.room = None
    add(log)
    log.flush()
    add(log)
    log.flush()
    records = read(tmp_path)
    expected = 0
    for record in records:
        expected += record["dropped"] + 1
        assert record["seq"] == expected
    dropped = sum(record["dropped"] for record in records)
    assert dropped == count(metrics, "dropped") > 300
    assert count(metrics, "records") == len(records)


def test_what_a_full_disk_never_took_is_counted_at_the_stop(
    tmp_path: Path,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk(monkeypatch)
    disk.room = 10
    log = RoutingLog(tmp_path, "edge", 0, metrics)
    log.start()
    add(log, 300)
    log.stop()
    assert count(metrics, "records") == 0
    assert count(metrics, "dropped") == 300
    assert "300 records could not be written" in caplog.text


@pytest.mark.parametrize("room", [1, 5000])
def test_what_a_failing_disk_took_in_part_is_counted(
    tmp_path: Path, metrics: Metrics, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    disk = Disk(monkeypatch)
    disk.room = room
    log = RoutingLog(tmp_path, "edge", 0, metrics)
    log.start()
    add(log, 300)
    log.stop()
    (path,) = tmp_path.glob("*/*")
    lines = path.read_bytes().count(b"\n")
    assert lines < 300
    assert (lines > 0) is (room > 1000)  # no record is as long
    assert count(metrics, "records") == lines
    assert count(metrics, "dropped") == 300 - lines


def hanging_disk(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Let writing hang; the events that it does, and that it may go on."""
    hangs, goes_on = threading.Event(), threading.Event()
    write = os.write

    def slow(fd: int, data: memoryview) -> int:
        hangs.set()
        goes_on.wait(20)
        return write(fd, data)

    monkeypatch.setattr(os, "write", slow)
    return hangs, goes_on


def test_what_a_hanging_disk_costs_is_counted_meanwhile(
    tmp_path: Path,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hangs, goes_on = hanging_disk(monkeypatch)
    log = RoutingLog(tmp_path, "edge", 0, metrics, limits=LogLimits(max_pending_bytes=5000))
    log.start()
    try:
        add(log)
        assert hangs.wait(20)
        add(log, 100)
        assert count(metrics, "dropped") == log.records.dropped > 50
        messages = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
        assert len(messages) == 1
        assert "records are dropped" in messages[0]
    finally:
        goes_on.set()
        log.stop()
    assert count(metrics, "dropped") == log.records.dropped


def test_what_a_disk_that_hangs_to_the_end_never_took_is_counted(
    tmp_path: Path,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hangs, goes_on = hanging_disk(monkeypatch)
    monkeypatch.setattr(routing_log, "_STOP_TIMEOUT_S", 0.01)
    log = RoutingLog(tmp_path, "edge", 0, metrics)
    log.start()
    try:
        add(log)
        assert hangs.wait(20)
        add(log, 100)
        log.stop()
        assert count(metrics, "dropped") == 101
        assert "the last 101 records" in caplog.text
    finally:
        goes_on.set()
        log._thread.join(20)
    assert count(metrics, "dropped") == 101


def test_a_directory_that_vanishes_does_not_stop_the_log(tmp_path: Path, metrics: Metrics) -> None:
    directory = tmp_path / "log"
    clock = Clock()
    log = RoutingLog(directory, "edge", 0, metrics, clock=clock)
    directory.mkdir()
    add(log)
    log.flush()
    directory.rename(tmp_path / "away")
    clock.now += 1000
    add(log)
    log.flush()
    assert count(metrics, "errors") == 2  # one file is not completed, the next not opened
    directory.mkdir()
    log.flush()
    assert [record["seq"] for record in read(directory)] == [2]


def test_a_file_that_another_program_removes_is_told_and_stops_nothing(
    tmp_path: Path, metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    log = RoutingLog(tmp_path, "edge", 0, metrics, clock=clock)
    for _ in range(2):
        add(log)
        log.flush()
        removed = tmp_path / files(tmp_path)[0]
        removed.unlink()
        clock.now += 1000
        add(log)
        log.flush()
        assert f"{removed} was removed or renamed by another program" in caplog.text
    assert count(metrics, "errors") == 2
    assert [record["seq"] for record in read(tmp_path)] == [4]


def test_a_start_that_cannot_succeed_says_so(tmp_path: Path, metrics: Metrics) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        RoutingLog(tmp_path / "file", "edge", 0, metrics).start()


def test_a_start_completes_what_dead_runs_left(tmp_path: Path, metrics: Metrics) -> None:
    folder = tmp_path / "date=2023-11-14"
    folder.mkdir()
    dead = folder / "edge-1-0a-3.jsonl.open"
    dead.write_text('{"v":1}\n{"v":1,"ki')
    foreign = folder / "edge-east-0-0a-3.jsonl.open"
    foreign.write_text("")
    complete = folder / "edge-0-0a-2.jsonl"
    complete.write_text("")
    living = RoutingLog(tmp_path, "edge", 0, Metrics(), clock=Clock())
    add(living)
    living.flush()

    log = RoutingLog(tmp_path, "edge", 0, metrics)
    log.start()
    log.stop()
    assert files(tmp_path) == sorted(
        f"date=2023-11-14/{name}"
        for name in (
            "edge-1-0a-3.jsonl",
            foreign.name,
            complete.name,
            f"edge-0-{living.run}-1.jsonl.open",
        )
    )
    assert dead.with_suffix("").read_text() == '{"v":1}\n{"v":1,"ki'


def test_an_open_file_is_locked_and_a_complete_one_is_not(tmp_path: Path, metrics: Metrics) -> None:
    clock = Clock()
    log = RoutingLog(tmp_path, "edge", 0, metrics, clock=clock)
    add(log)
    log.flush()
    (name,) = files(tmp_path)
    with (tmp_path / name).open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    clock.now += 1000
    log.flush()
    with (tmp_path / name.removesuffix(".open")).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_adding_and_writing_at_the_same_time(tmp_path: Path, metrics: Metrics) -> None:
    log = RoutingLog(tmp_path, "edge", 0, metrics, limits=LogLimits(max_segment_bytes=1 << 20))
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            log.flush()

    thread = threading.Thread(target=write)
    thread.start()
    add(log, 20_000)
    done.set()
    thread.join()
    log.flush()
    assert [record["seq"] for record in read(tmp_path)] == list(range(1, 20_001))
    assert len(files(tmp_path)) > 5

"""`tidegate binlog` on files of a real server, whole and damaged."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.binlog.event import EventType, encode_event
from protocol.binlog.format_description import FormatDescription
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.log_reader import MAGIC
from protocol.gtid import Gtid
from proxy import cli
from proxy.binlog import command, rendering
from proxy.config import ConfigError
from tests.support import binlogs

TOLD = 1_600_000_000_123_456
ROOT = Path(__file__).parents[2]


def path(name: str) -> Path:
    return binlogs.DIRECTORY / f"{name}.binlog"


@pytest.fixture
def in_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_kolkata")
def test_times_are_shown_in_the_systems_time_zone() -> None:
    assert rendering.moment(TOLD) == "2020-09-13 17:56:40.123456 IST"


def test_text_has_both_timestamps_of_each_transaction(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["binlog", str(path("transactions"))]) == 0
    output = capsys.readouterr()
    transactions = binlogs.gtid_events("transactions")
    lines = output.out.splitlines()
    assert len([line for line in lines if "GTID_NEXT" in line]) == len(transactions)
    for event in transactions:
        assert event.timestamps is not None
        statement = f"session.original_commit_timestamp={event.timestamps.original}*/"
        assert statement in output.out
        assert f"# immediate_commit_timestamp={event.timestamps.immediate} (" in output.out
    assert "# commit_lag=unknown" in lines
    assert "skipped events: 1 of type 38" in output.err


def test_json_has_one_object_per_transaction(tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    arguments = ["binlog", "--format", "json", "--output", str(output)]
    assert cli.main([*arguments, str(path("anonymous")), str(path("compressed"))]) == 0
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["type"] for row in rows] == ["ANONYMOUS_GTID", "ANONYMOUS_GTID", "GTID"]
    original, immediate = (rows[1][f"{k}_commit_timestamp"] for k in ("original", "immediate"))
    assert (rows[0]["commit_lag_us"], original) == (0, TOLD)
    assert rows[1]["commit_lag_us"] == immediate - TOLD
    assert rows[0]["gtid"] is None


def test_damage_is_named_and_what_was_readable_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = binlogs.load("transactions")
    third = [event for event in binlogs.events(log) if event.type == 33][2]
    broken = tmp_path / "broken"
    broken.write_bytes(log[: third.position + 40])
    encrypted = tmp_path / "encrypted"
    encrypted.write_bytes(b"\xfdbin" + bytes(600))
    files = [str(broken), str(encrypted), str(tmp_path / "missing"), str(path("anonymous"))]
    assert cli.main(["binlog", *files]) == 1
    output = capsys.readouterr()
    assert output.out.count("GTID_NEXT") == 2 + 2
    assert f"{broken}: at {third.position}: the file ends" in output.err
    assert f"{encrypted}: at 0: the file is encrypted" in output.err
    assert f"{tmp_path / 'missing'}: No such file" in output.err


def test_a_log_of_5_7_has_no_timestamps_and_strange_events_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies: list[tuple[int, bytes]] = [
        (EventType.FORMAT_DESCRIPTION, FormatDescription("5.7.44-log").serialise()),
        (EventType.GTID, GtidEvent(Gtid("11111111-2222-3333-4444-555555555555", 9)).serialise()),
        (99, b"of the future"),
        (99, b"of the future"),
    ]
    log = MAGIC
    for kind, body in bodies:
        log += encode_event(kind, body, timestamp=1, server_id=1, position=len(log))
    old = tmp_path / "old"
    old.write_bytes(log)
    assert cli.main(["binlog", "--format", "json", str(old)]) == 0
    output = capsys.readouterr()
    row = json.loads(output.out)
    assert row["gtid"] == "11111111-2222-3333-4444-555555555555:9"
    assert row["original_commit_timestamp"] is row["commit_lag_us"] is None
    assert f"{old}: skipped events: 2 of type 99" in output.err
    old.write_bytes(log[:-1] + b"!")
    assert cli.main(["binlog", str(old)]) == 1
    output = capsys.readouterr()
    assert "# immediate_commit_timestamp=0 (" in output.out
    assert "the checksum of an event of 36 bytes is wrong" in output.err


def test_parquet_needs_a_directory_and_what_writes_it(tmp_path: Path) -> None:
    def nothing_there(json_lines: Path, _: Path) -> None:
        assert json_lines.read_text().count("\n") == 2
        raise RuntimeError("Java is not installed")

    with pytest.raises(ConfigError, match="--output"):
        command.run([path("anonymous")], "parquet", None, nothing_there)
    with pytest.raises(ConfigError, match="Java"):
        command.run([path("anonymous")], "parquet", tmp_path / "out", nothing_there)


def test_an_output_that_cannot_be_written_is_a_wrong_use(tmp_path: Path) -> None:
    arguments = ["binlog", str(path("anonymous")), "--output", str(tmp_path / "no" / "such")]
    assert cli.main(arguments) == cli.USAGE_ERROR


def test_a_reader_that_has_enough_is_no_error() -> None:
    files = [str(path("transactions"))] * 50
    with subprocess.Popen(
        [sys.executable, "-m", "proxy.cli", "binlog", *files],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""

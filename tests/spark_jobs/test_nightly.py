"""The audit as an operator meets it: exit codes, what is printed, what is written."""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard

from spark_jobs import nightly, spark_session
from spark_jobs.options import Options
from spark_jobs.records.segments import Segment
from spark_jobs.report import page
from tests.spark_jobs.routing_log import UUID, Run, save

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = UUID["primary"]

spark_test = pytest.mark.spark
timeout = pytest.mark.timeout(600)


@pytest.fixture
def shared(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the audit use the tests' Spark, and leave it running."""
    monkeypatch.setattr(nightly, "start_spark", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


def clean(name: str = "a1") -> Run:
    run = Run(name)
    run.probe("r1", f"{P}:1-5")
    run.write(7, f"{P}:6")
    run.waited(7, "r1", f"{P}:6", required=f"{P}:6")
    run.known(7, "r1", f"{P}:1-6", required=f"{P}:6")
    return run


def applied(number: int) -> dict[str, object]:
    """A transaction that a replica has applied, as a probe tells of it."""
    return {
        "channel": "",
        "gtid": f"{P}:{number}",
        "original_us": 1_000,
        "immediate_us": 1_050,
        "began_us": 1_090,
        "ended_us": 1_100,
        "end_to_end_us": 100,
        "last_hop_us": 50,
        "error_us": None,
    }


@spark_test
@timeout
@pytest.mark.usefixtures("shared")
def test_a_clean_log_with_lines_that_are_no_records(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = clean()
    # Fallbacks of any statement count.
    run.statement(7, **{"class": "diagnostic", "fallbacks": "r1:3306:replica_lost"})
    run.probe("r1", f"{P}:1-6", lag={"applied": [applied(5)], "waits": []})
    damaged = run.probe("r1", f"{P}:1-6", lag={"applied": [applied(6)]})
    run.records.pop()
    (path,) = save(tmp_path, run, suffix=".open")
    whole = path.read_text()
    path.write_text(whole + json.dumps(damaged) + '{"another": "object"}\n' + whole[:100])
    before = tmp_path / "_audit" / "reads" / "part-0.parquet"  # an audit wrote, and does not read
    before.parent.mkdir(parents=True)
    before.touch()
    metrics = tmp_path / "audit.prom"
    assert nightly.main(["--log", str(tmp_path), "--textfile", str(metrics)]) == 0
    assert capsys.readouterr().out == (
        "Clean. Of 2 reads with a promise, every one met a server that was shown to have what it "
        f"had to see.\nReport: {tmp_path}/_audit/report.html\n"
    )
    reports = [tmp_path / "_audit" / name for name in ("report.html", "report.md")]
    shown, summary = (report.read_text() for report in reports)
    assert "<td>date=2026-11-30/gate-0-a1.jsonl.open</td>" in shown
    assert '<td class="number">1</td><td>torn</td>' in shown
    assert '<td class="number">1</td><td>damaged</td>' in shown
    assert "Lines that are no record: 2 in 1 file." in summary

    def rows(table: str) -> list[dict[str, object]]:
        found = spark.read.parquet(str(tmp_path / "_audit" / table)).collect()
        return [row.asDict() for row in found]

    assert rows("fallbacks") == [{"server": "r1:3306", "reason": "replica_lost", "statements": 1}]
    assert sorted(str(row["fault"]) for row in rows("faults")) == ["damaged", "torn"]
    assert [row["transactions"] for row in rows("replication")] == [1]
    assert "Not taken for segments" not in summary
    assert f'tidegate_audit_exit_code{{log="{tmp_path}"}} 0.0' in metrics.read_text()
    assert f'tidegate_audit_violations{{log="{tmp_path}"}} 0.0' in metrics.read_text()


@spark_test
@timeout
@pytest.mark.usefixtures("shared")
def test_a_violation(
    spark: "SparkSession",
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = clean()
    run.write(7, f"{P}:8:10")
    run.known(7, "r1", f"{P}:1-8", required=f"{P}:8")
    # By clocks that may differ, the write of another proxy was perhaps not yet acknowledged.
    other = Run("b2", proxy="gate2", clock=run.clock)
    write = run.write(7, f"{P}:11")
    arrived = int(str(write["ended_us"])) + 99
    other.waited(8, "r1", f"{P}:6-10", arrived_us=arrived, level="STRONG")
    run.unnamed(8)
    run.waited(8, "r1", f"{P}:1")
    run.probe("r1", f"{P}:1-10", role="primary")
    out = tmp_path / "here" / "out"
    save(tmp_path / "log", run, other)
    assert nightly.run(tmp_path / "log", out, clock_error_us=100) == 1
    assert capsys.readouterr().out == (
        f"2026-11-30 00:00:00.010020  primary {UUID['r1']} was asked for its gtid_executed\n"
        '  log       proxy gate, worker 0: "run":"a1","seq":10,\n'
        f"  lost      {P}:11\n"
        f"  wrote     {P}:11, acknowledged 3.12 ms earlier by 0000000000000006 (session 7, run a1, "
        "record 7)\n"
        "\n"
        "2026-11-30 00:00:00.005000  session 7, statement 5\n"
        '  log       proxy gate, worker 0: "run":"a1","seq":6,\n'
        "  read      0000000000000005 by app, answered by r1:3306 (replica): read, proof known\n"
        "  promised  READ_OWN_WRITES, scope connection\n"
        "  finding   known set too small\n"
        f"  wrote     {P}:8:10, acknowledged 100 µs earlier by 0000000000000004 (record 5)\n"
        f"  missing   {P}:10\n"
        f"  required  {P}:8 (by the proxy's own account)\n"
        f"  shown     {P}:1-8\n"
        "\n"
        "2026-11-30 00:00:00.006999  session 8, statement 1\n"
        '  log       proxy gate2, worker 0: "run":"b2","seq":1,\n'
        "  read      0000000000000000 by app, answered by r1:3306 (replica): read, proof waited\n"
        "  promised  STRONG\n"
        "  finding   not asked\n"
        "\n"
        "1 read may have been stale. Acknowledged transactions are lost. 1 read had no valid "
        "proof. Of 5 reads with a promise, 1 met a server not shown to have what it had to see. "
        "Not judged: 2 reads.\n"
        "\n"
        "r1:3306 became the primary without transactions that primary:3306 had acknowledged.\n"
        "1 acknowledged transaction is lost, at 2026-11-30 00:00:00 UTC.\n"
        "Users, at least: app (1).\n"
        f"Next: Before primary:3306 is rebuilt, save its binary log: mysqlbinlog "
        f"--include-gtids='{P}:11' shows the transactions, and their owners decide what is applied "
        "again. Semisynchronous replication and sync_binlog = 1 prevent this.\n"
        "\n"
        "r1:3306 answered reads, and was not known to have the transactions that they had to see.\n"
        "1 read may have been stale, at 2026-11-30 00:00:00 UTC.\n"
        "Users: app (1).\n"
        f"Next: Run SELECT GTID_SUBSET('{P}:10', @@GLOBAL.gtid_executed) on r1:3306. If this "
        "returns 0, the server still lacks transactions: stop sending reads to it, and repair or "
        "rebuild it. If it returns 1, the server has these by now: check in the same way what the "
        "other reads missed (table reads, column missing). Unless somebody rebuilt or rewound the "
        "server, Tidegate should not have chosen it. Keep the routing log, and report this as a "
        "defect of Tidegate.\n"
        "\n"
        "Proxy gate2 sent reads to replicas, and had not asked the primary for its gtid_executed "
        "in time.\n"
        "1 read had no valid proof, at 2026-11-30 00:00:00 UTC.\n"
        "Users: app (1).\n"
        "Answered by: r1:3306 (1).\n"
        "Next: These reads may have been right, but nothing proves it. Keep the routing log, and "
        "report this as a defect of Tidegate.\n"
        f"Report: {out}/report.html\n"
    )
    assert not (tmp_path / "log" / "_audit").exists()
    reads = spark.read.parquet(str(out / "reads"))
    assert {(row.seq, row.verdict) for row in reads.collect()} == {
        (3, "ok"),
        (4, "ok"),
        (6, "violation"),
        (1, "not judged"),
        (9, "not judged"),
    }
    verdicts = spark.read.parquet(str(out / "verdicts")).collect()
    assert sum(row.reads for row in verdicts) == 5
    assert {(row.level, row.scope) for row in verdicts} == {
        ("READ_OWN_WRITES", "connection"),
        ("STRONG", "connection"),
    }
    (lost,) = spark.read.parquet(str(out / "lost")).collect()
    assert (lost.seq, lost.gtids, lost.writes[0].seq) == (10, f"{P}:11", 7)
    report = (out / "report.md").read_text()
    assert "| STRONG | connection | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 0 |" in report
    shown = (out / "report.html").read_text()
    assert "r1:3306 became the primary without transactions that primary:3306 had" in shown
    assert "the same session writes 0000000000000004 on primary:3306" in shown


@pytest.mark.deep  # test_findings.py has the verdict and its exit code
@spark_test
@timeout
@pytest.mark.usefixtures("shared")
def test_a_read_that_cannot_be_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = clean()
    run.known(7, "r1", f"{P}:1-99", incarnation=2)
    save(tmp_path, run)
    assert nightly.run(tmp_path, None) == 2
    assert capsys.readouterr().out.startswith(
        "No verdict. No violation was found, but the log does not prove that there is none. "
        "Not judged: 1 read.\n"
    )


@spark_test
@timeout
@pytest.mark.usefixtures("shared")
def test_what_is_no_segment_or_not_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from spark_jobs.records import take

    # Compressed ones are read.
    for name, compress in (("gz", gzip.compress), ("zst", zstandard.compress)):
        run = clean(name)
        run.unnamed(7)
        run.waited(7, "r1", f"{P}:6")
        (path,) = save(tmp_path, run)
        # Two members, as a tool that appends makes them.
        data = path.read_bytes()
        packed = compress(data[:700]) + compress(data[700:])
        path.with_name(f"{path.name}.{name}").write_bytes(packed)
        path.unlink()
    for name in ("notes.txt", "gate-0-b2.jsonl.bz2"):
        (tmp_path / "date=2026-11-30" / name).write_text("?")
    (gone,) = save(tmp_path, clean("d4"))
    convert = take.all_in

    def all_in(spark: "SparkSession", found: list[Segment], folder: Path) -> take.Kept:
        gone.unlink()
        return convert(spark, found, folder)

    monkeypatch.setattr(take, "all_in", all_in)
    # `file:` stands in for what only Spark can read.
    chosen = Options(log=f"file:{tmp_path}", out=tmp_path / "_audit")
    assert nightly.run_with(chosen) == 2
    out, error = capsys.readouterr()
    assert not error
    day = "date=2026-11-30"
    assert (
        f"Not read: `{day}/gate-0-b2.jsonl.bz2`. Not read to the end: `{day}/gate-0-d4.jsonl` "
        "(deleted meanwhile, or Spark cannot read it; none of it counts). Not judged: 2 reads."
    ) in out
    report = (tmp_path / "_audit" / "report.md").read_text()
    assert f"file:{tmp_path}" in report
    assert f"Not taken for segments: `{day}/notes.txt`." in report


@spark_test
@timeout
@pytest.mark.usefixtures("shared")
def test_a_log_without_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = save(tmp_path, clean())
    path.write_text(path.read_text()[:50])
    assert nightly.run(tmp_path, None) == 2
    assert "The log holds no statement." in capsys.readouterr().out


@pytest.mark.deep  # test_ingest.py has damaged lines
@spark_test
@timeout
@pytest.mark.usefixtures("shared")
def test_lines_that_somebody_made_to_hurt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begins = b'{"v":1,"kind":"statement",'
    lines = (
        begins + b'"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        begins + b'"x":"' + b"y" * (30 << 20) + b'"}',
        begins + b'"user":"\xff\xfe\xc0\xaf","seq":1}',
        b"\0" * 5_000,
        begins + b'"seq":1e400,"arrived_us":' + b"9" * 5_000 + b"}",
        b'{"v":1,"v":1,"kind":"statement","kind":"proof"}',
    )
    (path,) = save(tmp_path, clean())
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"".join(line + b"\n" for line in lines) + b"".join(rest))
    assert nightly.run(tmp_path, None) == 0
    assert "Clean. Of 2 reads" in capsys.readouterr().out
    report = (tmp_path / "_audit" / "report.md").read_text()
    assert "Lines that are no record: 6 in 1 file." in report


@pytest.mark.deep  # as above
@spark_test
@timeout
@pytest.mark.usefixtures("shared")
def test_a_log_that_contradicts_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = clean()
    run.records.append(run.records[1] | {"own_gtids": ""})
    run.records.append(run.records[1] | {"seq": 9, "v": 2})
    save(tmp_path, run)
    assert nightly.run(tmp_path, None) == 2
    out = capsys.readouterr().out
    assert "1 record under a number that another record has too." in out
    assert "1 line of a version or kind that this audit does not know." in out


@spark_test
@pytest.mark.deep  # the demo's test runs it by itself, too
@timeout
def test_the_command_by_itself(tmp_path: Path) -> None:
    missing = spark_session.what_is_missing()
    if missing:
        pytest.skip(missing)
    save(tmp_path, clean())
    command = [sys.executable, "-m", "spark_jobs.nightly", "--log", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Clean. ")
    assert (tmp_path / "_audit" / "spark.log").exists()


def no_spark(*_: object) -> "SparkSession":
    raise AssertionError("Spark was started")


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "start_spark", no_spark)


@pytest.mark.usefixtures("unstarted")
def test_without_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(spark_session, "find_spec", lambda _name: None)
    assert nightly.run(tmp_path, None) == 2
    assert "pip install 'tidegate[audit]'" in capsys.readouterr().err


@pytest.mark.usefixtures("unstarted")
def test_metrics_of_an_audit_that_could_not_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nightly, "what_is_missing", lambda: "No Spark.")
    metrics, log = tmp_path / "audit.prom", tmp_path / "log"
    assert nightly.main(["--log", str(log), "--textfile", str(metrics)]) == 2
    told = metrics.read_text()
    assert f'tidegate_audit_exit_code{{log="{log}"}} 2.0' in told
    assert "violations" not in told
    assert nightly.main(["--log", str(log), "--textfile", str(tmp_path / "nowhere" / "x")]) == 2
    assert f"could not write {tmp_path}/nowhere/x" in capsys.readouterr().err


@pytest.mark.usefixtures("unstarted")
def test_an_unexpected_error_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a damaged table")

    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "_run", fail)
    metrics = tmp_path / "audit.prom"
    assert nightly.main(["--log", str(tmp_path), "--textfile", str(metrics)]) == 2
    assert "a damaged table" in capsys.readouterr().err
    assert f'tidegate_audit_exit_code{{log="{tmp_path}"}} 2.0' in metrics.read_text()


@pytest.mark.usefixtures("unstarted")
def test_without_the_template_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(page, "find_spec", lambda _name: None)
    assert nightly.run(tmp_path, None) == 2
    assert "Jinja2 is not installed" in capsys.readouterr().err


def java(folder: Path, script: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "is_old"), [("3.5.8", True), ("4.0.2", True), ("4.1.0", False)]
)
def test_the_pyspark_at_hand(version: str, is_old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", version)
    monkeypatch.setattr(spark_session, "_what_is_wrong_with_java", lambda: None)
    missing = spark_session.what_is_missing()
    assert (missing is not None) is is_old
    assert not is_old or "4.1 or newer" in str(missing)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "is Java 11, which is too old"),
        ("echo 'java version \"1.8.0_402\"' >&2", "is Java 8, which is too old"),
        ("echo 'hello'", "does not report its version"),
        ("exit 1", "Java does not run"),
        ("echo 'openjdk version \"17.0.15\" 2025-04-15' >&2", None),
        ("echo 'openjdk version \"25\" 2025-09-16' >&2", None),
    ],
)
def test_the_java_at_hand(
    script: str, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    java(tmp_path, script)
    for name, value in (("JAVA_HOME", str(tmp_path)), ("PATH", f"{tmp_path}/bin:/usr/bin:/bin")):
        monkeypatch.setenv(name, value)
        missing = spark_session.what_is_missing()
        if told is None:
            assert missing is None
        else:
            assert missing is not None
            assert told in missing
            assert "openjdk-17" in missing
        monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.usefixtures("unstarted")
def test_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nightly.run(tmp_path, None) == 2
    assert "Java is not installed" in capsys.readouterr().err


@pytest.mark.usefixtures("unstarted")
def test_without_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    assert nightly.run(tmp_path / "nowhere", None) == 2
    assert "There is no directory" in capsys.readouterr().err
    pytest.importorskip("pyspark")
    assert nightly.run(tmp_path, None) == 2
    assert "There is no segment" in capsys.readouterr().err
    (tmp_path / "gate-0-b2.jsonl.bz2").write_text("?")
    assert nightly.run(tmp_path, None) == 2
    assert "gate-0-b2.jsonl.bz2" in capsys.readouterr().err
    (tmp_path / "date=2026-11-30").mkdir()
    (tmp_path / "\x1b[2J\n.jsonl").write_text("?")
    (tmp_path / "date=2026-11-30" / "\x1b[3J\n.jsonl").symlink_to("nowhere")
    assert nightly.run(tmp_path, None) == 2
    error = capsys.readouterr().err
    assert "\nNot read: `\\x1b[2J\\n.jsonl`\n" in error
    assert "\nNot read: `date=2026-11-30/\\x1b[3J\\n.jsonl` (deleted" in error
    blocker = tmp_path / "file"
    blocker.write_text("")
    assert nightly.run(tmp_path, blocker / "out") == 2
    assert "could not read its log or write its report" in capsys.readouterr().err


@spark_test
@timeout
@pytest.mark.usefixtures("shared")
def test_a_spark_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from spark_jobs.records import take

    def fail(spark: "SparkSession", *_: object) -> None:
        spark.sql("select raise_error('no room')").collect()

    save(tmp_path, clean())
    monkeypatch.setattr(take, "all_in", fail)
    reports = [tmp_path / "_audit" / name for name in ("report.html", "report.md")]
    reports[0].parent.mkdir()
    for report in reports:
        report.write_text("yesterday's")
    assert nightly.run(tmp_path, None) == 2
    told = capsys.readouterr()
    assert "Spark failed, see" in told.err
    assert "no room" in told.err
    assert not told.out
    assert not any(report.exists() for report in reports)


def flipped(data: bytes) -> bytes:
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


def spoil(log: Path) -> tuple[dict[str, str], dict[Path, bytes]]:
    """Damage a segment in each way; return why it is not read, and what it was before."""

    def packed(name: str, suffix: str, spoilt: Callable[[bytes], bytes]) -> None:
        run = clean(name)
        for number in range(7, 2000):
            run.write(8, f"{P}:{number}")
        (plain,) = save(log, run)
        path = plain.rename(f"{plain}{suffix}")
        pack = gzip.compress if suffix == ".gz" else checked.compress
        whole[path] = pack(path.read_bytes())
        path.write_bytes(spoilt(whole[path]))

    whole: dict[Path, bytes] = {}
    checked = zstandard.ZstdCompressor(write_checksum=True)
    packed("c1", ".gz", lambda data: data[: len(data) // 2])
    packed("c2", ".gz", flipped)
    packed("c3", ".zst", lambda data: data[: len(data) // 2])
    packed("c4", ".zst", flipped)
    day = "date=2026-11-30"
    return {
        f"{day}/gate-0-c1.jsonl.gz": "cut short; its first [0-9,]+ bytes count",
        f"{day}/gate-0-c2.jsonl.gz": "damaged, .*; none of it counts",
        f"{day}/gate-0-c3.jsonl.zst": "cut short; its first [0-9,]+ bytes count",
        f"{day}/gate-0-c4.jsonl.zst": "damaged, .*; none of it counts",
    }, whole


@spark_test
@timeout
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), marks=pytest.mark.deep),  # test_what_is_no_segment_or_not_read_is_named
        ("--date", "2026-11-30"),
    ],
    ids=["whole", "a day"],
)
def test_damaged_segments_cost_their_own_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    why, whole = spoil(log)
    (path,) = save(log, clean())
    no_text = path.read_bytes().splitlines(keepends=True)
    no_text[2] = no_text[2].replace(b'"app"', b'"\xff\xfe"')
    path.write_bytes(b"".join(no_text))
    violated = clean("v1")
    violated.write(7, f"{P}:8:10")
    violated.known(7, "r1", f"{P}:1-8", required=f"{P}:8")
    violation, *_ = save(log, violated)
    code = nightly.main(["--log", str(log), "--out", str(out), *options])
    told, error = capsys.readouterr()
    assert code == 1, error
    assert "1 read may have been stale." in told
    for text in (told, (out / "report.md").read_text(), (out / "report.html").read_text()):
        assert "scratch" not in text
        assert "tidegate-audit-" not in text
        for file, reason in why.items():
            assert re.search(f"{re.escape(file)}`? \\({reason}\\)", text), text
    report = (out / "report.html").read_text()
    (runs,) = [
        {
            row[2]: int(row[3].replace(",", ""))
            for row in re.findall(
                "<tr><td>(.*?)</td><td.*?>(.*?)</td><td>(.*?)</td><td.*?>(.*?)</td>", report
            )
            if row[0] == "gate" and row[2] in ("a1", "c1", "c2", "c3", "c4")
        }
    ]
    assert runs.keys() == {"a1", "c1", "c3"}
    assert all(100 < runs[name] < 1995 for name in ("c1", "c3"))
    name = "<td>date=2026-11-30/gate-0-a1.jsonl</td>"
    assert f'{name}<td class="number">1</td><td>damaged</td>' in report
    if not options:
        return
    # Somebody puts back the originals.
    for file, data in whole.items():
        file.write_bytes(data)
    violation.unlink()
    path.unlink()
    assert nightly.main(["--log", str(log), "--out", str(out), "--date", "2026-11-30"]) == 1
    told = capsys.readouterr().out
    assert "Not read" not in told
    assert "Segments that came after 2026-11-30 was judged: `date=2026-11-30/gate-0-c1" in told

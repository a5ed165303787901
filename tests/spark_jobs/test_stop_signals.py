"""An audit that is told to stop leaves nothing behind, and says so in one sentence."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs import nightly, stop_signals
from spark_jobs.report import written
from tests.spark_jobs.nights import NoSpark
from tests.spark_jobs.routing_log import UUID, Run, save

P = UUID["primary"]
TOLD = "Stopped by {}. What the audit had kept is whole; the same command can be run again.\n"


def clean() -> Run:
    run = Run("a1")
    run.probe("r1", f"{P}:1-5")
    run.write(7, f"{P}:6")
    run.waited(7, "r1", f"{P}:6", required=f"{P}:6")
    return run


class Audit:
    """An audit in a process of its own, whose files and processes can be told from others."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.temporary, self.out = folder / "temporary", folder / "out"
        self.temporary.mkdir()
        save(folder / "log", clean())
        self._environment = os.environ | {"TMPDIR": str(self.temporary)} | environment
        self._command = [sys.executable, "-m", "tidegate", "audit", f"--log={folder / 'log'}"]

    def stop(self, number: int, when: Callable[[], bool], *options: str) -> tuple[int, str]:
        """Send a signal when something holds; return the exit status and all that was printed."""
        process = subprocess.Popen(
            [*self._command, f"--out={self.out}", *options],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        while not when():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(number)
        told, _ = process.communicate()
        return process.returncode, told

    def processes(self) -> list[str]:
        """The command lines of all processes that it has left."""
        mine = f"TMPDIR={self.temporary}\0".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if mine in (place / "environ").read_bytes():
                    found.append((place / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return [command for command in found if command]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_spark_starts(tmp_path: Path, number: signal.Signals) -> None:
    pytest.importorskip("pyspark")
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -version ]; then echo \'version "17.0.1"\' >&2; exit; fi\n'
        f"touch '{tmp_path}/launched'\nexec sleep 1000\n"
    )
    java.chmod(0o755)
    audit = Audit(tmp_path, JAVA_HOME=str(java.parent.parent))
    code, told = audit.stop(number, (tmp_path / "launched").exists)
    assert (code, told) == (128 + number, TOLD.format(number.name))
    assert audit.processes() == []
    assert [*audit.temporary.iterdir()] == []
    assert not (audit.out / "report.html").exists()


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
def test_a_signal_while_a_job_runs(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    audit = Audit(tmp_path)

    def is_at_work() -> bool:
        return any(audit.temporary.glob("tidegate-audit-*/judged-*/*"))

    code, told = audit.stop(signal.SIGTERM, is_at_work)
    assert (code, told) == (143, TOLD.format("SIGTERM"))
    assert audit.processes() == []
    assert [*audit.temporary.iterdir()] == []
    assert sorted(path.name for path in audit.out.iterdir() if path.is_file()) == [
        *("lock", "spark.log")
    ]


def test_a_signal_while_the_report_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    from tests.spark_jobs.found import findings

    def judge(*_: object) -> object:
        return findings()

    def render(*_: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "never"

    save(tmp_path / "log", clean())
    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "start_spark", lambda *_: NoSpark())
    monkeypatch.setattr(nightly, "_judge", judge)
    monkeypatch.setattr(written.page, "render", render)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    metrics = tmp_path / "audit.prom"
    options = [f"--log={tmp_path / 'log'}", f"--out={tmp_path / 'out'}", f"--textfile={metrics}"]
    assert nightly.main(options) == 130
    assert capsys.readouterr().err == TOLD.format("SIGINT")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["lock"]
    assert not metrics.exists()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_error_that_only_follows_from_a_signal_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    save(tmp_path, clean())

    for error in (OSError("gone"), RuntimeError("gone"), ValueError("gone")):

        def judge(*_: object, error: Exception = error) -> object:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                raise error

        monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
        monkeypatch.setattr(nightly, "start_spark", lambda *_: NoSpark())
        monkeypatch.setattr(nightly, "_judge", judge)
        assert nightly.main([f"--log={tmp_path}"]) == 143
        assert capsys.readouterr().err == TOLD.format("SIGTERM")


def test_a_process_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signals, "_PATIENCE_S", 0.01)
    stubborn = subprocess.Popen(
        ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"],
        stdout=subprocess.PIPE,
        process_group=0,
    )
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    stop_signals.end(stubborn)
    assert stubborn.returncode == -signal.SIGKILL
    stop_signals.end(stubborn)  # it has ended
    stubborn.stdout.close()

"""A full disk is named, with what to do; nothing is half-kept."""

import errno
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from spark_jobs import disk, nightly
from spark_jobs.audit import audit
from spark_jobs.findings.findings import Findings
from spark_jobs.stop_signals import Stopped
from tests.spark_jobs.found import findings
from tests.spark_jobs.nights import NoSpark
from tests.spark_jobs.routing_log import UUID, Run, save

FULL = os.strerror(errno.ENOSPC)


class UnshownError(RuntimeError):
    """Like an error of Py4J, which asks Java for its text."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


class Usage(NamedTuple):
    free: int


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, FULL),
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        OSError(f"Error writing bytes to file. Detail: [errno 28] {FULL}"),
        RuntimeError(f"Job aborted\njava.io.IOException: {FULL}\n\tat java.base"),
    ],
)
def test_a_full_disk_is_known_by_its_error(error: Exception) -> None:
    assert disk.is_full(error)
    assert not disk.is_full(OSError(errno.EACCES, os.strerror(errno.EACCES)))


def test_the_directory_is_the_one_that_is_named_or_has_least_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = {"/out": 5, "/out/tmp": 7, "/other": 3}
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(free[str(folder)]))
    folders = [Path(folder) for folder in free]
    assert disk.full_folder(OSError(28, FULL, "/out/tmp/x"), folders) == Path("/out/tmp")
    assert disk.full_folder(OSError(f"{FULL} (/out/x)"), folders) == Path("/out")
    assert disk.full_folder(RuntimeError(f"while writing /out/x: {FULL}"), folders) == Path(
        "/other"
    )
    assert disk.full_folder(OSError(28, FULL), folders) == Path("/other")


@pytest.mark.parametrize("is_temporary", [True, False])
def test_the_audit_says_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_temporary: bool,
) -> None:
    pytest.importorskip("pyspark")
    run = Run()
    run.write(7, f"{UUID['primary']}:1")
    save(tmp_path / "log", run)
    temporary, out = tmp_path / "temporary", tmp_path / "out"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def judge(*_: object) -> None:
        (folder,) = temporary.iterdir()
        place = folder if is_temporary else out
        raise OSError(f"Error writing bytes to file. Detail: [errno 28] {FULL} ({place}/x)")

    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "start_spark", lambda *_: NoSpark())
    monkeypatch.setattr(nightly, "_judge", judge)
    assert nightly.main([f"--log={tmp_path / 'log'}", f"--out={out}"]) == 2
    where, what, how = (
        (temporary, "temporary files", "TMPDIR") if is_temporary else (out, "the results", "--out")
    )
    assert capsys.readouterr().err == (
        f"There is no space left in {where}, which takes {what}: make room there, or name another "
        f"directory with {how}. Then run the same command again; nothing half-written was kept.\n"
    )
    assert [*temporary.iterdir()] == []
    assert [path.name for path in out.iterdir()] == ["lock"]


@pytest.mark.parametrize("is_full", [True, False])
def test_a_jvm_that_ended_for_want_of_space(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_full: bool,
) -> None:
    pytest.importorskip("pyspark")
    run = Run()
    run.write(7, f"{UUID['primary']}:1")
    save(tmp_path, run)
    log = tmp_path / "_audit" / "spark.log"

    def judge(*_: object) -> None:
        log.write_text(
            f"{'x' * (1 << 17)}\nFSError: java.io.IOException: {FULL if is_full else ''}"
        )
        raise UnshownError

    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "start_spark", lambda *_: NoSpark())
    monkeypatch.setattr(nightly, "_judge", judge)
    assert nightly.main([f"--log={tmp_path}"]) == 2
    told = "There is no space left in " if is_full else f"Spark failed, see {log}: [Errno 111] "
    assert capsys.readouterr().err.startswith(told)


def contents(folder: Path) -> dict[str, str]:
    return {f"{it.parent.name}/{it.name}": it.read_text() for it in folder.glob("*/*")}


def put(out: Path, table: str, text: str) -> None:
    (out / table).mkdir(parents=True)
    (out / table / "1.parquet").write_text(text)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, FULL), Stopped(signal.SIGTERM), ValueError("unexpected")]
)
def test_tables_are_replaced_together_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    pytest.importorskip("pyspark")
    from spark_jobs.records import take

    log, out = tmp_path / "log", tmp_path / "out"
    run = Run()
    run.write(7, f"{UUID['primary']}:1")
    save(log, run)
    for table in ("reads", "procedure", "lost"):
        put(out, table, "old")
    before = contents(out)
    errors = [error, None]

    def judge(_spark: object, _log: object, place: Path, *_: object) -> Findings:
        put(place, "reads", "new")
        put(place, "procedure", "new")
        if (failure := errors.pop(0)) is not None:
            raise failure
        put(place, "lost", "new")
        return findings()

    monkeypatch.setattr(nightly, "what_is_missing", lambda: None)
    monkeypatch.setattr(nightly, "start_spark", lambda *_: NoSpark())
    monkeypatch.setattr(take, "all_in", lambda *_: take.Kept(None))  # type: ignore[arg-type]  # it is not read
    monkeypatch.setattr(audit, "judge", judge)
    assert nightly.main([f"--log={log}", f"--out={out}"]) in (2, 143)
    assert contents(out) == before
    assert nightly.main([f"--log={log}", f"--out={out}"]) == 0
    assert contents(out) == dict.fromkeys(before, "new")

"""Temporary files of an audit are removed: by itself, or by the next one."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs import scratch


def test_it_goes_with_the_audit(tmp_path: Path) -> None:
    with scratch.opened(tmp_path) as folder:
        (folder / "much").mkdir()
        (folder / "much" / "data").write_text("?")
        assert folder.parent == tmp_path
        # Another audit leaves it alone.
        with scratch.opened(tmp_path) as other:
            assert other != folder
        assert (folder / "much" / "data").exists()
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(ValueError, match="failed"), scratch.opened(tmp_path):
        raise ValueError("failed")
    assert [*tmp_path.iterdir()] == []


def test_what_a_killed_audit_left_is_removed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from spark_jobs import scratch\n"
        "with scratch.opened(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'data').write_text('?')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    assert (left / "data").exists()
    with scratch.opened(tmp_path) as folder:
        assert [*tmp_path.iterdir()] == [folder]


def test_what_may_be_somebody_elses_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    (elsewhere / "lock").touch()
    place = tmp_path / "place"
    place.mkdir()
    (place / "tidegate-audit-link").symlink_to(elsewhere)
    (place / "tidegate-audit-file").touch()
    (place / "tidegate-audit-new").mkdir()
    (place / "tidegate-audit-old").mkdir()
    os.utime(place / "tidegate-audit-old", (0, 0))
    scratch.remove_stale(place)
    assert sorted(path.name for path in place.iterdir()) == [
        *("tidegate-audit-file", "tidegate-audit-link", "tidegate-audit-new")
    ]
    assert (elsewhere / "data").exists()


def test_another_audit_may_take_a_new_directory_for_a_stale_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, met = fcntl.flock, []

    def interrupted(lock: int, how: int) -> None:
        (folder,) = tmp_path.iterdir()
        if not met:
            met.append(folder)
            (folder / "lock").unlink()
            folder.rmdir()
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", interrupted)
    with scratch.opened(tmp_path) as folder:
        assert met != [folder]
        assert [*tmp_path.iterdir()] == [folder]

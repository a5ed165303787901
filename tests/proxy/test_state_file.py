"""Who the primary is, kept in a file: agreed upon, found again, and every fault told."""

import asyncio
import os
import resource
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from proxy.shared.primary_epoch_file import PrimaryEpochFile
from proxy.state.sqlite_file import StateError
from proxy.state.state_file import FILE_NAME, PrimaryTerm, StateFile

A, B = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
FIRST = PrimaryTerm(1, "a:3306", A, 1_000_000)
SECOND = PrimaryTerm(2, "b:3306", B, 2_000_000)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[StateFile]:
    with closing(StateFile(tmp_path)) as found:
        yield found


def test_terms_are_found_again(tmp_path: Path, file: StateFile) -> None:
    assert file.terms() == []
    assert file.add(FIRST) == FIRST
    assert file.add(SECOND) == SECOND
    assert file.terms() == [FIRST, SECOND]
    with closing(StateFile(tmp_path)) as other:
        assert other.terms() == [FIRST, SECOND]


def test_a_folder_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "of" / "shop"
    StateFile(folder).close()
    assert (folder / FILE_NAME).exists()
    assert folder.stat().st_mode & 0o077 == 0


def test_without_a_folder_nothing_is_kept() -> None:
    with closing(StateFile(None)) as file:
        file.add(FIRST)
        assert file.terms() == [FIRST]
    with closing(StateFile(None)) as file:
        assert file.terms() == []


def test_who_comes_second_is_told_of_the_first(tmp_path: Path, file: StateFile) -> None:
    file.add(FIRST)
    with closing(StateFile(tmp_path)) as other:
        assert file.terms() == other.terms()
        assert file.add(SECOND) == SECOND
        assert other.add(PrimaryTerm(2, "c:3306", A, 3)) == SECOND
        assert other.add(PrimaryTerm(7, "c:3306", A, 3)) == SECOND
        assert file.terms() == [FIRST, SECOND]


def test_many_at_once_agree(tmp_path: Path) -> None:
    def promote(number: int) -> PrimaryTerm:
        with closing(StateFile(tmp_path)) as file:
            return file.add(PrimaryTerm(1, f"{number}:3306", A, number))

    StateFile(tmp_path).close()
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(promote, range(24)))) == 1


# What can be wrong with it.


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"primary = 10.0.0.1\n" * 200)
    with pytest.raises(StateError, match="not a database; move it away"):
        StateFile(tmp_path)


def test_a_file_that_is_damaged(tmp_path: Path, file: StateFile) -> None:
    file.add(FIRST)
    file.close()
    path = tmp_path / FILE_NAME
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StateError, match="move it away"), closing(StateFile(tmp_path)) as damaged:
        damaged.terms()


def test_a_file_without_the_table(tmp_path: Path, file: StateFile) -> None:
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("DROP TABLE primary_terms")
    with pytest.raises(StateError, match="no such table: primary_terms; move it away"):
        file.terms()


def test_a_file_of_a_newer_version(tmp_path: Path, file: StateFile) -> None:
    file.close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(StateError, match=r"newer Tidegate \(version 2; this one knows 1\)"):
        StateFile(tmp_path)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StateError, match="it must be a directory that Tidegate may write"):
        StateFile(tmp_path / "state")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StateError, match="that Tidegate may write"):
        StateFile(tmp_path)


def test_a_disk_that_takes_no_more(tmp_path: Path, file: StateFile) -> None:
    file.add(FIRST)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        with pytest.raises(StateError, match="make room on its disk"):
            file.add(SECOND)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert file.terms() == [FIRST]
    assert file.add(SECOND) == SECOND


def test_a_file_that_another_keeps_locked(
    tmp_path: Path, file: StateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.state.state_file.BUSY_S", 0.0)
    with (
        closing(StateFile(tmp_path)) as impatient,
        closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        assert impatient.terms() == []
        with pytest.raises(StateError, match="another program keeps it locked"):
            impatient.add(FIRST)
        other.execute("COMMIT")
        assert impatient.add(FIRST) == FIRST


def test_beside_the_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        kept = PrimaryEpochFile(tmp_path)
        assert await kept.read() == []
        assert await kept.add(FIRST) == FIRST
        assert await kept.read() == [FIRST]
        kept.close()
        kept.close()

    asyncio.run(main())


def test_a_disk_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.shared.primary_epoch_file._LIMIT_S", 0.05)
    answers = threading.Event()

    def terms(file: StateFile) -> list[PrimaryTerm]:
        answers.wait(30)
        return []

    async def main() -> None:
        kept = PrimaryEpochFile(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(StateFile, "terms", terms)
            for _ in range(2):
                with pytest.raises(StateError, match="does not answer"):
                    await kept.read()
            answers.set()
        deadline = time.monotonic() + 60
        while True:
            try:
                assert await kept.add(FIRST) == FIRST
                break
            except StateError:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
        kept.close()

    asyncio.run(main())

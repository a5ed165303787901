"""What wide scopes require, kept in a file: found as it was, or unknown, and never smaller."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.gtid import EMPTY, GtidSet
from proxy.state import scope_file, scope_rows
from proxy.state.scope_file import FILE_NAME, ScopeFile
from proxy.state.scope_marks import FILE_NAME as MARKS_NAME
from proxy.state.scope_marks import disown
from proxy.state.scope_rows import Change
from proxy.state.sqlite_file import StateError
from routing.consistency.decision import Scope
from routing.consistency.scope import KeptScope
from tests.support.gtid_sets import gtids

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"
COUNT = 50


def scope(
    own: str = "", observed: str = "", lost: str = "", key: str = "ann", unknown: bool = False
) -> KeptScope:
    sets = gtids(own), gtids(observed), gtids(lost)
    return KeptScope(Scope.USER, key, *sets, bool(lost), unknown, used_at=0.0)


def keep(file: ScopeFile, number: int, kept: KeptScope) -> None:
    """As a scope that nobody writes in meanwhile."""
    file.marks.set(number)
    file.write([Change(number, kept, 1000 + number)], [])
    file.marks.clear(number)


def found(folder: Path) -> dict[str, KeptScope]:
    with closing(ScopeFile(folder, COUNT)) as file:
        return {entry.kept.key: entry.kept for entry in file.scopes}


def rows_of(folder: Path) -> int:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        (count,) = connection.execute("SELECT COUNT(*) FROM scope_gtids").fetchone()
        return int(count)


# What is found.


def test_a_scope_is_found_as_it_was(tmp_path: Path) -> None:
    ann = scope(f"{U}:1-3:7:blue:5", f"{V}:1-9", f"{U}:8")
    bob = scope(key="bob", unknown=True)
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        assert file.scopes == []
        keep(file, 1, ann)
        keep(file, 2, bob)
    assert found(tmp_path) == {"ann": ann, "bob": bob}
    assert found(tmp_path) == {"ann": ann, "bob": bob}  # without having ended well, too


def test_one_that_is_marked_is_unknown(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
        keep(file, 2, scope(f"{U}:1-3", key="bob"))
        file.marks.set(2)
    assert found(tmp_path) == {
        "ann": scope(f"{U}:1-3"),
        "bob": scope(f"{U}:1-3", key="bob", unknown=True),
    }


def test_the_shape_of_the_servers_table(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
        keep(file, 1, scope(f"{U}:1-5:blue:7"))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert connection.execute(
            "SELECT source_uuid, gtid_tag, interval_start, interval_end FROM scope_gtids"
        ).fetchall() == [(U, "", 1, 3), (U, "", 4, 5), (U, "blue", 7, 7)]


@pytest.mark.parametrize(
    "key", ["Zoë's", "\0", "x" * 255, "\udcff\udcfe", "'); DROP TABLE scopes --"]
)
def test_any_name_that_a_client_may_give(tmp_path: Path, key: str) -> None:
    """One that is no UTF-8 has what `protocol.wire` makes of it."""
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3", key=key))
        keep(file, 2, scope(f"{U}:1-4"))
        file.add_unlogged([(Scope.APPLICATION, key)])
    assert found(tmp_path)[key] == scope(f"{U}:1-3", key=key)
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        assert file.unlogged == {(Scope.APPLICATION, key)}


def test_a_scope_that_is_gone_is_not_found(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
        file.write([Change(2, scope(f"{U}:9"), 5)], [1])  # the same key, under another number
    assert found(tmp_path) == {"ann": scope(f"{U}:9")}


@pytest.mark.parametrize("keys", [((Scope.USER, "ann"), (Scope.PROXY, "")), ()])
def test_what_has_no_name_is_on_the_disk_at_once(
    tmp_path: Path, keys: tuple[tuple[Scope, str], ...]
) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        assert file.unlogged == frozenset()
        file.add_unlogged(keys)
        file.add_unlogged(keys)
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        assert file.unlogged == (frozenset(keys) or None)  # none of them: all


def test_who_has_strayed_is_on_the_disk_at_once(tmp_path: Path) -> None:
    diverged_gtids = {U: gtids(f"{V}:1-3:7,{V}:blue:5"), V: gtids(f"{V}:9")}
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        assert file.diverged_gtids == {}
        file.keep_strayed({U: gtids(f"{U}:1")})
        file.keep_strayed(diverged_gtids)
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        assert file.diverged_gtids == diverged_gtids
        file.keep_strayed({})
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        assert file.diverged_gtids == {}


@st.composite
def some_set(draw: st.DrawFn) -> GtidSet:
    tsids = st.sampled_from([U, V, f"{U}:blue"])
    starts = draw(st.lists(st.tuples(tsids, st.integers(1, 40), st.integers(1, 6)), max_size=6))
    all_of = EMPTY
    for tsid, start, length in starts:
        all_of |= GtidSet({tsid: [(start, start + length)]})
    return all_of


STEPS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from(["grow", "shrink", "replace", "forget"]),
        st.tuples(some_set(), some_set(), some_set()),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(1, 4))
def test_rows_in_a_file_are_sets(
    steps: list[tuple[int, str, tuple[GtidSet, GtidSet, GtidSet]]], above: int
) -> None:
    """Whatever is added to scopes and taken away, and however rows are compressed."""
    expected: dict[str, KeptScope] = {}
    before = scope_rows._COMPRESS_ABOVE
    with TemporaryDirectory() as folder:
        try:
            scope_rows._COMPRESS_ABOVE = above  # type: ignore[misc]
            with closing(ScopeFile(Path(folder), COUNT)) as file:
                for number, act, sets in steps:
                    key = str(number)
                    if act == "forget":
                        file.write([], [number])
                        expected.pop(key, None)
                        continue
                    old = expected.get(key)
                    had = (
                        (EMPTY, EMPTY, EMPTY) if old is None else (old.own, old.observed, old.lost)
                    )
                    if act == "grow":
                        sets = had[0] | sets[0], had[1] | sets[1], had[2] | sets[2]
                    elif act == "shrink":
                        sets = had[0] - sets[0], had[1] - sets[1], had[2] - sets[2]
                    expected[key] = KeptScope(Scope.USER, key, *sets, False, False, 0.0)
                    keep(file, number, expected[key])
            assert found(Path(folder)) == expected
        finally:
            scope_rows._COMPRESS_ABOVE = before  # type: ignore[misc]


def test_rows_are_compressed_when_they_are_many(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        most = 0
        for number in range(1, 501):
            keep(file, 1, scope(f"{U}:1-{number}"))
            most = max(most, rows_of(tmp_path))
        keep(file, 2, scope(f"{U}:1", key="bob"))
    assert 2 < most <= scope_rows._COMPRESS_ABOVE + 2
    assert found(tmp_path)["ann"] == scope(f"{U}:1-500")


def test_only_some_scopes_are_compressed_at_once(tmp_path: Path) -> None:
    numbers = range(1, COUNT + 1)
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        compressed = [
            file.write(
                [Change(number, scope(f"{U}:1-{end}", key=str(number)), 1) for number in numbers],
                [],
            ).compressed
            for end in range(1, 50)
        ]
    at_once = scope_rows._COMPRESSED_AT_ONCE * (scope_rows._COMPRESS_ABOVE + 20)
    assert 0 < max(compressed) <= at_once
    assert set(found(tmp_path)) == {str(number) for number in numbers}


# What makes all of them unknown, with what is kept of them.


def marks_are_gone(folder: Path) -> None:
    (folder / MARKS_NAME).unlink()


def marks_are_short(folder: Path) -> None:
    os.truncate(folder / MARKS_NAME, 1)


def machine_went_down(folder: Path) -> None:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        connection.execute("UPDATE last_run SET boot_id = 'another'")


DOUBTS: list[Callable[[Path], None]] = [marks_are_gone, marks_are_short, machine_went_down, disown]


@pytest.mark.parametrize("doubt", DOUBTS)
def test_a_doubt_about_all(tmp_path: Path, doubt: Callable[[Path], None]) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
    doubt(tmp_path)
    expected = {"ann": scope(f"{U}:1-3", unknown=True)}
    assert found(tmp_path) == expected
    # It does not go away by being found once.
    assert found(tmp_path) == expected


def test_a_machine_that_goes_down_later_takes_nothing_of_what_ended_well(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
        file.end([(77, 1)])
    machine_went_down(tmp_path)
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        assert [(entry.kept, entry.used_us) for entry in file.scopes] == [(scope(f"{U}:1-3"), 77)]


def test_without_a_boot_id_only_a_good_end_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope_file, "_BOOT_ID", tmp_path / "none")
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
        file.end([])
    assert not found(tmp_path)["ann"].unknown
    assert found(tmp_path)["ann"].unknown


def test_what_is_discarded_is_not_found_but_for_what_has_no_name(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
        file.add_unlogged([(Scope.USER, "ann")])
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        file.discard()
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        assert (file.scopes, file.unlogged) == ([], frozenset({(Scope.USER, "ann")}))


def test_a_mark_survives_a_process_that_is_killed(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
        keep(file, 2, scope(f"{U}:1-3", key="bob"))
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom proxy.state.scope_file import ScopeFile\n"
        f"file = ScopeFile(Path(sys.argv[1]), {COUNT})\nfile.marks.set(1)\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert {key: entry.unknown for key, entry in found(tmp_path).items()} == {
        "ann": True,
        "bob": False,
    }


# What can be wrong with it.


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path / "new", COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
        files = list((tmp_path / "new").iterdir())
        assert len(files) >= 2
        assert {path.stat().st_mode & 0o077 for path in (*files, tmp_path / "new")} == {0}


def test_two_processes_in_one_folder(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
        with pytest.raises(StateError, match="another process keeps its scopes"):
            ScopeFile(tmp_path, COUNT)
        file.end([])
    # Whose writes in ann's scope the file does not have.
    assert found(tmp_path)["ann"].unknown


@pytest.mark.parametrize("content", [b"no database" * 1000, b"SQLite format 3\0" + b"x" * 5000])
def test_a_file_that_is_none(tmp_path: Path, content: bytes) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
    good = (tmp_path / FILE_NAME).read_bytes()
    for name in (FILE_NAME + "-wal", FILE_NAME + "-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StateError, match="move it away: scopes begin as unknown"):
        ScopeFile(tmp_path, COUNT)
    # This process went on without it: nobody may rely on it when it is mended.
    (tmp_path / FILE_NAME).write_bytes(good)
    assert found(tmp_path)["ann"].unknown


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE scope_gtids SET source_uuid = 'x'",
        "UPDATE scope_gtids SET interval_end = 0",
        "UPDATE scope_gtids SET interval_end = 'many'",
        "UPDATE scopes SET kind = 'town'",
        "UPDATE scopes SET used_us = 'never'",
        "DELETE FROM last_run",
        "INSERT INTO unlogged_scopes VALUES ('town', 'x')",
    ],
)
def test_rows_that_nobody_wrote(tmp_path: Path, statement: str) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1-3"))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(StateError, match="move it away"):
        ScopeFile(tmp_path, COUNT)


def test_a_file_of_a_newer_version(tmp_path: Path) -> None:
    ScopeFile(tmp_path, COUNT).close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(StateError, match="written by a newer Tidegate"):
        ScopeFile(tmp_path, COUNT)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StateError, match="must be a directory"):
        ScopeFile(tmp_path / "file", COUNT)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    many = scope(",".join(f"{U}:{2 * number}" for number in range(1, 2000)))
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1"))
        pages = file._connection.execute("PRAGMA page_count").fetchone()[0]
        file._connection.execute(f"PRAGMA max_page_count = {pages}")
        file.marks.set(1)
        with pytest.raises(StateError, match="make room on its disk"):
            file.write([Change(1, many, 5)], [])
        file._connection.execute("PRAGMA max_page_count = 1000000")
        file.write([Change(1, many, 5)], [])
        file.marks.clear(1)
    assert found(tmp_path)["ann"] == many


def test_scopes_beyond_a_lower_limit_are_forgotten(tmp_path: Path) -> None:
    with closing(ScopeFile(tmp_path, COUNT)) as file:
        keep(file, 1, scope(f"{U}:1"))
        keep(file, COUNT, scope(f"{U}:1", key="bob"))
    with closing(ScopeFile(tmp_path, 10)) as file:
        assert [entry.kept.key for entry in file.scopes] == ["ann"]
    assert set(found(tmp_path)) == {"ann"}

"""The file of the memory that workers share: made at each start, with what is never forgotten."""

from pathlib import Path

import pytest

from proxy.state.scope_memory import ScopeMemory, kept_flags, make
from proxy.state.shared_names import PLAIN
from proxy.state.sqlite_file import StateError
from routing.consistency.decision import Scope
from routing.consistency.scope_board import flag_of, is_flagged

ANN = (Scope.USER, "ann")
BOB = (Scope.USER, "bob")


def test_workers_see_what_the_others_have_written(tmp_path: Path) -> None:
    make(tmp_path, 2)
    first, second = ScopeMemory(tmp_path, 2, 0), ScopeMemory(tmp_path, 2, 1)
    first.begin_reading(first.row(ANN))
    assert second.is_read(second.row(ANN))


@pytest.mark.parametrize("workers", [2, 3, 64])
def test_writes_without_a_name_outlive_a_start_with_any_number_of_workers(
    tmp_path: Path, workers: int
) -> None:
    make(tmp_path, 2)
    first = ScopeMemory(tmp_path, 2, 0)
    first.add_unlogged([ANN])
    first.begin_reading(first.row(BOB))
    make(tmp_path, workers)
    again = ScopeMemory(tmp_path, workers, 1)
    assert again.is_unlogged(flag_of(ANN))
    assert not again.is_unlogged(flag_of(BOB))
    assert not again.is_read(again.row(BOB))
    assert is_flagged(kept_flags(tmp_path), ANN)


def test_all_scopes_may_have_some(tmp_path: Path) -> None:
    make(tmp_path, 2)
    ScopeMemory(tmp_path, 2, 0).add_unlogged([])
    assert ScopeMemory(tmp_path, 2, 1).is_unlogged(flag_of(BOB))
    assert is_flagged(kept_flags(tmp_path), BOB)


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    make(tmp_path, 2)
    assert (tmp_path / PLAIN.scopes).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"x" * 10, b"x" * 100_000])
def test_a_file_of_somebody_elses_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / PLAIN.scopes).write_bytes(content)
    assert kept_flags(tmp_path) == b""
    make(tmp_path, 2)
    assert not ScopeMemory(tmp_path, 2, 0).is_unlogged(flag_of(ANN))


def test_errors_name_the_file_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=f"{PLAIN.scopes}: .*start the proxy again"):
        ScopeMemory(tmp_path, 2, 0)
    make(tmp_path, 2)
    with pytest.raises(StateError, match="no board for 3 workers; start the proxy again"):
        ScopeMemory(tmp_path, 3, 0)
    (tmp_path / PLAIN.scopes).unlink()
    (tmp_path / PLAIN.scopes).mkdir()
    with pytest.raises(StateError, match="let Tidegate read it"):
        kept_flags(tmp_path)
    with pytest.raises(StateError, match="let Tidegate read it"):
        make(tmp_path, 2)

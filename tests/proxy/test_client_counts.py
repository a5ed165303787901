"""Counts of clients that workers share, beside plain counts of all of them."""

import multiprocessing
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.state import shared_client_counts
from proxy.state.shared_client_counts import SharedClientCounts, make
from proxy.state.shared_names import PLAIN
from proxy.state.sqlite_file import StateError

WORKERS = 3
KINDS = [b"all", b"user app", b"user " + b"\xff" * 90, b"address ::1", b""]

steps = st.lists(
    st.tuples(st.integers(0, WORKERS - 1), st.sampled_from(KINDS), st.booleans()), max_size=60
)


@given(steps=steps)
def test_they_are_those_of_all_workers(
    steps: list[tuple[int, bytes, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("counts")
    make(folder, WORKERS)
    boards = [SharedClientCounts(folder, WORKERS, worker) for worker in range(WORKERS)]
    plain = [Counter[bytes]() for _ in range(WORKERS)]
    for worker, kind, more in steps:
        if more:
            boards[worker].add(kind)
            plain[worker][kind] += 1
        elif plain[worker][kind]:
            boards[worker].remove(kind)
            plain[worker][kind] -= 1
        for board in boards:
            for known in KINDS:
                assert board.of(known) == sum(counts[known] for counts in plain)
    for board, counts in zip(boards, plain, strict=True):
        assert len(board) == len(+counts)


def test_places_are_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_client_counts, "ENTRIES", 2)
    make(tmp_path, 2)
    here, there = SharedClientCounts(tmp_path, 2, 0), SharedClientCounts(tmp_path, 2, 1)
    for number in range(100):
        kind = b"user %d" % number
        here.add(b"all")
        here.add(kind)
        assert (there.of(kind), there.of(b"all")) == (1, 1)
        here.remove(kind)
        here.remove(b"all")
        assert (there.of(kind), there.of(b"all")) == (0, 0)


def test_where_there_is_no_room_a_kind_counts_for_its_worker_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_client_counts, "ENTRIES", 2)
    make(tmp_path, 2)
    here, there = SharedClientCounts(tmp_path, 2, 0), SharedClientCounts(tmp_path, 2, 1)
    for kind in (b"a", b"b", b"c"):
        here.add(kind)
    assert [here.of(kind) for kind in (b"a", b"b", b"c")] == [1, 1, 1]
    assert [there.of(kind) for kind in (b"a", b"b", b"c")] == [1, 1, 0]
    here.remove(b"c")
    here.remove(b"a")
    here.add(b"c")
    assert there.of(b"c") == 1


def count_and_die(folder: Path) -> None:
    board = SharedClientCounts(folder, 2, 1)
    board.add(b"all")
    assert board.of(b"all") == 2
    os._exit(0)


def test_what_a_killed_worker_counted_is_gone(tmp_path: Path) -> None:
    make(tmp_path, 2)
    here = SharedClientCounts(tmp_path, 2, 0)
    here.add(b"all")
    process = multiprocessing.get_context("spawn").Process(target=count_and_die, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert here.of(b"all") == 1
    # And what is started again under its number begins with none, whatever its process id is.
    there = SharedClientCounts(tmp_path, 2, 1)
    assert (here.of(b"all"), there.of(b"all")) == (1, 1)


def test_an_earlier_proxy_keeps_its_own_file(tmp_path: Path) -> None:
    make(tmp_path, 2)
    earlier = SharedClientCounts(tmp_path, 2, 0)
    earlier.add(b"all")
    make(tmp_path, 2)
    now = SharedClientCounts(tmp_path, 2, 1)
    assert now.of(b"all") == 0
    now.add(b"all")
    assert earlier.of(b"all") == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=rf"{PLAIN.clients}: .*; start the proxy again"):
        SharedClientCounts(tmp_path, 2, 0)
    (tmp_path / PLAIN.clients).mkdir()
    with pytest.raises(StateError, match="local disk"):
        make(tmp_path, 2)

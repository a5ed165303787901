"""No read gets an answer to a question that was sent before the read came; none is left waiting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.servers.gathering import Gathering


@pytest.fixture
def gathering() -> Gathering[str]:
    return Gathering()


def test_the_first_who_comes_begins_at_once(gathering: Gathering[str]) -> None:
    assert gathering.begin() == []
    gathering.arrive("a")
    assert gathering.begin() == ["a"]
    assert gathering.end() == ["a"]
    assert gathering.begin() == []


def test_who_comes_while_a_question_is_in_flight_gets_the_next(gathering: Gathering[str]) -> None:
    gathering.arrive("a")
    gathering.begin()
    for reader in ("b", "c"):
        gathering.arrive(reader)
        assert gathering.begin() == []  # one question at a time
    assert gathering.end() == ["a"]
    assert gathering.begin() == ["b", "c"]


def test_an_answer_serves_nobody_twice(gathering: Gathering[str]) -> None:
    gathering.arrive("a")
    gathering.begin()
    assert gathering.end() == ["a"]
    assert gathering.end() == []


def test_who_leaves_is_not_served(gathering: Gathering[str]) -> None:
    for reader in ("a", "b"):
        gathering.arrive(reader)
    gathering.begin()
    for reader in ("c", "d"):
        gathering.arrive(reader)
    assert not gathering.leave("b")
    assert not gathering.leave("d")
    assert gathering.end() == ["a"]
    assert gathering.begin() == ["c"]


def test_when_the_leader_leaves_the_others_ask_again_before_all_who_came_later(
    gathering: Gathering[str],
) -> None:
    for reader in ("a", "b", "c"):
        gathering.arrive(reader)
    gathering.begin()
    gathering.arrive("d")
    assert gathering.leave("a")
    assert gathering.end() == []  # nobody waits for the question of "a" any more
    assert gathering.begin() == ["b", "c", "d"]


def test_who_gives_up_leaves_the_question_to_the_others(gathering: Gathering[str]) -> None:
    for reader in ("a", "b"):
        gathering.arrive(reader)
    gathering.begin()
    gathering.arrive("c")
    assert not gathering.give_up("a")  # although it led
    assert gathering.begin() == []
    assert not gathering.give_up("c")
    assert gathering.end() == ["b"]
    assert not gathering.give_up("b")


def test_a_question_for_which_nobody_waits_is_given_up(gathering: Gathering[str]) -> None:
    for reader in ("a", "b"):
        gathering.arrive(reader)
    gathering.begin()
    gathering.arrive("c")
    assert not gathering.give_up("a")
    assert gathering.give_up("b")
    gathering.postpone()
    assert gathering.begin() == ["c"]


def test_a_leader_that_gave_up_still_takes_its_question_along(gathering: Gathering[str]) -> None:
    for reader in ("a", "b"):
        gathering.arrive(reader)
    gathering.begin()
    gathering.give_up("a")
    assert gathering.leave("a")
    assert gathering.begin() == ["b"]


def test_readers_are_told_apart_by_identity_alone() -> None:
    gathering: Gathering[list[int]] = Gathering()
    first, second = [1], [1]
    for reader in (first, second):
        gathering.arrive(reader)
    gathering.begin()
    assert not gathering.leave(second)
    (left,) = gathering.end()
    assert left is first


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=80))
def test_whoever_is_served_had_come_before_the_question(steps: list[tuple[int, int]]) -> None:
    gathering: Gathering[int] = Gathering()
    readers = 0
    arrived: dict[int, int] = {}  # of those who wait
    asked_at: int | None = None
    for clock, (kind, which) in enumerate(steps):
        if kind <= 1:
            readers += 1
            arrived[readers] = clock
            gathering.arrive(readers)
        elif kind == 2:
            askers = gathering.begin()
            assert bool(askers) <= (asked_at is None)
            if askers:
                asked_at = clock
                assert set(askers) == set(arrived)  # nobody has to wait for another
        elif kind == 3:
            served = gathering.end()
            assert bool(served) <= (asked_at is not None)
            for reader in served:
                assert asked_at is not None
                assert arrived.pop(reader) < asked_at
            asked_at = None
        elif arrived:
            reader = sorted(arrived)[which % len(arrived)]
            del arrived[reader]
            if gathering.leave(reader):
                asked_at = None
        assert sorted(gathering.asked + gathering.waiting) == sorted(arrived)
        assert bool(gathering.asked) == (asked_at is not None)

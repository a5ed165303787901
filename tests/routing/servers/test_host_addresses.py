"""An address is left when the name no longer leads there, and not when answers merely rotate."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.servers.host_addresses import HostAddresses

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def connected(address: str = A) -> HostAddresses:
    addresses = HostAddresses("db")
    assert addresses.add([address]) == ""
    addresses.use(address, addresses.current)
    return addresses


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "fe80::1%eth0"])
def test_an_address_leads_to_itself_for_ever(host: str) -> None:
    addresses = HostAddresses(host)
    assert addresses.fixed
    assert addresses.candidates == [host]
    assert addresses.leads_to(host)


def test_a_name_leads_nowhere_before_the_first_answer() -> None:
    addresses = HostAddresses("db")
    assert not addresses.fixed
    assert addresses.candidates == []
    assert addresses.add([A, B]) == ""
    assert addresses.candidates == [A, B]
    assert addresses.leads_to(B)


def test_the_address_that_took_a_connection_comes_first() -> None:
    addresses = HostAddresses("db")
    addresses.add([A, B])
    addresses.use(B, addresses.current)
    assert addresses.candidates == [B, A]
    addresses.add([A, B, C])
    assert addresses.candidates == [B, A, C]
    assert not addresses.leads_to(A)


def test_an_address_is_gone_when_some_answers_have_left_it_out() -> None:
    addresses = connected()
    assert [addresses.add([B]) for _ in range(3)] == ["", "", A]
    assert addresses.candidates == [B]
    assert addresses.leads_to(B)
    assert not addresses.leads_to(A)
    assert addresses.add([B]) == ""


def test_an_address_in_some_of_the_answers_stays() -> None:
    addresses = connected()
    for answer in [[B], [B], [A, B], [B], [B], [C], [A], [B]]:
        assert addresses.add(answer) == ""
    assert addresses.candidates[0] == A


def test_the_answers_that_are_needed_grow_with_the_rotation() -> None:
    """A name with six addresses, of which each answer has one, is left at most once."""
    addresses = connected()
    names = [f"10.0.1.{number}" for number in range(5)] + [A]
    left = []
    for turn in range(600):
        gone = addresses.add([names[turn % 6]])
        if gone:
            left.append(gone)
            addresses.use(addresses.candidates[0], addresses.current)
    assert len(left) <= 2
    assert addresses.rotates


@given(st.lists(st.sampled_from([A, B, C]), min_size=400, max_size=400))
def test_random_answers_settle(answers: list[str]) -> None:
    addresses = connected()
    left = []
    for number, answer in enumerate(answers):
        if addresses.add([answer]):
            left.append(number)
            addresses.use(addresses.candidates[0], addresses.current)
    assert all(later - earlier >= 3 for earlier, later in pairwise(left))


@pytest.mark.parametrize("lasts", [1, 2, 5])
def test_a_name_whose_answers_last_settles(lasts: int) -> None:
    """Three addresses in turn, each in so many answers, as a resolver's cache has it."""
    addresses = connected()
    left = []
    for number in range(1200):
        if addresses.add([[A, B, C][number // lasts % 3]]):
            left.append(number)
            addresses.use(addresses.candidates[0], addresses.current)
    assert len(left) <= 4
    assert not left or left[-1] < 40


def test_a_name_that_moves_back_is_followed_as_quickly() -> None:
    addresses = connected()
    for here, there in ((A, B), (B, A), (A, B)):
        assert [addresses.add([there]) for _ in range(3)] == ["", "", here]
        addresses.use(there, addresses.current)
        for _ in range(10):
            assert addresses.add([there]) == ""
    assert not addresses.rotates


def test_a_name_that_no_longer_rotates_is_followed_as_quickly_as_at_first() -> None:
    addresses = connected()
    for answer in ([B], [B], [A], [B], [A]):
        addresses.add([*answer])
    assert addresses.rotates
    assert addresses.patience > 3
    for _ in range(60):
        addresses.add([A])
    assert not addresses.rotates
    assert [addresses.add([B]) for _ in range(3)] == ["", "", A]


def test_another_connection_elsewhere_moves_it_at_once() -> None:
    addresses = connected()
    addresses.add([B])
    addresses.use(B, addresses.current)
    assert addresses.candidates == [B]
    assert not addresses.leads_to(A)
    assert [addresses.add([B]) for _ in range(10)] == [""] * 10


def test_of_two_attempts_that_end_elsewhere_the_first_counts() -> None:
    addresses = connected()
    addresses.add([A, B, C])
    former = addresses.current
    addresses.use(B, former)
    addresses.use(A, former)
    assert addresses.current == B
    addresses.use(C, former)
    assert addresses.current == B
    assert not addresses.leads_to(C)


def test_an_answer_without_end_is_bounded() -> None:
    addresses = HostAddresses("db")
    addresses.add(f"10.1.{number // 256}.{number % 256}" for number in range(10_000))
    assert len(addresses.candidates) == 32

"""What the next client of a host is expected to negotiate."""

from protocol.constants import Capability
from proxy.shared.client_profile import ALIKE, ClientProfile

ONE = Capability.CLIENT_DEPRECATE_EOF
OTHER = Capability.CLIENT_FOUND_ROWS


def test_nothing_is_expected_before_several_were_alike() -> None:
    habits = ClientProfile()
    for _ in range(ALIKE - 1):
        habits.saw("a", ONE, "app")
        assert habits.expected("a") is None
    habits.saw("a", ONE, "app")
    assert habits.expected("a") == (ONE, "app")
    assert habits.expected("b") is None


def test_one_that_differs_ends_it() -> None:
    habits = ClientProfile()
    for _ in range(2 * ALIKE):
        habits.saw("a", ONE, "app")
    habits.saw("a", OTHER, "app")
    assert habits.expected("a") is None


def test_those_that_take_turns_are_never_expected() -> None:
    habits = ClientProfile()
    for _ in range(4 * ALIKE):
        habits.saw("a", ONE, "app")
        habits.saw("a", OTHER, "app")
        assert habits.expected("a") is None


def test_the_user_is_the_last_one() -> None:
    habits = ClientProfile()
    for _ in range(ALIKE):
        habits.saw("a", ONE, "app")
    habits.saw("a", ONE, "other")
    assert habits.expected("a") == (ONE, "other")


def test_the_least_recent_hosts_go_first() -> None:
    habits = ClientProfile(most=2)
    for where in ("a", "b", "a", "c"):
        for _ in range(ALIKE):
            habits.saw(where, ONE, "app")
    assert [where for where in "abc" if habits.expected(where)] == ["a", "c"]


def test_a_name_that_no_server_has_takes_no_room() -> None:
    """A client that has not logged in yet may send one as long as a login may be."""
    habits = ClientProfile()
    for _ in range(ALIKE):
        habits.saw("host", Capability(0), "x" * 200_000)
    expected = habits.expected("host")
    assert expected is not None
    assert len(expected[1]) < 100

"""What the next client of a host is expected to negotiate."""

from protocol.constants import Capability
from proxy.shared.client_profile import ALIKE, ClientProfile

ONE = Capability.CLIENT_DEPRECATE_EOF
OTHER = Capability.CLIENT_FOUND_ROWS


def test_nothing_is_expected_before_several_were_alike() -> None:
    profiles = ClientProfile()
    for _ in range(ALIKE - 1):
        profiles.saw("a", ONE, "app")
        assert profiles.prediction("a") is None
    profiles.saw("a", ONE, "app")
    assert profiles.prediction("a") == (ONE, "app")
    assert profiles.prediction("b") is None


def test_one_that_differs_ends_it() -> None:
    profiles = ClientProfile()
    for _ in range(2 * ALIKE):
        profiles.saw("a", ONE, "app")
    profiles.saw("a", OTHER, "app")
    assert profiles.prediction("a") is None


def test_those_that_take_turns_are_never_expected() -> None:
    profiles = ClientProfile()
    for _ in range(4 * ALIKE):
        profiles.saw("a", ONE, "app")
        profiles.saw("a", OTHER, "app")
        assert profiles.prediction("a") is None


def test_the_user_is_the_last_one() -> None:
    profiles = ClientProfile()
    for _ in range(ALIKE):
        profiles.saw("a", ONE, "app")
    profiles.saw("a", ONE, "other")
    assert profiles.prediction("a") == (ONE, "other")


def test_the_least_recent_hosts_go_first() -> None:
    profiles = ClientProfile(most=2)
    for where in ("a", "b", "a", "c"):
        for _ in range(ALIKE):
            profiles.saw(where, ONE, "app")
    assert [where for where in "abc" if profiles.prediction(where)] == ["a", "c"]


def test_a_name_that_no_server_has_takes_no_room() -> None:
    """A client that has not logged in yet may send one as long as a login may be."""
    profiles = ClientProfile()
    for _ in range(ALIKE):
        profiles.saw("host", Capability(0), "x" * 200_000)
    expected = profiles.prediction("host")
    assert expected is not None
    assert len(expected[1]) < 100

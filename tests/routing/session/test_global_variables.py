"""What is said of global variables that differ between a replica and the primary."""

import pytest

from routing.session.defaults import NAMES, SETS
from routing.session.global_variables import (
    COMPARED,
    OF_WHOLE_SERVER,
    PACKETS,
    carried,
    not_carried,
)

ALIKE = dict.fromkeys(COMPARED, "1")


@pytest.mark.parametrize("name", COMPARED)
def test_each_variable_counts_on_one_side(name: str) -> None:
    other = ALIKE | {name: "2"}
    differing = not_carried(other, ALIKE)
    assert list(differing) == ([name] if name in (*OF_WHOLE_SERVER, PACKETS) else [])
    assert carried(other, ALIKE) == ([name] if name in NAMES else [])
    assert all(name in text for text in differing.values())


def test_what_a_login_chooses_is_no_difference() -> None:
    other = ALIKE | dict.fromkeys((*SETS, "system_time_zone"), "2")
    assert not not_carried(other, ALIKE)
    assert not carried(other, ALIKE)


def test_what_one_server_does_not_know_is_no_difference() -> None:
    for known, unknown in ((ALIKE, {}), ({}, ALIKE)):
        assert not not_carried(known, unknown)
        assert not carried(known, unknown)


def test_only_a_smaller_packet_is_a_difference() -> None:
    assert PACKETS in not_carried({PACKETS: "2048"}, {PACKETS: "1024"})
    assert not not_carried({PACKETS: "1024"}, {PACKETS: "2048"})
    assert not not_carried({PACKETS: "much"}, {PACKETS: "²"})

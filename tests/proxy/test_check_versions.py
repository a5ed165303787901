"""Which versions of servers are taken: those from 8.0.26, and calendar versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.address import Address
from proxy.check.findings import judge
from proxy.check.server_facts import ServerFacts
from proxy.config import Config
from routing.servers.topology import Role

CONFIG = Config(Address("db1", 3306))


def complaints(version: str) -> list[str]:
    """What is said about a version."""
    facts = ServerFacts("db1:3306", Role.PRIMARY, version)
    return [finding.text for finding in judge(CONFIG, [facts]) if "needs 8.0.26" in finding.text]


@pytest.mark.parametrize(
    "version",
    [
        *("8.0.26", "8.0.27", "8.0.100", "8.1.0", "8.4.6", "9.0.0", "9.7.4", "10.0.0"),
        *("26.7.0", "26.7", "26.10.1", "27.1.0-lts"),
        *(
            "8.0.26-debug",
            "8.0.35-0ubuntu0.22.04.1",
            "8.0.39-30-log",
            "8.0.26rc1",
            "9.7.4-commercial",
        ),
        *("8.0.28-google", "8.0.36-28.1", "8.4.3-azure"),
    ],
)
def test_versions_that_are_taken(version: str) -> None:
    assert not complaints(version)


@pytest.mark.parametrize(
    "version",
    ["8.0.25", "8.0.3", "8.0.11-debug", "8.0", "8", "5.7.44-log", "5.6.51", "", "-", "x", "8.0.²"],
)
def test_versions_that_are_too_old_or_none(version: str) -> None:
    assert len(complaints(version)) == 1


@given(st.tuples(*[st.integers(0, 99)] * 3), st.sampled_from(["", "-log", "rc2", "-1.el9"]))
def test_versions_are_compared_by_their_numbers(numbers: tuple[int, ...], suffix: str) -> None:
    version = ".".join(map(str, numbers)) + suffix
    assert bool(complaints(version)) == (numbers < (8, 0, 26))


@given(st.text(max_size=12))
def test_no_text_is_an_error(version: str) -> None:
    complaints(version)

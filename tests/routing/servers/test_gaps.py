"""The transactions that a replica lacks before the newest one that it has."""

import pytest

from protocol.gtid import GtidSet
from routing.servers.gaps import gaps

A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
B = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"


@pytest.mark.parametrize(
    ("applied", "primary", "expected"),
    [
        ("", f"{A}:1-9", ""),
        (f"{A}:1-5", f"{A}:1-9", ""),  # it lags
        (f"{A}:1-3:5-6", f"{A}:1-9", f"{A}:4"),
        (f"{A}:5", f"{A}:1-9", f"{A}:1-4"),
        (f"{A}:1-3:5-6", f"{A}:1-3:5-9", ""),  # nothing ever had that number
        (f"{A}:1-9,{B}:2", f"{A}:1-9,{B}:1-2", f"{B}:1"),
        (f"{A}:1:tag:1:3", f"{A}:1:tag:1-4", f"{A}:tag:2"),
        (f"{A}:1-9", f"{A}:1-3", ""),  # what only the primary lacks does not count
    ],
)
def test_gaps(applied: str, primary: str, expected: str) -> None:
    assert gaps(GtidSet.parse(applied), GtidSet.parse(primary)) == GtidSet.parse(expected)

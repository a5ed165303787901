"""The checker of lists finds each anomaly that is planted, and none where there is none."""

import pytest

from tests.support.append_checker import Operation, Transaction, check


def done(
    number: int, *operations: Operation, outcome: str = "committed", client: str = ""
) -> Transaction:
    return Transaction(number, client or f"c{number}", list(operations), outcome)


def put(key: int, value: int) -> Operation:
    return Operation(key, appended=value)


def got(key: int, *values: int) -> Operation:
    return Operation(key, values=values)


def test_a_clean_history() -> None:
    assert not check(
        [
            done(1, got(1), put(1, 1), got(1, 1), put(1, 2), client="a"),
            done(
                2, got(1), got(1, 1, 2), put(1, 3), client="b"
            ),  # not repeatable, which it need not be
            done(3, put(1, 9), got(1, 1, 2, 3, 9), outcome="aborted"),
            done(4, put(1, 4), outcome="unknown"),
            done(5, got(1, 1, 2, 3, 4), client="a"),
        ]
    )


ANOMALIES = {
    "incompatible order": [
        *(done(1, put(1, 1)), done(2, put(1, 2))),
        *(done(3, got(1, 1)), done(4, got(1, 2, 1))),
    ],
    "G1a": [done(1, put(1, 1), outcome="aborted"), done(2, got(1, 1))],
    "G1b": [done(1, put(1, 1), put(1, 2)), done(2, got(1, 1))],
    "internal": [done(1, put(1, 1), got(1))],
    "own": [done(1, put(1, 1), client="a"), done(2, got(1), client="a")],
    "G0": [
        *(done(1, put(1, 1), put(2, 1)), done(2, put(1, 2), put(2, 2))),
        done(3, got(1, 1, 2), got(2, 2, 1)),
    ],
    "G1c": [done(1, put(1, 1), got(2, 2)), done(2, put(2, 2), got(1, 1))],
}


@pytest.mark.parametrize("name", ANOMALIES)
def test_planted_anomalies(name: str) -> None:
    found = {anomaly.partition(":")[0] for anomaly in check(ANOMALIES[name])}
    assert name in found
    assert found <= {name, "G1c"}  # a circle of appends is one of appends and reads


def snapshot(number: int, *operations: Operation) -> Transaction:
    return Transaction(number, f"c{number}", list(operations), "committed", snapshot=True)


WRITTEN = [done(1, put(1, 1), put(3, 6)), done(2, put(1, 2)), done(3, put(3, 7), put(2, 5))]
ALL = done(8, got(1, 1, 2), got(2, 5), got(3, 6, 7))


def test_a_snapshot_is_of_one_state() -> None:
    whole = [snapshot(9, got(1, 1, 2), got(2, 5), got(1, 1, 2)), snapshot(10, got(1), got(2))]
    assert not check([*WRITTEN, ALL, *whole])
    assert not check([*WRITTEN, ALL, snapshot(9, got(1, 1), got(2), got(3, 6))])


@pytest.mark.parametrize(
    ("anomaly", "torn"),
    [
        ("changed", snapshot(9, got(1, 1), got(1, 1, 2))),
        ("fractured", snapshot(9, got(1, 1), got(3))),  # of 1 it saw one half
        ("fractured", snapshot(9, got(2, 5), got(1))),  # 3 stood behind 1
    ],
)
def test_a_snapshot_that_is_none_is_found(anomaly: str, torn: Transaction) -> None:
    (found,) = check([*WRITTEN, ALL, torn])
    assert found.startswith(f"{anomaly}: ")
    torn.snapshot = False
    assert not check([*WRITTEN, ALL, torn])

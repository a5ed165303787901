"""One finding told in full, as text."""

import pytest

from spark_jobs.findings.counter_example import counter_example
from spark_jobs.verdict import Finding
from tests.spark_jobs.found import GTID, missed, read


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (missed(), f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by no digest (record 4)\n"),
        (
            missed(session=8, digest="0f"),
            f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by 0f (session 8, record 4)\n",
        ),
        (
            missed("saw", run="b2"),
            f"  saw       {GTID}:7, answered 2.50 ms earlier by no digest (session 7, run b2, "
            "record 4)\n",
        ),
        (missed("had"), f"  had       {GTID}:7, told by the primary 2.50 ms earlier (record 4)\n"),
        (
            missed("had", run="b2", session=0),
            f"  had       {GTID}:7, told by the primary 2.50 ms earlier (run b2, record 4)\n",
        ),
        (
            missed(seq=-3),
            f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by statements (before the day)\n",
        ),
    ],
)
def test_a_counter_example_tells_who_named_what_is_missing(
    source: dict[str, object], told: str
) -> None:
    assert told in counter_example(read(Finding.KNOWN_TOO_SMALL, missed=[source]))


@pytest.mark.parametrize(
    ("promise", "told"),
    [
        ({"level": "MONOTONIC_READS", "scope": "user"}, "MONOTONIC_READS, scope user"),
        ({"level": "STRONG", "scope": "user"}, "STRONG"),
        ({"level": "BOUNDED_STALENESS", "bound_us": 2500}, "BOUNDED_STALENESS of 2.50 ms"),
        ({"level": "BOUNDED_STALENESS"}, "BOUNDED_STALENESS, scope connection"),
    ],
)
def test_a_counter_example_tells_the_promise(promise: dict[str, object], told: str) -> None:
    assert f"  promised  {told}\n" in counter_example(read(Finding.NO_PROOF, **promise))


def test_names_from_the_log_cannot_steer_a_terminal() -> None:
    told = counter_example(read(Finding.NO_PROOF, user="a\n  finding   ok\x1b[2J", digest="\x07"))
    assert told.count("\n") == 8
    assert "\n  read      \\x07 by a\\n  finding   ok\\x1b[2J, answered by" in told

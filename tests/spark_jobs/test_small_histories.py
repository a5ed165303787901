"""Small histories, judged by the audit and by force; both must say the same of every read.

By force means: read by read, from the promises in docs/consistency.md, with sets of plain numbers
and a look at all records each time. Nothing of the audit's is used for it.
"""

import pytest

pytest.importorskip("pyspark")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark_jobs.oracle import Record
from tests.spark_jobs.routing_log import Run
from tests.spark_jobs.small_histories import CALM, NOTHING, Numbers, Step, play, steps
from tests.spark_jobs.without_spark import audit


def read_numbers(gtids: object) -> Numbers:
    its: set[int] = set()
    for part in str(gtids or "").split(":")[1:]:
        low, _, high = part.partition("-")
        its.update(range(int(low), int(high or low) + 1))
    return frozenset(its)


def us(record: Record, name: str) -> int:
    return int(str(record[name]))


def by_force(log: list[Record], read: Record) -> tuple[str, Numbers]:
    """What is to be said of a read that a replica answered, and what it lacked."""
    owed, free = owed_to(log, read)
    claim = read_numbers(read["proof_set"]) if read["proof"] != "none" else NOTHING
    lacking = owed - claim - free
    if lacking:
        return "violation", lacking
    unbacked = owed - evidence(log, read) - free if read["proof"] == "known" else NOTHING
    return "not judged" if unbacked else "ok", unbacked


def owed_to(log: list[Record], read: Record) -> tuple[Numbers, Numbers]:
    """What a read must see, and what of it needs no proof: the very server showed it before."""
    own = seen = same = NOTHING
    level = read["level"]
    if level in ("STRONG", "BOUNDED_STALENESS"):
        until_us = us(read, "arrived_us") - int(str(read["bound_us"] or 0))
        for it in log:
            if us(it, "ended_us") <= until_us:
                own |= read_numbers(it["own_gtids"])
                if it["role"] == "primary":
                    own |= read_numbers(it["observed"])
                    own |= read_numbers(it["proof_set"]) if it["kind"] == "proof" else NOTHING
        return own, NOTHING
    for it in log:
        if it["kind"] == "statement" and before(it, read):
            own |= read_numbers(it["own_gtids"])
            if it["class"] == "write":
                own |= read_numbers(it["observed"])
            shows = read_numbers(it["observed"])
            if it["proof"] == "waited":
                shows |= read_numbers(it["proof_set"])
            if it["proof"] == "known":
                shows |= read_numbers(it["proof_set"]) & evidence(log, it)
            seen |= shows
            same |= shows if it["server"] == read["server"] else NOTHING
    if level == "READ_OWN_WRITES":
        return own, NOTHING
    return own | seen, same - own


def before(it: Record, read: Record) -> bool:
    scope = str(read["scope"])
    if scope == "connection":
        alike = it["session"] == read["session"]
        return alike and us(it, "ordinal") < us(read, "ordinal")
    alike = scope == "proxy" or it[scope] == read[scope]
    return alike and us(it, "ended_us") <= us(read, "arrived_us")


def evidence(log: list[Record], read: Record) -> Numbers:
    """What the server had said of itself when a read was sent to it."""
    said = NOTHING
    for it in log:
        if it["server"] != read["server"]:
            continue
        ended = us(it, "ended_us") <= us(read, "dispatched_us")
        if ended and it["kind"] == "proof":
            said |= read_numbers(it["proof_set"])
        if ended:
            said |= read_numbers(it["observed"])
        waited_us = us(it, "dispatched_us") + us(it, "wait_us")
        if it["proof"] == "waited" and waited_us <= us(read, "dispatched_us"):
            said |= read_numbers(it["proof_set"])
    return said


@pytest.mark.not_fast
@settings(max_examples=3 * settings.default.max_examples, deadline=None, derandomize=True)
@given(st.lists(steps(CALM), min_size=2, max_size=14))
def test_the_audit_says_what_force_says(plan: list[Step]) -> None:
    run = Run()
    play(plan, run)
    log = run.records
    found = audit(log)
    assert not found.clocks
    assert not found.lost
    said = {seq: it for (*_, seq), it in found.reads.items()}
    for record in log:
        if record["class"] == "read" and record["role"] == "replica":
            it = said[record["seq"]]
            assert (it.verdict, read_numbers(it.missing)) == by_force(log, record), record

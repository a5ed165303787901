"""Small histories, judged by the audit and by force; both must say the same of every read.

By force means: read by read, from the promises in docs/consistency.md, with sets of plain numbers
and a look at all records each time. Nothing of the audit's is used for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

pytest.importorskip("pyspark")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark_jobs.oracle import Record
from tests.spark_jobs.routing_log import UUID, Run
from tests.spark_jobs.without_spark import audit

Numbers = frozenset[int]
NOTHING: Numbers = frozenset()
P = UUID["primary"]
SEEN = ("MONOTONIC_READS", "READ_ALL_WRITES")
LEVELS = ("READ_OWN_WRITES", *SEEN, "STRONG", "BOUNDED_STALENESS")
SCOPES = ("connection", "user", "application", "proxy")
KINDS = ("write", "write", "known", "known", "waited", "none", "primary", "look", "ask")
MOST = 6
"""Writes of a history, about."""


@dataclass
class Step:
    """What happens in a history, so many µs after the step before has begun."""

    what: str
    session: int
    server: str
    level: str
    scope: str
    after_us: int
    takes_us: int
    bound_us: int
    shown: Numbers
    observed: Numbers

    def record(self, run: Run, arrived_us: int, written: int) -> Record:
        """Enter it; the primary then has the transactions from 1 to `written`."""
        executed = text(range(1, written + 1))
        times = {"arrived_us": arrived_us, "dispatched_us": arrived_us + 1}
        whose = {"user": "ann", "application": ("cart", "till")[self.session % 2]}
        fields = {**times, "ended_us": arrived_us + 1 + self.takes_us}
        if self.what == "ask":
            return run.probe("primary", executed, **fields)
        if self.what == "look":
            return run.probe(self.server, text(self.shown), **fields)
        fields |= {**whose, "level": self.level, "scope": self.scope}
        fields["bound_us"] = self.bound_us if self.level == "BOUNDED_STALENESS" else None
        tracks_all = self.level in SEEN
        if self.what == "write":
            told = {"observed": executed, "own_known": False} if tracks_all else {}
            own = "" if tracks_all else text([written])
            return run.write(self.session, own, **fields, **told)
        if self.what == "primary":
            told = {"observed": executed} if tracks_all else {}
            return run.read(self.session, "primary", "primary", **fields, **told)
        told = {"observed": text(self.observed)} if tracks_all else {}
        told |= {"wait_us": 1} if self.what == "waited" else {}
        claim = None if self.what == "none" else text(self.shown)
        return run.read(self.session, self.server, self.what, claim, **fields, **told)


numbers = st.frozensets(st.integers(1, MOST))
fronts = st.integers(0, MOST).map(lambda last: frozenset(range(1, last + 1)))
steps = st.builds(
    Step,
    what=st.sampled_from(KINDS),
    session=st.integers(1, 2),
    server=st.sampled_from(("r1", "r2")),
    level=st.sampled_from(LEVELS),
    scope=st.sampled_from(SCOPES),
    after_us=st.integers(0, 4),
    takes_us=st.integers(1, 6),
    bound_us=st.integers(1, 12),
    shown=st.one_of(fronts, numbers),
    observed=st.one_of(st.just(NOTHING), fronts, numbers),
)


def history(plan: Iterable[Step]) -> list[Record]:
    """Let two sessions, which wait for their own answers, and the monitor do all this."""
    run = Run()
    now_us, written = run.clock.now, 0
    free_us = {1: now_us, 2: now_us}
    for step in plan:
        now_us += step.after_us
        arrived_us = now_us
        if step.what not in ("ask", "look"):
            arrived_us = now_us = max(now_us, free_us[step.session])
        written += step.what == "write"
        record = step.record(run, arrived_us, written)
        if step.what not in ("ask", "look"):
            free_us[step.session] = us(record, "ended_us")
    run.number_by_end()
    return run.records


# By force


def text(its: Iterable[int]) -> str:
    return f"{P}:{':'.join(map(str, sorted(its)))}" if set(its) else ""


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


@settings(max_examples=1_000, deadline=None, derandomize=True)
@given(st.lists(steps, min_size=2, max_size=14))
def test_the_audit_says_what_force_says(plan: list[Step]) -> None:
    log = history(plan)
    found = audit(log)
    assert not found.clocks
    assert not found.lost
    said = {seq: it for (*_, seq), it in found.reads.items()}
    for record in log:
        if record["class"] == "read" and record["role"] == "replica":
            it = said[record["seq"]]
            assert (it.verdict, read_numbers(it.missing)) == by_force(log, record), record

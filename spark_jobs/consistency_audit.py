"""Did every read of READ_OWN_WRITES see its session's writes?

The audit goes through each session once, in the order of its records, which is the order in which
its statements were answered: a connection has one statement at a time. It adds up what the session
was told it had committed, and holds each read against that sum. Neither the proxy's ``required``
nor its clock has a say in it.

What it must trust, since the log alone cannot show it: that ``own_gtids`` is what the server
reported, that ``own_known`` is true only of commands that leave nothing unnamed, and that a primary
which acknowledged a write shows it.
"""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as fn

from spark_jobs.evidence import is_read, is_unnamed
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.schema import BACKING, JUDGED, NUMBERED, READ, RUN, SESSION, VERDICTS
from spark_jobs.verdict import Finding, Verdict

LEVEL: Final = "READ_OWN_WRITES"
SCOPE: Final = "connection"

_MOST: Final = 16
"""Missing intervals that a counter-example names."""

_MISSED_WRITES: Final = 5
"""Writes that a counter-example names."""

_GIVEN_UP: Final = ("none", "wait_timeout")
"""Proof and reason of a replica's answer under the timeout policy `stale`."""

_CONTEXT: Final = (
    *("required", "proof_set", "own_gtids", "scope", "hole"),
    *("unbacked", "reached", "mark"),
)
"""What a judgement needs beyond READ."""

_Missed = tuple[int, int, str | None, str]


def transform(records: DataFrame, backing: DataFrame) -> DataFrame:
    """Judge every read.

    Args:
        records: NUMBERED without repeats.
        backing: BACKING of the same records.

    Returns:
        JUDGED: one row per read.
    """
    statements = (
        records.select(NUMBERED.names)
        .where(fn.col("kind") == "statement")
        .join(backing.select(BACKING.names), [*RUN, "seq"], "left")
        .select(*READ, *_CONTEXT, is_read().alias("is_read"), is_unnamed().alias("is_unnamed"))
    )
    return ordered_pass(statements, SESSION, ("seq",), _Judge, JUDGED)


def count(judged: DataFrame) -> DataFrame:
    """Count the verdicts.

    Args:
        judged: JUDGED.

    Returns:
        VERDICTS.
    """
    return (
        judged.select("verdict", "finding")
        .groupBy("verdict", "finding")
        .agg(fn.count("*").alias("reads"))
        .orderBy(fn.desc("reads"), "verdict", "finding")
        .select(VERDICTS.names)
    )


def examples(judged: DataFrame, verdict: Verdict, most: int) -> DataFrame:
    """Pick the first few reads of each finding under a verdict.

    Args:
        judged: JUDGED.
        verdict: which.
        most: reads per finding.

    Returns:
        JUDGED.
    """
    order = ("arrived_us", *RUN, "seq")
    place = fn.row_number().over(Window.partitionBy("finding").orderBy(*order))
    return (
        judged.select(JUDGED.names)
        .where(fn.col("verdict") == verdict.value)
        .withColumn("place", place)
        .where(fn.col("place") <= most)
        .orderBy("finding", "place")
        .select(JUDGED.names)
    )


class _Statement(NamedTuple):
    """READ, _CONTEXT and two flags, in this order."""

    proxy: str
    worker: int
    run: str
    session: int
    seq: int
    ordinal: int
    arrived_us: int
    dispatched_us: int
    ended_us: int
    user: str
    schema: str | None
    digest: str | None
    level: str
    server: str | None
    server_uuid: str | None
    role: str | None
    reason: str
    proof: str
    wait_us: int
    outcome: str
    required: str | None
    proof_set: str | None
    own_gtids: str
    scope: str
    hole: bool
    unbacked: str | None
    reached: int | None
    mark: int | None
    is_read: bool
    is_unnamed: bool


class _Judge:
    """One session in the order of its statements."""

    def __init__(self) -> None:
        self._required = GtidSet()
        self._writes = _Writes()
        self._writers: set[str | None] = set()
        self._wrote_us: int | None = None
        self._doubt: Finding | None = None
        self._mark = 0
        self._unbounded = False

    def eval(self, row: Row) -> Iterator[tuple[object, ...]]:
        it = _Statement._make(row)
        if it.hole:
            self._doubts(Finding.MISSING_RECORDS, it.mark)
        if it.is_read:
            verdict, finding, missing = self._judge(it)
            plain = verdict is Verdict.OK
            yield (
                *it[: len(READ)],
                verdict.value,
                finding.value,
                None if plain else it.required,
                None if plain else it.proof_set,
                _shortened(missing) if missing else None,
                self._writes.of(missing) if missing else [],
                self._is_understated(it),
                self._since_write_us(it),
            )
        self._learn(it)

    def _judge(self, it: _Statement) -> tuple[Verdict, Finding, GtidSet | None]:
        if it.level == "BEST_EFFORT":
            return Verdict.NO_PROMISE, Finding.BEST_EFFORT, None
        if it.level != LEVEL or it.scope != SCOPE:
            return Verdict.NOT_JUDGED, Finding.UNKNOWN_LEVEL, None
        if it.server is None:
            return Verdict.NO_ANSWER, Finding.NO_SERVER, None
        if it.role == "primary":
            if self._writers - {it.server_uuid}:
                return Verdict.NOT_JUDGED, Finding.PRIMARY_CHANGED, None
            return Verdict.OK, Finding.PRIMARY, None
        return self._judge_replica(it)

    def _judge_replica(self, it: _Statement) -> tuple[Verdict, Finding, GtidSet | None]:
        doubt = self._doubt if self._unbounded or self._mark > (it.reached or 0) else None
        if not self._required and doubt is None:
            return Verdict.OK, Finding.NOTHING_WRITTEN, None
        if (it.proof, it.reason) == _GIVEN_UP:
            return Verdict.GIVEN_UP, Finding.STALE_POLICY, None
        claim, finding = _claim(it)
        missing = self._required.minus(claim, _MOST)
        if missing:
            return Verdict.VIOLATION, finding, missing
        if it.proof == "known" and it.unbacked != "":
            unbacked = claim if it.unbacked is None else parse(it.unbacked)
            missing = self._required.common(unbacked, _MOST)
            if missing:
                return Verdict.NOT_JUDGED, Finding.UNBACKED, missing
        if doubt is not None:
            return Verdict.NOT_JUDGED, doubt, None
        return Verdict.OK, Finding.KNOWN if it.proof == "known" else Finding.WAITED, None

    def _learn(self, it: _Statement) -> None:
        if it.own_gtids:
            try:
                own = parse(it.own_gtids)
            except MalformedGtidSetError:
                self._doubts(Finding.MALFORMED_WRITE, None)
            else:
                self._required.update(own)
                self._writes.add(own, it)
                self._wrote_us = it.ended_us
            self._writers.add(it.server_uuid)
        if it.is_unnamed:
            self._doubts(Finding.UNNAMED_WRITE, it.mark)
            if it.server_uuid is not None:
                self._writers.add(it.server_uuid)

    def _doubts(self, finding: Finding, mark: int | None) -> None:
        """From here on a replica must have reached the mark; without one nothing is enough."""
        self._doubt = finding
        if mark is None:
            self._unbounded = True
        else:
            self._mark = max(self._mark, mark)

    def _is_understated(self, it: _Statement) -> bool:
        if it.required is None or it.role == "primary" or it.level != LEVEL:
            return False
        try:
            return not parse(it.required).covers(self._required)
        except MalformedGtidSetError:
            return True

    def _since_write_us(self, it: _Statement) -> int | None:
        if it.proof != "waited" or self._wrote_us is None:
            return None
        return it.dispatched_us + it.wait_us - self._wrote_us


class _Writes:
    """Which statement of the session committed a GTID."""

    def __init__(self) -> None:
        self._spans: defaultdict[str, list[tuple[int, int, _Missed]]] = defaultdict(list)

    def add(self, own: GtidSet, it: _Statement) -> None:
        for tsid, start, end in own:
            write = (it.seq, it.ended_us, it.digest, it.own_gtids)
            insort(self._spans[tsid], (start, end, write), key=lambda span: span[0])

    def of(self, gtids: GtidSet) -> list[_Missed]:
        """The first few writes that committed any of these."""
        found: dict[int, _Missed] = {}
        for tsid, start, end in gtids:
            spans = self._spans[tsid]
            index = max(0, bisect_right(spans, start, key=lambda span: span[0]) - 1)
            while index < len(spans) and spans[index][0] < end:
                _, its_end, write = spans[index]
                if its_end > start:
                    found[write[0]] = write
                    if len(found) == _MISSED_WRITES:
                        return list(found.values())
                index += 1
        return list(found.values())


def _claim(it: _Statement) -> tuple[GtidSet, Finding]:
    """What the proof says that the server has, and what is wrong if that is too little."""
    if it.proof not in ("known", "waited") or it.proof_set is None:
        return GtidSet(), Finding.NO_PROOF
    try:
        claim = parse(it.proof_set)
    except MalformedGtidSetError:
        return GtidSet(), Finding.MALFORMED_PROOF
    if it.proof == "known":
        return claim, Finding.KNOWN_TOO_SMALL
    return claim, Finding.WAITED_TOO_SMALL


def _shortened(gtids: GtidSet) -> str:
    return gtids.text() + (",…" if len(list(gtids)) >= _MOST else "")

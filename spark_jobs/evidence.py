"""What each server was shown to have when a read was sent to it.

Evidence is what servers said themselves: a WAIT that returned 0, a ``gtid_executed`` that was read
or reported. It is united per run and per incarnation of a server, in the order of the run's clock.
Two things are asked of it.

*Is a ``known`` proof backed?* The applied set that the proxy claims must have been shown by
evidence that is not younger than the read. What remains is `unbacked`.

*Can what has no name be bounded?* A command may commit without a word on what (its record says
``own_known: false``), and records may be missing. Nobody can name those GTIDs, but the next
complete ``gtid_executed`` that the primary was asked for afterwards contains them. Such a set is a
tide mark, numbered within its run. A replica has reached a mark once its evidence covers it, and
then it lacks none of what the mark bounds.
"""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as fn

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.schema import BACKING, NUMBERED, RUN

_MOST: Final = 256
"""Intervals of one claim beyond which what is backed and what is not is no longer told apart."""

_OPEN, _SHOWN, _READ = range(3)
"""What happened; at one microsecond in this order, so that evidence counts for its own moment."""

_Backing = tuple[str, int, str, int, str | None, int | None, int | None]


def is_read() -> Column:
    """Whether a record is a read to be judged.

    Whatever a replica answered counts as a read, since the class is the proxy's conclusion. Only
    diagnostics are left out: they ask about the previous statement, wherever it ran.
    """
    return (
        (fn.col("kind") == "statement")
        & (fn.col("class") != "diagnostic")
        & ((fn.col("class") == "read") | fn.col("role").eqNullSafe("replica"))
    )


def is_unnamed() -> Column:
    """Whether a record may have committed what its own_gtids do not name."""
    return (fn.col("kind") == "statement") & (
        ~fn.col("own_known") | (fn.col("may_write") & (fn.col("outcome") == "lost"))
    )


def transform(records: DataFrame) -> DataFrame:
    """Weigh the evidence.

    Args:
        records: NUMBERED without repeats.

    Returns:
        BACKING: one row per read that a replica answered and per record that left something open.
    """
    events = _events(records.select(NUMBERED.names))
    weighed = ordered_pass(events, RUN, ("at_us", "what", "seq"), _Tide, BACKING)
    key = (*RUN, "seq")
    rest = [fn.max(name).alias(name) for name in BACKING.names if name not in key]
    return weighed.groupBy(*key).agg(*rest).select(BACKING.names)


def _events(records: DataFrame) -> DataFrame:
    def events(
        rows: DataFrame,
        what: int,
        at: Column,
        gtids: Column,
        *,
        server_uuid: Column | None = None,
        whole: Column | None = None,
    ) -> DataFrame:
        return rows.select(
            *RUN,
            "seq",
            at.alias("at_us"),
            fn.lit(what).alias("what"),
            (fn.col("server_uuid") if server_uuid is None else server_uuid).alias("server_uuid"),
            "incarnation",
            "role",
            fn.col("dispatched_us").alias("asked_us"),
            (fn.lit(False) if whole is None else whole).alias("whole"),
            gtids.alias("gtids"),
        ).select(*_Event._fields)

    kind, proof, proof_set = fn.col("kind"), fn.col("proof"), fn.col("proof_set")
    ended, dispatched = fn.col("ended_us"), fn.col("dispatched_us")
    statements = records.where(kind == "statement")
    probes = events(
        records.where(kind == "proof"), _SHOWN, ended, proof_set, whole=proof == "probed"
    )
    waits = events(
        statements.where(proof == "waited"),
        _SHOWN,
        dispatched + fn.col("wait_us"),
        proof_set,
    )
    reports = events(
        statements.where(fn.col("observed") != ""),
        _SHOWN,
        ended,
        fn.col("observed"),
        whole=fn.lit(True),
    )
    # A read that waited ran after its own WAIT, which then counts for it.
    reads = events(
        statements.where(is_read() & (fn.col("role") == "replica")),
        _READ,
        fn.when(proof == "waited", dispatched + fn.col("wait_us")).otherwise(dispatched),
        fn.when(proof == "known", proof_set),
    )
    # Missing records may have written on whatever was the primary then.
    open_ends = events(
        statements.where(fn.col("hole") | is_unnamed()),
        _OPEN,
        fn.when(is_unnamed(), ended).otherwise(fn.col("arrived_us")),
        fn.lit(None).cast("string"),
        server_uuid=fn.when(is_unnamed(), fn.col("server_uuid")),
    )
    return probes.unionAll(waits).unionAll(reports).unionAll(reads).unionAll(open_ends)


class _Event(NamedTuple):
    proxy: str
    worker: int
    run: str
    seq: int
    at_us: int
    what: int
    server_uuid: str | None
    incarnation: int | None
    role: str | None
    asked_us: int
    whole: bool
    gtids: str | None


class _Server:
    """One incarnation of a server: what it was shown to have, and the tide marks it has reached."""

    def __init__(self) -> None:
        self.reached = 0
        self._shown = GtidSet()
        self._last_shown = ""
        self._last_backed = ""

    def show(self, text: str) -> GtidSet | None:
        """Add evidence; a text that is no set shows nothing."""
        try:
            gtids = parse(text)
        except MalformedGtidSetError:
            return None
        if text != self._last_shown:
            self._shown.update(gtids)
            self._last_shown = text
        return gtids

    def unbacked(self, claim: str) -> str:
        """What of a claimed set was not shown; what is no set claims nothing."""
        if claim == self._last_backed:
            return ""
        try:
            claimed = parse(claim)
        except MalformedGtidSetError:
            return ""
        rest = claimed.minus(self._shown, _MOST)
        if not rest:
            self._last_backed = claim
        return rest.text() if len(list(rest)) < _MOST else claim

    def reach(self, marks: list[GtidSet]) -> int:
        """Count the marks, from the oldest, that the evidence covers."""
        while self.reached < len(marks) and self._shown.covers(marks[self.reached]):
            self.reached += 1
        return self.reached


class _Tide:
    """One run in the order of its clock."""

    def __init__(self) -> None:
        self._servers: defaultdict[tuple[str | None, int | None], _Server] = defaultdict(_Server)
        self._marks: list[GtidSet] = []
        self._open: defaultdict[str | None, deque[_Event]] = defaultdict(deque)

    def eval(self, row: Row) -> Iterator[_Backing]:
        event = _Event._make(row)
        if event.what == _OPEN:
            self._open[event.server_uuid].append(event)
            return
        known = event.server_uuid is not None
        server = self._servers[event.server_uuid, event.incarnation] if known else _Server()
        if event.what == _SHOWN:
            gtids = server.show(event.gtids or "")
            if gtids is not None and event.whole and event.role == "primary":
                yield from self._bound(gtids, event)
        else:
            unbacked = None if event.gtids is None else server.unbacked(event.gtids)
            reached = server.reach(self._marks)
            yield event.proxy, event.worker, event.run, event.seq, unbacked, reached, None

    def _bound(self, gtids: GtidSet, shown: _Event) -> Iterator[_Backing]:
        """Bound what was open when this complete set of the primary was asked for."""
        bounded: list[_Event] = []
        for server_uuid in {shown.server_uuid, None}:
            queue = self._open[server_uuid]
            while queue and queue[0].at_us <= shown.asked_us:
                bounded.append(queue.popleft())
        if bounded:
            self._marks.append(gtids)
        for event in bounded:
            mark = len(self._marks)
            yield event.proxy, event.worker, event.run, event.seq, None, None, mark

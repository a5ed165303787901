"""What each server was shown to have when a read was sent to it.

Evidence is what servers said themselves: a WAIT that returned 0, a ``gtid_executed`` that was read
or reported. It is united per run and per incarnation of a server, in the order of the run's clock.
Two things are asked of it.

*Is a ``known`` proof backed?* The applied set that the proxy claims must have been shown by
evidence that is not younger than the read. What remains is `unbacked`.

*Which tide marks has the server reached?* A mark (see `primary_history`) holds what has no name. A
replica has reached it once its evidence covers it, and then it lacks none of what the mark bounds.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as fn

from spark_jobs import clusters
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.primary_history import History, Term
from spark_jobs.schema import BACKING, NUMBERED, RUN

_MOST: Final = 256
"""Intervals of one claim beyond which what is backed and what is not is no longer told apart."""

_MARK, _SHOWN, _READ = range(3)
"""What happened; at one microsecond in this order, so that evidence counts for its own moment."""

_Backing = tuple[str, int, str, int, str | None, int | None, None]


def transform(records: DataFrame, history: History) -> DataFrame:
    """Weigh the evidence.

    Args:
        records: NUMBERED without repeats.
        history: the primary's, of the same records.

    Returns:
        BACKING: one row per read that a replica answered and per record that left something open.
    """
    events = _events(records.select(NUMBERED.names), history)
    handler = type("_RunWithTerms", (_Run,), {"terms": dict(history.terms)})
    weighed = ordered_pass(events, RUN, ("at_us", "what", "seq"), handler, BACKING)
    bounds = history.past.where(fn.col("what") == "bound").select(
        *RUN,
        "seq",
        fn.lit(None).cast("string").alias("unbacked"),
        fn.lit(None).cast("long").alias("reached"),
        "mark",
    )
    key = (*RUN, "seq")
    rest = [fn.max(name).alias(name) for name in BACKING.names if name not in key]
    return weighed.unionAll(bounds).groupBy(*key).agg(*rest).select(BACKING.names)


def _events(records: DataFrame, history: History) -> DataFrame:
    cluster = clusters.column(history.clusters).alias("cluster")

    def events(rows: DataFrame, what: int, at: Column, gtids: Column) -> DataFrame:
        return rows.select(
            *RUN,
            "seq",
            cluster,
            at.alias("at_us"),
            fn.lit(what).alias("what"),
            "server_uuid",
            "incarnation",
            gtids.alias("gtids"),
        ).select(*_Event._fields)

    proof, proof_set = fn.col("proof"), fn.col("proof_set")
    ended, dispatched = fn.col("ended_us"), fn.col("dispatched_us")
    statements = records.where(fn.col("kind") == "statement")
    waited = dispatched + fn.col("wait_us")
    probes = events(records.where(fn.col("kind") == "proof"), _SHOWN, ended, proof_set)
    waits = events(statements.where(proof == "waited"), _SHOWN, waited, proof_set)
    reports = events(statements.where(fn.col("observed") != ""), _SHOWN, ended, fn.col("observed"))
    # A read that waited ran after its own WAIT, which then counts for it.
    reads = events(
        statements.where(fn.col("is_read") & (fn.col("role") == "replica")),
        _READ,
        fn.when(proof == "waited", waited).otherwise(dispatched),
        fn.when(proof == "known", proof_set),
    )
    nothing = fn.lit(None)
    marks = (
        history.past.where(fn.col("what") == "mark")
        .select("cluster", "at_us", "mark", "gtids")
        .join(fn.broadcast(records.select(*RUN, cluster).distinct()), "cluster")
        .select(
            *RUN,
            fn.col("mark").alias("seq"),
            "cluster",
            "at_us",
            fn.lit(_MARK).alias("what"),
            nothing.cast("string").alias("server_uuid"),
            nothing.cast("long").alias("incarnation"),
            "gtids",
        )
    )
    return probes.unionAll(waits).unionAll(reports).unionAll(reads).unionAll(marks)


class _Event(NamedTuple):
    proxy: str
    worker: int
    run: str
    seq: int
    cluster: str
    at_us: int
    what: int
    server_uuid: str | None
    incarnation: int | None
    gtids: str | None


class _Server:
    """One incarnation of a server: what it was shown to have, and the tide marks it has reached."""

    def __init__(self) -> None:
        self.reached = 0
        self._shown = GtidSet()
        self._last_shown = ""
        self._last_backed = ""

    def show(self, text: str) -> None:
        """Add evidence; a text that is no set shows nothing."""
        if text == self._last_shown:
            return
        try:
            gtids = parse(text)
        except MalformedGtidSetError:
            return
        self._shown.update(gtids)
        self._last_shown = text

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

    def reach(self, marks: list[str]) -> int:
        """Count the marks, from the oldest, that the evidence covers."""
        while self.reached < len(marks) and self._shown.covers(parse(marks[self.reached])):
            self.reached += 1
        return self.reached


class _Run:
    """One run in the order of its clock."""

    terms: ClassVar[Mapping[str, Sequence[Term]]] = {}

    def __init__(self) -> None:
        self._servers: defaultdict[tuple[str | None, int | None], _Server] = defaultdict(_Server)
        self._marks: list[str] = []
        self._begun: list[Term] = []

    def eval(self, row: Row) -> Iterator[_Backing]:
        event = _Event._make(row)
        self._begin_terms(event)
        if event.what == _MARK:
            marks = [event.gtids or ""]
            for term in self._begun:
                if event.at_us <= term.until_us:
                    marks = _kept(marks, term)
            self._marks += marks
            return
        known = event.server_uuid is not None
        server = self._servers[event.server_uuid, event.incarnation] if known else _Server()
        if event.what == _SHOWN:
            server.show(event.gtids or "")
        else:
            unbacked = None if event.gtids is None else server.unbacked(event.gtids)
            reached = server.reach(self._marks)
            yield event.proxy, event.worker, event.run, event.seq, unbacked, reached, None

    def _begin_terms(self, event: _Event) -> None:
        """What a new primary does not have, no server can be asked to have."""
        terms = self.terms.get(event.cluster, ())
        while len(self._begun) < len(terms) and terms[len(self._begun)].from_us < event.at_us:
            term = terms[len(self._begun)]
            self._marks = _kept(self._marks, term)
            self._begun.append(term)


def _kept(marks: list[str], term: Term) -> list[str]:
    """What a new primary has of each mark."""
    executed = parse(term.executed)
    return [parse(mark).common(executed).text() for mark in marks]

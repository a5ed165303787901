"""Finds what each server was shown to have when a read was sent to it.

Evidence is what servers said themselves: a WAIT that returned 0, a ``gtid_executed`` that was read
or reported. It is united per run and per incarnation of a server, in the order of the run's clock.
It answers two questions.

*Is a ``known`` or ``independent`` proof backed?* The applied set that the proxy claims must have
been shown by evidence that is not younger than the read. The part that was not shown is `unbacked`.

*Which tide marks has the server reached?* A mark (see `primary_history`) is a set that holds
whatever was committed without a known GTID before it. A replica has reached a mark once its
evidence covers it. From then on it lacks nothing that the mark bounds.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import ClassVar, Final, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History, Term
from spark_jobs.tables.schema import BACKING, NUMBERED, RUN

_MOST: Final = 256
"""If more intervals of a claim than these are unbacked, the whole claim counts as unbacked."""

_MARK, _SHOWN, _READ = range(3)
"""Kinds of events. At the same microsecond they sort in this order, so that evidence counts for
reads of that microsecond."""

_Backing = tuple[str, int, str, int, str | None, int | None, None]


def transform(records: DataFrame, history: History, reads: DataFrame | None = None) -> DataFrame:
    """Weigh the evidence.

    Args:
        records: NUMBERED without repeats.
        history: the primary's, of the same records.
        reads: NUMBERED of the reads whose claims are to be weighed; None for all. With a read that
            shares a snapshot they must include all other reads of its session.

    Returns:
        BACKING: one row per such read that a replica answered, and one per record that left
        something open.
    """
    events = _events(records.select(NUMBERED.names), history)
    if reads is not None:
        events = _of(events, reads)
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


def _of(events: DataFrame, reads: DataFrame) -> DataFrame:
    """Keep the events of these reads, and of the servers that answered them."""
    keys = fn.broadcast(reads.select(*RUN, "seq"))
    servers = ("server_uuid", "incarnation")
    named = reads.where("server_uuid is not null").select(*RUN, *servers).distinct()
    same = reduce(
        and_,
        (fn.col(f"shown.{name}").eqNullSafe(fn.col(f"named.{name}")) for name in (*RUN, *servers)),
    )
    what = fn.col("what")
    shown = events.where(what == _SHOWN).alias("shown")
    return (
        events.where(what == _MARK)
        .unionAll(
            events.where(what == _READ)
            .join(keys, [*RUN, "seq"], "left_semi")
            .select(*_Event._fields)
        )
        .unionAll(
            shown.join(fn.broadcast(named).alias("named"), same, "left_semi").select("shown.*")
        )
    )


def _events(records: DataFrame, history: History) -> DataFrame:
    cluster = clusters.column(history.clusters).alias("cluster")
    proof, proof_set, kind = fn.col("proof"), fn.col("proof_set"), fn.col("kind")
    ended, dispatched = fn.col("ended_us"), fn.col("dispatched_us")
    statement, evidence = kind == "statement", fn.col("evidence")
    on_replica = fn.col("role").eqNullSafe("replica")
    kinds = (
        fn.when(kind == "proof", "proof"),
        fn.when(statement & (proof == "waited"), "wait"),
        fn.when(statement & (fn.col("observed") != ""), "report"),
        fn.when(fn.col("is_read") & on_replica, "read"),
    )
    # A read that waited ran after its own WAIT, so the WAIT counts as evidence for it. That of an
    # independent read has a record of its own.
    waits = proof.isin("waited", "independent")
    waited = dispatched + fn.when(waits, fn.col("wait_us")).otherwise(0)
    shown = (
        records.withColumn("evidence", fn.explode(fn.array_compact(fn.array(*kinds))))
        .select(
            *RUN,
            "seq",
            cluster,
            fn.when(evidence.isin("wait", "read"), waited).otherwise(ended).alias("at_us"),
            fn.when(evidence == "read", _READ).otherwise(_SHOWN).alias("what"),
            "server_uuid",
            "incarnation",
            "session",
            "snapshot_us",
            fn.when(evidence == "report", fn.col("observed"))
            .when((evidence != "read") | proof.isin("known", "independent"), proof_set)
            .alias("gtids"),
        )
        .select(*_Event._fields)
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
            *(
                nothing.cast("long").alias(name)
                for name in ("incarnation", "session", "snapshot_us")
            ),
            "gtids",
        )
    )
    return shown.unionAll(marks)


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
    session: int | None
    snapshot_us: int | None
    gtids: str | None


class _Server:
    """One incarnation of a server: what it was shown to have, and how many marks it has reached."""

    def __init__(self) -> None:
        self.reached = 0
        self._shown = GtidSet()
        self._last_shown = ""
        self._last_backed = ""

    def show(self, text: str) -> None:
        """Add evidence; a text that is no GTID set shows nothing."""
        if text == self._last_shown:
            return
        try:
            gtids = parse(text)
        except MalformedGtidSetError:
            return
        self._shown.update(gtids)
        self._last_shown = text

    def unbacked(self, claim: str) -> str:
        """The part of a claimed set that was not shown; a text that is no set claims nothing."""
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
        """Count how many marks, from the oldest on, the evidence covers."""
        while self.reached < len(marks) and self._shown.covers(parse(marks[self.reached])):
            self.reached += 1
        return self.reached


class _Run:
    """Goes through the events of one run, in the order of its clock."""

    terms: ClassVar[Mapping[str, Sequence[Term]]] = {}

    def __init__(self) -> None:
        self._servers: defaultdict[tuple[str | None, int | None], _Server] = defaultdict(_Server)
        self._marks: list[str] = []
        self._begun: list[Term] = []
        # By session: when its snapshot was taken, and how many marks were reached then.
        self._snapshots: dict[int | None, tuple[int, int]] = {}

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
            if event.snapshot_us is not None:
                # A snapshot does not show what the server has reached since it was taken.
                taken = self._snapshots.get(event.session)
                if taken is None or taken[0] != event.snapshot_us:
                    self._snapshots[event.session] = taken = event.snapshot_us, reached
                reached = taken[1]
            yield event.proxy, event.worker, event.run, event.seq, unbacked, reached, None

    def _begin_terms(self, event: _Event) -> None:
        """Begin terms; no server needs to have what a new primary does not have."""
        terms = self.terms.get(event.cluster, ())
        while len(self._begun) < len(terms) and terms[len(self._begun)].from_us < event.at_us:
            term = terms[len(self._begun)]
            self._marks = _kept(self._marks, term)
            self._begun.append(term)


def _kept(marks: list[str], term: Term) -> list[str]:
    """The part of each mark that a new primary has."""
    executed = parse(term.executed)
    return [parse(mark).common(executed).text() for mark in marks]

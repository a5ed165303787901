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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.ordered_pass import Handler, ordered_pass
from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History, Term
from spark_jobs.tables.schema import BACKING, RUN

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
    events = _events(records, history)
    if reads is not None:
        events = _of(events, reads)
    handler = type("_RunWithTerms", (_Run,), {"terms": dict(history.terms)})
    weighed = ordered_pass(events, RUN, ("at_us", "what", "seq"), handler, BACKING)
    bounds = history.past.where("what = 'bound'").selectExpr(
        *RUN, "seq", "null as unbacked", "null as reached", "mark"
    )
    key = (*RUN, "seq")
    rest = (fn.expr(f"max({name}) as {name}") for name in BACKING.names if name not in key)
    return weighed.unionAll(bounds).groupBy(*key).agg(*rest)


def _of(events: DataFrame, reads: DataFrame) -> DataFrame:
    """Keep the events of these reads, and of the servers that answered them."""
    keys = fn.broadcast(reads.select(*RUN, "seq"))
    servers = (*RUN, "server_uuid", "incarnation")
    named = reads.where("server_uuid is not null").select(*servers).distinct()
    same = " and ".join(f"shown.{name} <=> named.{name}" for name in servers)
    shown = events.where(f"what = {_SHOWN}").alias("shown")
    asked = events.where(f"what = {_READ}").join(keys, [*RUN, "seq"], "left_semi")
    return (
        events.where(f"what = {_MARK}")
        .unionAll(asked.selectExpr(*_Event._fields))
        .unionAll(shown.join(fn.broadcast(named).alias("named"), fn.expr(same), "left_semi"))
    )


def _events(records: DataFrame, history: History) -> DataFrame:
    cluster = f"{clusters.of_record(history.clusters)} as cluster"
    kinds = (
        "if(kind = 'proof', 'proof', null)",
        "if(kind = 'statement' and proof = 'waited', 'wait', null)",
        "if(kind = 'statement' and observed != '', 'report', null)",
        "if(is_read and role <=> 'replica', 'read', null)",
    )
    # A read that waited ran after its own WAIT, so the WAIT counts as evidence for it. That of an
    # independent read has a record of its own.
    waited = "dispatched_us + if(proof in ('waited', 'independent'), wait_us, 0)"
    shown = records.selectExpr(
        "*", f"explode(array_compact(array({', '.join(kinds)}))) as evidence"
    ).selectExpr(
        *RUN,
        "seq",
        cluster,
        f"if(evidence in ('wait', 'read'), {waited}, ended_us) as at_us",
        f"if(evidence = 'read', {_READ}, {_SHOWN}) as what",
        "server_uuid",
        "incarnation",
        "session",
        "snapshot_us",
        """case when evidence = 'report' then observed
                when evidence != 'read' or proof in ('known', 'independent') then proof_set end
                as gtids""",
    )
    nothing = (f"null as {name}" for name in ("server_uuid", "incarnation", "session"))
    marks = (
        history.past.where("what = 'mark'")
        .select("cluster", "at_us", "mark", "gtids")
        .join(fn.broadcast(records.selectExpr(*RUN, cluster).distinct()), "cluster")
        .selectExpr(
            *RUN,
            "mark as seq",
            "cluster",
            "at_us",
            f"{_MARK} as what",
            *nothing,
            "null as snapshot_us",
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


class _Run(Handler):
    """Goes through the events of one run, in the order of its clock."""

    terms: ClassVar[Mapping[str, Sequence[Term]]] = {}

    def __init__(self) -> None:
        self._servers: defaultdict[tuple[str | None, int | None], _Server] = defaultdict(_Server)
        self._marks: list[str] = []
        self._begun: list[Term] = []
        # By session: when its snapshot was taken, and how many marks were reached then.
        self._snapshots: dict[int | None, tuple[int, int]] = {}

    def eval(self, row: Iterable[object]) -> Iterator[_Backing]:
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

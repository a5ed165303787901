"""Learns from the primary's whole sets what had been committed before they were asked for.

When the primary is asked for its `gtid_executed`, the answer holds whatever it had acknowledged
before the question. Three things follow from that.
`primary_snapshots.PrimarySnapshots` finds them in one pass through a cluster's records, in the
order of their times.

*Tide marks.* A command may commit without telling its GTID, and records may be missing. Those GTIDs
are unknown, but the next whole set of that primary holds them. Such a set is a tide mark, and marks
are numbered.

*Terms.* Another server, or another incarnation of the same one, has become the primary. Its first
whole set is what it has: nobody can be shown anything else of earlier primaries any more.

*Lost writes.* What had been acknowledged and is missing from that set is lost.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.primaries import clusters, pruned_events
from spark_jobs.primaries.primary_snapshots import GAP, OPEN, REIGN, TIDE, WROTE, PrimarySnapshots
from spark_jobs.tables import small_table
from spark_jobs.tables.schema import EVENTS, LOST, PAST, REIGNS, RUN


class Term(NamedTuple):
    """A primary's first whole set after a change.

    Attributes:
        from_us: since when it may have been the primary: when the one before it was last sent a
            statement that it answered, or `until_us` if the primary did not change.
        until_us: when it was asked. What had been acknowledged by then and is not in its set is
            lost.
        executed: canonical text of its set.
        server_uuid: the primary.
    """

    from_us: int
    until_us: int
    executed: str
    server_uuid: str | None


class Confirmation(NamedTuple):
    """The times of a question for a primary's whole set, after others had acknowledged writes."""

    asked_us: int
    answered_us: int


class Gaps:
    """Times from which on records are missing, and the marks that bound what they may have said."""

    def __init__(self, gaps: Sequence[tuple[int, int | None]] = ()) -> None:
        """Take pairs of a time and a mark; the mark is None if nothing bounds the gap."""
        self._times: list[int] = []
        self._marks: list[tuple[bool, int]] = []
        unbounded, newest = False, 0
        for time_us, mark in sorted(gaps, key=lambda gap: gap[0]):
            unbounded = unbounded or mark is None
            newest = max(newest, mark or 0)
            self._times.append(time_us)
            self._marks.append((unbounded, newest))

    def before(self, time_us: int) -> tuple[bool, int]:
        """Whether some gap that began by then is unbounded, and the newest mark of the others."""
        place = bisect_right(self._times, time_us)
        return self._marks[place - 1] if place else (False, 0)

    def steps(self, most: int) -> list[tuple[int, bool, int]]:
        """The times from which on the result of `before` changes, each with the new result.

        If there are too many, neighbours are merged: the last one's result holds from the first
        one's time on, which errs on the safe side.

        Args:
            most: how many steps at most.
        """
        every = zip(self._times, self._marks, strict=True)
        told: list[tuple[int, bool, int]] = []
        for time_us, mark in every:
            if told and told[-1][1:] == mark:
                continue
            told.append((time_us, *mark))
        size = -(-len(told) // most) or 1
        parts = (told[at : at + size] for at in range(0, len(told), size))
        return [(part[0][0], *part[-1][1:]) for part in parts]


@dataclass(frozen=True)
class History:
    """What was learned: the small parts in memory, and all of it as a table.

    Attributes:
        clusters: the cluster of each proxy.
        unplaced: clusters that name no primary, and may be part of any other.
        terms: by cluster, in the order of `from_us`.
        confirmations: by cluster and server_uuid, in the order of their times.
        gaps: by "cluster" or "proxy" and its name.
        successions: when a run first sent a statement to a primary that was not its first, by
            RUN and server_uuid.
        past: PAST.
        since_us: the order of events is known from then on (`state`).
        has_lost: whether acknowledged writes are lost.
    """

    clusters: Mapping[str, str]
    unplaced: frozenset[str]
    terms: Mapping[str, Sequence[Term]]
    confirmations: Mapping[tuple[str, str | None], Sequence[Confirmation]]
    gaps: Mapping[tuple[str, str], Gaps]
    successions: Mapping[tuple[object, ...], int]
    past: DataFrame = field(repr=False)
    since_us: int = 0
    has_lost: bool = False

    def release(self) -> None:
        """Unpersist `past`: tables that were derived from it cannot be used any more."""
        self.past.unpersist()


class Reign(NamedTuple):
    """The time in which a primary answered a run: an event REIGN, without a cluster."""

    proxy: str
    worker: int
    run: str
    server_uuid: str | None
    incarnation: int | None
    from_us: int
    to_us: int


@dataclass(frozen=True)
class Known:
    """What is known of a log already, so that `learn` need not go through all of its records.

    Attributes:
        clusters: the cluster of each proxy.
        unplaced: clusters that name no primary.
        reigns: the reigns in all runs.
        quiet: clusters whose primary never changed and never lacked acknowledged writes. There,
            writes do not matter, and of the primary's whole sets only those that bound something
            left open do.
        telling: TELLING of the records that may matter: primaries' whole sets, records that left
            something open, and the writes of clusters that are not quiet. None if there are none.
    """

    clusters: Mapping[str, str]
    unplaced: frozenset[str]
    reigns: Sequence[Reign]
    quiet: frozenset[str]
    telling: DataFrame | None = field(repr=False)

    @property
    def has_events(self) -> bool:
        """Whether anything is known of which something may follow."""
        servers = Counter(key[:3] for key in {reign[:4] for reign in self.reigns})
        return self.telling is not None or max(servers.values(), default=0) > 1


def learn(
    records: DataFrame, clock_error_us: int = 0, known: Known | None = None, since_us: int = 0
) -> History:
    """Go through the records; this runs jobs, and keeps what they find until `release`.

    Args:
        records: NUMBERED without repeats.
        clock_error_us: by how much the clocks of proxies may differ, µs.
        known: what is known of the same records; None to go through all of them.
        since_us: see `History`.
    """
    if known is None:
        found, unplaced = clusters.find(records)
        clusters_: Mapping[str, str] = found
        past = transform(records, clusters_, unplaced, clock_error_us).persist()
    else:
        clusters_, unplaced = known.clusters, known.unplaced
        past = _of_known(records.sparkSession, known, clock_error_us)
        if known.has_events:
            past.persist()
    terms: defaultdict[str, list[Term]] = defaultdict(list)
    confirmations: defaultdict[tuple[str, str | None], list[Confirmation]] = defaultdict(list)
    gaps: defaultdict[tuple[str, str], list[tuple[int, int | None]]] = defaultdict(list)
    successions: dict[tuple[object, ...], int] = {}
    has_lost = False
    wanted = "what in ('term', 'confirmed', 'gap', 'succeeded', 'lost')"
    for row in past.where(wanted).drop("writes").collect():
        if row.what == "lost":
            has_lost = True
        elif row.what == "term":
            term = Term(row.at_us, row.until_us, row.gtids, row.server_uuid)
            terms[row.cluster].append(term)
        elif row.what == "succeeded":
            key = (row.proxy, row.worker, row.run, row.server_uuid)
            successions[key] = min(row.at_us, successions.get(key, row.at_us))
        elif row.what == "confirmed":
            confirmation = Confirmation(row.until_us, row.answered_us)
            confirmations[row.cluster, row.server_uuid].append(confirmation)
        else:
            if row.cluster == clusters_[row.proxy]:
                gaps["proxy", row.proxy].append((row.at_us, row.mark))
            gaps["cluster", row.cluster].append((row.at_us, row.mark))
    return History(
        clusters=clusters_,
        unplaced=unplaced,
        terms={
            name: sorted(of_cluster, key=lambda term: term[:3])
            for name, of_cluster in terms.items()
        },
        confirmations={key: sorted(of_server) for key, of_server in confirmations.items()},
        gaps={key: Gaps(of_group) for key, of_group in gaps.items()},
        successions=successions,
        past=past,
        since_us=since_us,
        has_lost=has_lost,
    )


def lost(past: DataFrame) -> DataFrame:
    """Select the acknowledged writes that are lost.

    Args:
        past: PAST.

    Returns:
        LOST.
    """
    return (
        past.where("what = 'lost'")
        .withColumnRenamed("until_us", "asked_us")
        .orderBy("asked_us", *RUN, "seq")
        .selectExpr(*LOST.names)
    )


def transform(
    records: DataFrame, known: Mapping[str, str], unplaced: frozenset[str], clock_error_us: int
) -> DataFrame:
    """Go through each cluster's records in the order of their times.

    Args:
        records: NUMBERED without repeats.
        known: the cluster of each proxy.
        unplaced: clusters that may be part of any other: what their proxies leave open is open in
            all clusters.
        clock_error_us: by how much the clocks of proxies may differ, µs.

    Returns:
        PAST.
    """
    events = _events(records, known, unplaced, clock_error_us)
    reigns = (
        records.where("role = 'primary' and outcome != 'lost'")
        .groupBy(*Reign._fields[:-2])
        .agg(fn.expr("min(dispatched_us) as from_us"), fn.expr("max(dispatched_us) as to_us"))
    )
    return _in_order(events, reigns, known)


def _of_known(spark: SparkSession, known: Known, clock_error_us: int) -> DataFrame:
    """Make PAST of what is known."""
    if not known.has_events:
        return small_table.local(spark, [], PAST)
    reigns = small_table.local(spark, [reign._asdict() for reign in known.reigns], REIGNS)
    if known.telling is None:
        return _in_order(small_table.local(spark, [], EVENTS), reigns, known.clusters)
    events = _events(known.telling, known.clusters, known.unplaced, clock_error_us)
    return _in_order(pruned_events.prune(events, known.quiet), reigns, known.clusters)


def _events(
    records: DataFrame, known: Mapping[str, str], unplaced: frozenset[str], clock_error_us: int
) -> DataFrame:
    """Make `primary_snapshots.Event` of records."""
    cluster = clusters.of_record(known)
    happened = (
        f"if(kind = 'statement' and named != '' and role <=> 'primary', {WROTE}, null)",
        f"if(kind = 'statement' and (hole or is_unnamed), {OPEN}, null)",
        f"if(missing > 0, {GAP}, null)",
        f"if(whole is not null, {TIDE}, null)",
    )
    # In other clusters, what is left open counts like a gap: no read there depends on this record.
    abroad = f"cluster != {cluster}"
    # Missing records may be of writes on any primary of that time.
    nobodys = f"(what = {GAP} or what = {OPEN} and not is_unnamed)"
    made = {
        "at_us": f"""case
            when what = {WROTE} or what = {OPEN} and is_unnamed then ended_us + {clock_error_us}
            when what = {TIDE} then dispatched_us
            when what = {OPEN} then arrived_us else ended_us end""",
        "what": f"if({abroad}, {GAP}, what)",
        "server_uuid": f"if({nobodys} or {abroad}, null, server_uuid)",
        "is_whole": "own_gtids = ''",
        "gtids": f"if(what = {TIDE}, whole, named)",
    }
    concerned = clusters.concerned(known, unplaced, f"what in ({OPEN}, {GAP})")
    return (
        records.selectExpr("*", f"explode(array_compact(array({', '.join(happened)}))) as what")
        .withColumn("cluster", fn.expr(f"explode({concerned})"))
        .selectExpr(*(f"{made[name]} as {name}" if name in made else name for name in EVENTS.names))
    )


def _in_order(events: DataFrame, reigns: DataFrame, known: Mapping[str, str]) -> DataFrame:
    """Make PAST of `primary_snapshots.Event` and Reign."""
    made = {
        "cluster": clusters.of_record(known),
        "session": "0L",
        "seq": "0L",
        "at_us": "from_us",
        "what": f"{REIGN}",
        "ended_us": "to_us",
        "since_us": "0L",
        "digest": "null",
        "is_whole": "false",
        "gtids": "null",
    }
    begun = reigns.selectExpr(
        *(f"{made[name]} as {name}" if name in made else name for name in EVENTS.names)
    )
    order = ("at_us", "what", *RUN, "seq")
    return ordered_pass(events.unionAll(begun), ("cluster",), order, PrimarySnapshots, PAST)

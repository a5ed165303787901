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
    """

    clusters: Mapping[str, str]
    unplaced: frozenset[str]
    terms: Mapping[str, Sequence[Term]]
    confirmations: Mapping[tuple[str, str | None], Sequence[Confirmation]]
    gaps: Mapping[tuple[str, str], Gaps]
    successions: Mapping[tuple[object, ...], int]
    past: DataFrame = field(repr=False)
    since_us: int = 0

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
        past = _of_known(records.sparkSession, known, clock_error_us).persist()
    terms: defaultdict[str, list[Term]] = defaultdict(list)
    confirmations: defaultdict[tuple[str, str | None], list[Confirmation]] = defaultdict(list)
    gaps: defaultdict[tuple[str, str], list[tuple[int, int | None]]] = defaultdict(list)
    successions: dict[tuple[object, ...], int] = {}
    wanted = fn.col("what").isin("term", "confirmed", "gap", "succeeded")
    for row in past.where(wanted).collect():
        if row.what == "term":
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
    )


def lost(past: DataFrame) -> DataFrame:
    """Select the acknowledged writes that are lost.

    Args:
        past: PAST.

    Returns:
        LOST.
    """
    return (
        past.where(fn.col("what") == "lost")
        .withColumn("asked_us", fn.col("until_us"))
        .orderBy("asked_us", *RUN, "seq")
        .select(LOST.names)
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
        records.where((fn.col("role") == "primary") & (fn.col("outcome") != "lost"))
        .groupBy(*Reign._fields[:-2])
        .agg(fn.min("dispatched_us").alias("from_us"), fn.max("dispatched_us").alias("to_us"))
    )
    return _in_order(events, reigns, known)


def _of_known(spark: SparkSession, known: Known, clock_error_us: int) -> DataFrame:
    """Make PAST of what is known."""
    servers = Counter({reign[:4] for reign in known.reigns})
    alone = max(Counter(key[:3] for key in servers).values(), default=0) < 2
    if known.telling is None and alone:
        return spark.createDataFrame([], PAST)
    reigns = spark.createDataFrame(list(known.reigns), REIGNS)
    if known.telling is None:
        return _in_order(spark.createDataFrame([], EVENTS), reigns, known.clusters)
    events = _events(known.telling, known.clusters, known.unplaced, clock_error_us)
    return _in_order(pruned_events.prune(events, known.quiet), reigns, known.clusters)


def _events(
    records: DataFrame, known: Mapping[str, str], unplaced: frozenset[str], clock_error_us: int
) -> DataFrame:
    """Make `primary_snapshots.Event` of records."""
    statement, what = fn.col("kind") == "statement", fn.col("what")
    unnamed, ended = fn.col("is_unnamed"), fn.col("ended_us")
    wrote = statement & (fn.col("named") != "") & fn.col("role").eqNullSafe("primary")
    happened = (
        fn.when(wrote, WROTE),
        fn.when(statement & (fn.col("hole") | unnamed), OPEN),
        fn.when(fn.col("missing") > 0, GAP),
        fn.when(fn.col("whole").isNotNull(), TIDE),
    )
    cluster = clusters.column(known)
    doubtful = what.isin(OPEN, GAP)
    # In other clusters, what is left open counts like a gap: no read there depends on this record.
    abroad = fn.col("cluster") != cluster
    # Missing records may be of writes on any primary of that time.
    nobodys = (what == GAP) | ((what == OPEN) & ~unnamed)
    at = (
        fn.when((what == WROTE) | ((what == OPEN) & unnamed), ended + fn.lit(clock_error_us))
        .when(what == TIDE, fn.col("dispatched_us"))
        .when((what == OPEN) & ~unnamed, fn.col("arrived_us"))
        .otherwise(ended)
    )
    return (
        records.withColumn("what", fn.explode(fn.array_compact(fn.array(*happened))))
        .withColumn("cluster", fn.explode(clusters.concerned(known, unplaced, doubtful)))
        .withColumns({"at_us": at, "is_whole": fn.col("own_gtids") == ""})
        .withColumn("server_uuid", fn.when(~nobodys & ~abroad, fn.col("server_uuid")))
        .withColumn("what", fn.when(abroad, GAP).otherwise(what))
        .withColumn("gtids", fn.when(what == TIDE, fn.col("whole")).otherwise(fn.col("named")))
        .select(EVENTS.names)
    )


def _in_order(events: DataFrame, reigns: DataFrame, known: Mapping[str, str]) -> DataFrame:
    """Make PAST of `primary_snapshots.Event` and Reign."""
    zero, none = fn.lit(0), fn.lit(None)
    begun = reigns.withColumnsRenamed({"from_us": "at_us", "to_us": "ended_us"}).withColumns(
        {
            "cluster": clusters.column(known),
            "session": zero,
            "seq": zero,
            "what": fn.lit(REIGN),
            "since_us": zero,
            "digest": none,
            "is_whole": fn.lit(False),
            "gtids": none,
        }
    )
    order = ("at_us", "what", *RUN, "seq")
    all_events = events.unionAll(begun.select(EVENTS.names))
    return ordered_pass(all_events, ("cluster",), order, PrimarySnapshots, PAST)

"""What the primary's whole sets tell of the time before they were asked for.

A `gtid_executed` that the primary was asked for at a moment holds whatever had been acknowledged
before. Three things follow from that, which `tides.Tides` finds in one pass through a cluster's
records, in the order of their times.

*Tide marks.* A command may commit without a word on what, and records may be missing. Nobody can
name those GTIDs, but the next whole set of that primary holds them. Such a set is a tide mark, and
marks are numbered.

*Terms.* Another server, or another incarnation of it, has become the primary. Its first whole set
tells what it has: nobody can be shown more than that any more.

*Lost writes.* What had been acknowledged and is missing from that set is lost.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from spark_jobs import clusters, tide_thinning
from spark_jobs.ordered_pass import ordered_pass
from spark_jobs.schema import EVENTS, LOST, PAST, REIGNS, RUN
from spark_jobs.tides import GAP, OPEN, REIGN, TIDE, WROTE, Tides


class Term(NamedTuple):
    """A primary's first whole set after a change.

    Attributes:
        from_us: since when it may have been the primary: the last word of the one before it.
        until_us: when it was asked; what was acknowledged before, and is not in its set, is lost.
        executed: canonical text of its set.
        server_uuid: whose it is.
    """

    from_us: int
    until_us: int
    executed: str
    server_uuid: str | None


class Confirmation(NamedTuple):
    """A primary's whole set that holds what others had acknowledged before it was asked for."""

    asked_us: int
    answered_us: int


class Gaps:
    """Times from which on records are missing, and the marks that bound what they may tell."""

    def __init__(self, gaps: Sequence[tuple[int, int | None]] = ()) -> None:
        """Take pairs of a time and a mark, which is None where nothing bounds the gap."""
        self._times: list[int] = []
        self._marks: list[tuple[bool, int]] = []
        unbounded, newest = False, 0
        for time_us, mark in sorted(gaps, key=lambda gap: gap[0]):
            unbounded = unbounded or mark is None
            newest = max(newest, mark or 0)
            self._times.append(time_us)
            self._marks.append((unbounded, newest))

    def before(self, time_us: int) -> tuple[bool, int]:
        """Whether some gap that began by then is never bounded, and the newest mark of the rest."""
        place = bisect_right(self._times, time_us)
        return self._marks[place - 1] if place else (False, 0)

    def steps(self, most: int) -> list[tuple[int, bool, int]]:
        """From when on `before` tells what; of neighbours too many, the later ones' from the first.

        Args:
            most: steps.
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
    """What was learned, as far as it is small, and all of it.

    Attributes:
        clusters: cluster of each proxy.
        unplaced: clusters that name no primary, and may be any.
        terms: of each cluster, in the order of `from_us`.
        confirmations: of each cluster's primaries, by server_uuid, in the order of their times.
        gaps: of each cluster and each proxy.
        successions: when a run first sent a statement to a primary that was not its first, by
            RUN and server_uuid.
        past: PAST.
        since_us: from when on it is known in what order things happened (`state`).
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
        """Forget what was kept: nothing that was derived from it can be looked at any more."""
        self.past.unpersist()


class Reign(NamedTuple):
    """What a primary answered a run: REIGN, as `tides` has it, of any cluster."""

    proxy: str
    worker: int
    run: str
    server_uuid: str | None
    incarnation: int | None
    from_us: int
    to_us: int


@dataclass(frozen=True)
class Known:
    """What is known of a log already, so that not all of its records need be gone through.

    Attributes:
        clusters: cluster of each proxy.
        unplaced: clusters that name no primary.
        reigns: of all runs.
        quiet: clusters whose primary never changed, and never lacked what had been acknowledged.
            There nothing follows from writes, and of the primary's sets only from those that bound
            something left open.
        telling: TELLING of the records that may tell something: primaries'
            whole sets, what left something open, and the writes of clusters that are not quiet.
            None if there are none.
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
        known: of the same records; None if nothing is. Then all of them are gone through.
        since_us: of `History`.
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
        terms={name: sorted(its, key=lambda it: it[:3]) for name, its in terms.items()},
        confirmations={key: sorted(its) for key, its in confirmations.items()},
        gaps={key: Gaps(its) for key, its in gaps.items()},
        successions=successions,
        past=past,
        since_us=since_us,
    )


def lost(past: DataFrame) -> DataFrame:
    """Tell what was acknowledged and lost.

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
        known: cluster of each proxy.
        unplaced: those that may be any; what their proxies leave open is open in all.
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
    """PAST."""
    servers = Counter({(it.proxy, it.worker, it.run, it.server_uuid) for it in known.reigns})
    alone = max(Counter(key[:3] for key in servers).values(), default=0) < 2
    if known.telling is None and alone:
        return spark.createDataFrame([], PAST)
    reigns = spark.createDataFrame(list(known.reigns), REIGNS)
    if known.telling is None:
        return _in_order(spark.createDataFrame([], EVENTS), reigns, known.clusters)
    events = _events(known.telling, known.clusters, known.unplaced, clock_error_us)
    return _in_order(tide_thinning.thin(events, known.quiet), reigns, known.clusters)


def _events(
    records: DataFrame, known: Mapping[str, str], unplaced: frozenset[str], clock_error_us: int
) -> DataFrame:
    """What records tell of primaries: `tides.Event`."""
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
    # Elsewhere, what is left open is like a gap: nobody there waits for this record alone.
    abroad = fn.col("cluster") != cluster
    # Missing records may be of writes on whatever was the primary then.
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
    """PAST, of `tides.Event` and Reign."""
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
    every = events.unionAll(begun.select(EVENTS.names))
    return ordered_pass(every, ("cluster",), order, Tides, PAST)

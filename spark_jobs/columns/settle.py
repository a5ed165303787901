"""The plain verdicts: reads whose claim covers whatever they can have been owed.

Everything else is left to the judge, which gives the same verdicts one record at a time. So nothing
here ever says "violation", and where something is unclear nothing is said. All of this holds where
clocks agree: where they may differ, the judge is asked alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs import clusters, groups, statement
from spark_jobs.columns import evidence, gtid_columns, owed
from spark_jobs.columns.facts import Facts
from spark_jobs.primary_history import History
from spark_jobs.promise import OWN_LEVELS, PROMISES, SCOPES
from spark_jobs.schema import JUDGED, READ, RUN
from spark_jobs.verdict import Finding, Verdict

_STEPS: Final = 32
"""Steps of a history of gaps that a read is held against."""


_FEW: Final = 1_000_000
"""Claims without evidence that are handed to everybody, rather than that all reads are sorted."""


@dataclass(frozen=True)
class Settled:
    """What columns could say.

    Attributes:
        told: JUDGED of all reads to be judged. Of those left to the judge, `finding` is null.
        clusters: of each proxy.
    """

    told: DataFrame
    clusters: Mapping[str, str]

    @property
    def reads(self) -> DataFrame:
        """JUDGED, of the reads that are settled."""
        return self.told.where("finding is not null").select(*JUDGED.names)

    @property
    def left(self) -> DataFrame:
        """RUN, `seq` and `group` of all others."""
        kind, cluster = statement.owed_in(), clusters.column(self.clusters)
        left = self.told.where("finding is null").withColumns({"kind": kind, "cluster": cluster})
        return left.select(*RUN, "seq", groups.hashed(groups.key()).alias("group"))


def transform(records: DataFrame, history: History, facts: Facts) -> Settled:
    """Settle what can be settled; this runs jobs.

    Args:
        records: NUMBERED without repeats.
        history: the primary's, of the same records.
        facts: of the same records.
    """
    key = (*RUN, "seq")
    unbacked = evidence.found(history.weighed, evidence.CLAIMED).select(*key)
    claims = unbacked.count()
    owing = _owing(records, history, facts)
    if claims:
        marked = unbacked.withColumn("unbacked", fn.lit(True))
        marked = fn.broadcast(marked) if claims <= _FEW else marked
        doubted = fn.col("relies") & fn.coalesce("unbacked", fn.lit(False))
        owing = owing.join(marked, [*key], "left").withColumn(
            "finding", fn.when(~doubted, fn.col("finding"))
        )
    alone = _alone(records, history, facts)
    told = owing.select(JUDGED.names).unionAll(alone.select(JUDGED.names))
    return Settled(told, history.clusters)


def _alone(records: DataFrame, history: History, facts: Facts) -> DataFrame:
    """The reads whose verdict asks for no other record: JUDGED."""
    level, promised = fn.col("level"), fn.col("level").isin(*PROMISES)
    known = promised & fn.col("scope").isin(*SCOPES)
    bounded = (level != "BOUNDED_STALENESS") | fn.col("bound_us").isNotNull()
    replica = fn.col("role").eqNullSafe("replica")
    primary = fn.col("role").eqNullSafe("primary") & fn.col("server").isNotNull()
    given_up = (fn.col("proof") == "none") & (fn.col("reason") == "wait_timeout")
    finding = (
        fn.when(fn.col("proof") == "waited", None)
        .when(level == "BEST_EFFORT", Finding.BEST_EFFORT.value)
        .when(known & bounded & primary & ~given_up & _only_writer(facts), Finding.PRIMARY.value)
    )
    plain = level == "BEST_EFFORT"
    columns = {
        "verdict": fn.when(plain, Verdict.NO_PROMISE.value).otherwise(Verdict.OK.value),
        "finding": finding,
        "claimed": fn.when(plain, fn.col("required")),
        "shown": fn.when(plain, fn.col("proof_set")),
        "understated": fn.lit(False),
        "since_write_us": fn.lit(None).cast("bigint"),
        "relies": fn.lit(False),
    }
    return _judged(
        records.where(fn.col("is_judged") & ~(replica & known & bounded))
        .withColumn("cluster", clusters.column(history.clusters))
        .withColumns(columns)
    )


def _owing(records: DataFrame, history: History, facts: Facts) -> DataFrame:
    """The other reads: JUDGED, and `relies`."""
    reads = owed.transform(records, history, facts)
    slots = range(facts.slots)
    own = fn.col("level").isin(*OWN_LEVELS)
    columns: dict[str, Column] = {}
    for slot in slots:
        seen = fn.col(f"all_top{slot}")
        columns[f"owed_top{slot}"] = fn.when(own, fn.col(f"own_top{slot}")).otherwise(seen)
        # What was seen is a server's whole set.
        columns[f"owed_low{slot}"] = fn.when(own, fn.col(f"own_low{slot}")).otherwise(1)
    nothing = _every(fn.col(f"owed_top{slot}") == 0 for slot in slots)
    waits = fn.col("proof") == "waited"
    at_us = fn.col("dispatched_us") + fn.when(waits, fn.col("wait_us")).otherwise(0)
    sound = ~fn.col("turned") & (fn.col("blocked") == 0) & (own | (fn.col("blind") == 0))
    doubtless = (fn.col("doubt_us") == 0) & fn.lit(not history.gaps)
    told = fn.col("server_uuid").isNotNull()
    reached = (
        told
        & (fn.col("doubt_us") <= at_us)
        & _every(gtid_columns.prefix("claim", slot) >= fn.col(f"doubt_top{slot}") for slot in slots)
    )
    sure = own | (fn.col("sure") > 0)
    # A WAIT's claim is what was required.
    said = (fn.col("required").isNull() | _covers("required", own, facts)) & (
        fn.col("claim").eqNullSafe(fn.col("required")) | _covers("claim", own, facts)
    )
    judgeable = ~fn.col("cluster").isin(*facts.crowded, "") & fn.col("server").isNotNull()
    if history.unplaced:
        judgeable &= (fn.col("kind") != "cluster") | ~fn.col("cluster").isin(*history.unplaced)
    finding = fn.when(
        judgeable & sound & _unhurt(history, facts) & ((fn.col("doubt_us") == 0) | reached),
        fn.when(nothing & ~fn.col("required_odd"), Finding.NOTHING_WRITTEN.value).when(
            ~nothing & sure & fn.col("claim").isNotNull() & said,
            fn.when(waits, Finding.WAITED.value).otherwise(Finding.KNOWN.value),
        ),
    )
    since = fn.col("dispatched_us") + fn.col("wait_us") - fn.col("wrote_us")
    none = fn.lit(None).cast("string")
    return _judged(
        reads.withColumns(columns)
        .withColumn("finding", finding)
        .withColumns(
            {
                "verdict": fn.lit(Verdict.OK.value),
                "claimed": none,
                "shown": none,
                "understated": fn.lit(False),
                "since_write_us": fn.when(waits, since),
                # Then its claim was taken for what its server had been shown to have.
                "relies": (fn.col("proof") == "known")
                & ((fn.col("finding") == Finding.KNOWN.value) | ~doubtless),
            }
        )
    )


def _covers(name: str, own: Column, facts: Facts) -> Column:
    """Whether a split set holds what the read was owed, by one interval or write by write."""
    slots = facts.slots
    every = gtid_columns.intervals(name, facts.sources, slots)

    def within(write: Column, it: Column) -> Column:
        same = it["slot"] == write["slot"]
        return same & (it["low"] <= write["low"]) & (write["high"] <= it["high"])

    def hold(its: Column) -> Column:
        return fn.forall("last", lambda write: fn.exists(its, lambda it: within(write, it)))

    # A lambda's variable is worked out once.
    in_it = fn.get(fn.transform(fn.array(every), hold), fn.lit(0))
    # Most are written there just as they are, or in the first interval, and to look for that is
    # cheaper. In the text of a set with several sources nobody knows at once whose number it is.
    text = fn.concat(fn.col(name), fn.lit(":"))
    first = fn.struct(
        fn.lit(0).alias("slot"),
        fn.col(f"{name}_low0").alias("low"),
        fn.col(f"{name}_high0").alias("high"),
    )
    there = fn.forall("last", lambda write: within(write, first) | fn.contains(text, write["text"]))
    recent = fn.when(there, fn.lit(True)).otherwise(in_it) if slots == 1 else in_it
    one_by_one = own & fn.col(f"{name}_many")
    early = gtid_columns.covers(name, "own_low", "early_top", slots)
    known = ~fn.col(f"{name}_odd")
    at_once = gtid_columns.covers(name, "owed_low", "owed_top", slots)
    return known & (at_once | (one_by_one & early & recent))


def _unhurt(history: History, facts: Facts) -> Column:
    """Whether no gap before the read concerns it, or its server had reached what bounds it."""
    if not history.gaps or set(facts.wanted) <= {"connection"}:
        return fn.lit(True)
    steps = {key: gaps.steps(_STEPS) for key, gaps in history.gaps.items()}
    needed = sorted({mark for its in steps.values() for _, _, mark in its})
    marks = {
        (row.cluster, row.mark): row
        for row in owed.marks(history, facts).where(fn.col("mark").isin(needed)).collect()
    }
    kind, waits = fn.col("kind"), fn.col("proof") == "waited"
    at_us = fn.col("dispatched_us") + fn.when(waits, fn.col("wait_us")).otherwise(0)
    unhurt = fn.lit(True)
    for (whose, name), its in steps.items():
        here = (fn.col(whose) == name) & (
            (kind == "cluster") if whose == "cluster" else ~kind.isin("connection", "cluster")
        )
        cluster = name if whose == "cluster" else history.clusters[name]
        reached = fn.lit(True)
        for from_us, unbounded, mark in its:
            row = None if unbounded else marks.get((cluster, mark))
            if row is not None:
                needs = _every(
                    gtid_columns.prefix("claim", slot) >= row[f"doubt_top{slot}"]
                    for slot in range(facts.slots)
                )
                needs &= (at_us >= row.doubt_us) & fn.col("server_uuid").isNotNull()
            else:
                needs = fn.lit(not unbounded and mark == 0)
            reached = fn.when(fn.col("at") >= from_us, needs).otherwise(reached)
        unhurt = fn.when(here, reached).otherwise(unhurt)
    return unhurt


def _only_writer(facts: Facts) -> Column:
    """Whether the server that answered is the only one that ever wrote in its cluster."""
    alone = fn.lit(True)
    for cluster, writers in facts.writers.items():
        mine = fn.lit(len(writers) == 1) & fn.col("server_uuid").eqNullSafe(
            fn.lit(next(iter(writers)))
        )
        alone = fn.when(fn.col("cluster") == cluster, mine).otherwise(alone)
    return alone


def _judged(reads: DataFrame) -> DataFrame:
    return reads.select(
        *READ,
        *("verdict", "finding", "claimed", "shown"),
        fn.lit(None).cast("string").alias("missing"),
        fn.array().cast(JUDGED["missed"].dataType).alias("missed"),
        *("understated", "since_write_us", "relies"),
    )


def _every(conditions: Iterable[Column]) -> Column:
    return reduce(and_, conditions)

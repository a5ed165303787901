"""What primaries came to have while the log was written, and no record names: a count, no verdict.

A primary's whole sets grow by every transaction, through whatever door it came. What is left of
that growth when all named GTIDs are taken away was written past the proxies, or in a record that is
missing, or by a statement that could not name it: such statements are counted beside it. What was
written before a cluster's first whole set or after its last is not seen.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_jobs import clusters
from spark_jobs.clock_evidence import items, parts
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.schema import RUN

_GREW: Final = StructType(
    [
        StructField("cluster", StringType()),
        StructField("tsid", StringType()),
        StructField("start", LongType()),
        StructField("end", LongType()),
    ]
)


class Unreported(NamedTuple):
    """A count.

    Attributes:
        transactions: that primaries came to have, and no record names.
        statements: that may have committed something, and could not name it.
    """

    transactions: int
    statements: int

    @property
    def sentences(self) -> list[str]:
        """What the report says of it."""
        if not self.transactions:
            return []
        return [
            f"Unreported writes: {self.transactions:,} transactions that primaries came to have are"
            f" named by no record; {self.statements:,} statements may have committed some without a"
            " name, the rest came through other doors, or their records are missing."
        ]


def count(records: DataFrame, known: Mapping[str, str]) -> Unreported:
    """Compare the growth of primaries' whole sets with what records name; this runs jobs.

    Args:
        records: NUMBERED without repeats.
        known: cluster of each proxy.
    """
    told = records.withColumn("cluster", clusters.column(known))
    primary = fn.col("role").eqNullSafe("primary")
    seat = ("cluster", *RUN, "server_uuid", "incarnation")
    bounds = (
        told.where(primary & fn.col("whole").isNotNull())
        .groupBy(*seat)
        .agg(
            fn.min("dispatched_us").alias("from_us"),
            fn.min_by("whole", "dispatched_us").alias("first"),
            fn.max_by("whole", "ended_us").alias("last"),
        )
        .orderBy("from_us", *seat)
        .collect()
    )
    unnamed = fn.col("is_unnamed") | ((fn.col("own_gtids") == "") & (fn.col("named") != ""))
    grown = growth((row.cluster, row.first, row.last) for row in bounds)
    rows = [(cluster, *it) for cluster, gtids in grown.items() for it in gtids]
    if not rows:
        return Unreported(0, 0)
    spark = records.sparkSession
    part, interval = fn.col("part"), fn.col("interval")
    tag = fn.substring_index(part, ":", 1)
    names = (
        told.where("own_gtids != ''")
        .select("cluster", fn.explode(items(fn.col("own_gtids"))).alias("item"))
        .select(
            *("cluster", fn.explode(parts(fn.col("item"))).alias("part")),
            fn.substring_index("item", ":", 1).alias("uuid"),
        )
        .select(
            *("cluster", "uuid", tag.alias("tag")),
            fn.explode(
                fn.regexp_extract_all(part, fn.lit(":([0-9]+(?:-[0-9]+)?)"), fn.lit(1))
            ).alias("interval"),
        )
        .select(
            "cluster",
            fn.when(fn.col("tag") == "", fn.col("uuid"))
            .otherwise(fn.concat_ws(":", "uuid", "tag"))
            .alias("tsid"),
            fn.substring_index(interval, "-", 1).try_cast("long").alias("low"),
            fn.substring_index(interval, "-", -1).try_cast("long").alias("high"),
        )
    )
    inside = (
        names.join(fn.broadcast(spark.createDataFrame(rows, _GREW)), ["cluster", "tsid"])
        .select(
            *("cluster", "tsid"),
            fn.greatest("low", "start").alias("low"),
            fn.least(fn.col("high") + 1, "end").alias("end"),
        )
        .where("low < end")
        .distinct()
        .agg(fn.coalesce(fn.sum(fn.col("end") - fn.col("low")), fn.lit(0)).alias("named"))
        .collect()[0]
        .named
    )
    statements = told.where((fn.col("kind") == "statement") & primary & unnamed).count()
    grew = sum(gtids.count() for gtids in grown.values())
    return Unreported(max(0, grew - inside), statements)


def growth(sets: Iterable[tuple[str, str, str]]) -> dict[str, GtidSet]:
    """What each cluster's primaries came to have.

    Args:
        sets: cluster, first and last whole set of whoever was told them, the earliest in front.
    """
    began: dict[str, GtidSet] = {}
    grown: defaultdict[str, GtidSet] = defaultdict(GtidSet)
    for cluster, first, last in sets:
        try:
            base = began.setdefault(cluster, parse(first))
            grown[cluster].update(parse(last).minus(base))
        except MalformedGtidSetError:
            continue
    return dict(grown)

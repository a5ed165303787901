"""Puts records into the groups of statements by which reads are judged.

A read must see what happened before it in one group of statements: those of its connection, of its
user, of its application or of its proxy, or all of its cluster (STRONG and BOUNDED_STALENESS, for
which the scope does not matter). What a statement wrote or saw counts in every group that it
belongs to.

In a connection the order is that of the records, and no clock is involved: a connection has one
statement at a time. In all other groups a statement counts from its end on, and a read must see
what had ended when it arrived. A read that shares an earlier read's snapshot must see what had
ended when that one arrived (`moment_us`).
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History
from spark_jobs.promise import SCOPES, SEEN_LEVELS
from spark_jobs.tables.schema import BACKING, NUMBERED, READ, RUN, SESSION

GROUP: Final = ("kind", "key")
_KEYS: Final = {
    "connection": SESSION,
    "user": ("proxy", "user"),
    "application": ("proxy", "application"),
    "proxy": ("proxy",),
    "cluster": ("cluster",),
}
"""By which columns records are put into the groups of each kind."""

ORDER: Final = ("at", "turn", *RUN, "seq")

_CONTEXT: Final = (
    *("required", "proof_set", "own_gtids", "named", "observed", "incarnation", "hole"),
    *("unbacked", "reached", "mark", "is_read", "is_unnamed", "moment_us"),
)
"""The columns that a judgement needs beyond READ."""

COLUMNS: Final = (*GROUP, "at", "turn", "judges", "learns", "maybe", "cluster", *READ, *_CONTEXT)


def transform(
    records: DataFrame, backing: DataFrame, history: History, clock_error_us: int
) -> DataFrame:
    """Put every record into the groups in which it counts or is judged.

    Args:
        records: NUMBERED without repeats.
        backing: BACKING of the same records.
        history: the primary's, of the same records.
        clock_error_us: by how much the clocks of proxies may differ, µs.

    Returns:
        COLUMNS, to be read group by group (GROUP), in ORDER. `judges`: the read is to be judged in
        this group. `learns`: what the record wrote or saw counts in it from then on. `maybe`: it
        counts only if clocks differ by as much as they may. `turn` sorts ends before arrivals of
        the same microsecond.
    """
    counted = (
        records.select(*NUMBERED.names, clusters.column(history.clusters).alias("cluster"))
        .where((fn.col("kind") == "statement") | fn.col("whole").isNotNull())
        .join(backing.select(BACKING.names), [*RUN, "seq"], "left")
    )
    placed = (
        place(counted, clock_error_us=clock_error_us)
        .withColumn("observed", fn.coalesce("whole", "observed"))
        .join(_wanted(records, history), [*GROUP], "left")
    )
    kind = fn.col("kind")
    judged = (kind == "connection") | fn.col("judges")
    deep = fn.coalesce("deep", fn.lit(False))
    counts = deep | (fn.col("named") != "") | fn.col("is_unnamed") | (kind == "cluster")
    return (
        placed.where(judged | (fn.col("deep").isNotNull() & counts))
        # Columns that are not looked at are emptied.
        .withColumn("required", fn.when(judged, fn.col("required")))
        .withColumn("proof_set", fn.when(judged | deep, fn.col("proof_set")))
        .select(*COLUMNS)
    )


def place(
    records: DataFrame, kinds: Collection[str] = (*SCOPES, "cluster"), clock_error_us: int = 0
) -> DataFrame:
    """Put every record into the groups of these kinds that it may count or be judged in.

    Args:
        records: columns of NUMBERED, and `cluster`.
        kinds: of groups.
        clock_error_us: by how much the clocks of proxies may differ, µs.

    Returns:
        The records, once for each group, and once more for their cluster's where clocks may differ.
        `kind` becomes the kind of the group; `key`, `at`, `turn`, `judges`, `learns` and `maybe`
        are as in COLUMNS. `judged` marks the row by which a read is judged in a wider group.
    """
    return (
        records.withColumn(
            "place", fn.explode(fn.array_compact(fn.array(*_places(kinds, clock_error_us))))
        )
        .withColumn("judged", fn.col("place") == _JUDGED)
        .withColumn("maybe", fn.col("place") == _MAYBE)
        .withColumn(
            "kind",
            fn.when(fn.col("judged"), fn.col("owed_in"))
            .when(fn.col("maybe"), "cluster")
            .otherwise(fn.col("place")),
        )
        .withColumns(_order(clock_error_us))
    )


_JUDGED: Final = "judged"
"""The place at which a read is judged, if that is in a wider group than its connection."""

_MAYBE: Final = "maybe"
"""The place of a record in its cluster if clocks differ by as much as they may."""


def _places(kinds: Collection[str], clock_error_us: int) -> list[Column]:
    """The places of a record: one for each kind of group, and one more where it is judged."""
    statement, is_read = fn.col("kind") == "statement", fn.col("is_read")
    writes = (fn.col("named") != "") | fn.col("is_unnamed")
    tells = statement & (writes | (fn.col("observed") != "") | is_read)
    tells_all = writes | fn.col("whole").isNotNull()
    counts = {
        "connection": statement,
        "user": tells,
        "application": tells & (fn.col("application") != ""),
        "proxy": tells,
        "cluster": tells_all,
    }
    judged = fn.when(fn.col("is_judged") & (fn.col("owed_in") != "connection"), _JUDGED)
    places = [judged, *(fn.when(flag, kind) for kind, flag in counts.items() if kind in kinds)]
    if clock_error_us and "cluster" in kinds:
        places.append(fn.when(tells_all, _MAYBE))
    return places


def _order(clock_error_us: int) -> dict[str, Column]:
    """The columns of a place: its key, what is done there, and when."""
    kind, own, judged = fn.col("kind"), fn.col("kind") == "connection", fn.col("judged")
    bounded = fn.col("level") == "BOUNDED_STALENESS"
    bound = fn.when(bounded, fn.coalesce("bound_us", fn.lit(0))).otherwise(0)
    error = fn.when(fn.col("maybe"), -clock_error_us).when(kind == "cluster", clock_error_us)
    ended = fn.col("ended_us") + error.otherwise(0)
    return {
        "key": key(),
        "at": fn.when(own, fn.col("seq"))
        .when(judged, fn.col("moment_us") - bound)
        .otherwise(ended),
        "turn": fn.when(judged, 1).otherwise(0),
        "judges": judged | (own & fn.col("is_judged") & (fn.col("owed_in") == "connection")),
        "learns": ~judged,
    }


def hashed(key: Column) -> Column:
    """A number for a group; two groups have the same number with a probability of 2**-64."""
    return fn.xxhash64("kind", key)


def key() -> Column:
    """The key of a record's group, among the groups of its `kind`."""
    kind = fn.col("kind")
    found = key_of("cluster")
    for name in SCOPES:
        found = fn.when(kind == name, key_of(name)).otherwise(found)
    return found


def key_of(kind: str) -> Column:
    """The key of a record's group of a kind."""
    return fn.concat_ws("\0", *_KEYS[kind])


def number_of(kind: str) -> Column:
    """A number for a record's group of a kind; two have the same with probability 2**-64."""
    return fn.xxhash64(fn.lit(kind), *_KEYS[kind])


def _wanted(records: DataFrame, history: History) -> DataFrame:
    """The wider groups in which a read is judged; `deep`: what was seen in them counts, too."""
    return (
        records.where(fn.col("is_judged") & (fn.col("owed_in") != "connection"))
        .select(
            fn.col("owed_in").alias("kind"),
            clusters.column(history.clusters).alias("cluster"),
            *SESSION,
            "user",
            "application",
            "level",
        )
        .select("kind", key().alias("key"), fn.col("level").isin(*SEEN_LEVELS).alias("deep"))
        .groupBy(*GROUP)
        .agg(fn.bool_or("deep").alias("deep"))
    )

"""Facts: what a state keeps of records. Each fact stands for many records."""

from collections.abc import Collection, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_jobs import gtid_columns
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.tables.schema import RUN

(RAN, SPOKE, REIGNED, MISSED, SKIPPED, UNNAMED, UNREAD, WROTE, SAW, SHOWED, HAD, ASKED) = range(12)
"""Kinds of facts. "At its time" means `ended_us`.

RAN: the records of a run are known up to `seq`. SPOKE: the statements of a session are known up to
`seq` and `ordinal`. REIGNED: a run's primary was sent a statement at its time. MISSED: records of a
run were missing before one that ended at its time; the record before the gap ended at `since_us`.
SKIPPED: statements of a session were missing before one that arrived at its time. UNNAMED: a
statement that ended at its time may have committed GTIDs that no record names. UNREAD: a
statement's own GTIDs are no well-formed set. WROTE: statements of a session wrote `gtids`, or may
have. SAW: statements of a session were shown `gtids`. SHOWED: a replica certainly showed `gtids` to
a session. HAD: a server was shown to have `gtids`. ASKED: a primary was asked for its whole set,
which is `gtids`.
"""

KEY: Final = (
    *("what", *RUN, "session", "user", "application", "role", "server_uuid", "incarnation"),
)
"""Facts that agree in these columns are merged; REIGNED and ASKED must agree in times, too."""

TIMES: Final = ("since_us", "dispatched_us", "ended_us")
LATEST: Final = ("ordinal", "seq", *TIMES)

_TEXTS: Final = ("proxy", "run", "user", "application", "role", "server_uuid", "gtids")
_NULL: Final = ("application", "role", "server_uuid", "incarnation")

FACT: Final = StructType(
    [
        StructField(name, StringType() if name in _TEXTS else LongType(), name in _NULL)
        for name in (*KEY, *LATEST, "gtids")
    ]
)


def nothing(name: str) -> Column:
    """The value of a column of FACT in facts that do not need it: null, "" or 0."""
    value = None if name in _NULL else "" if name in _TEXTS else 0
    return fn.lit(value).cast(FACT[name].dataType)


def make(what: int, rows: DataFrame, names: Collection[str], *more: Column) -> DataFrame:
    """Make a fact of each row.

    Args:
        what: the kind.
        rows: they have RUN.
        names: other columns that the facts take over.
        more: further columns, by the names of FACT.

    Returns:
        FACT.
    """
    made = rows.select(*RUN, *names, fn.lit(what).cast("bigint").alias("what"), *more)
    given = made.columns
    return made.select(
        *(name if name in given else nothing(name).alias(name) for name in FACT.names)
    )


def is_plain(text: str) -> str:
    """SQL: whether a text is a set that `gtid_columns` can unite."""
    turned = f"exists({gtid_columns.intervals(text)}, span -> span.low > span.high)"
    return f"({gtid_columns.is_formed(text)} and not {turned})"


def merged(facts: DataFrame, *more: str) -> DataFrame:
    """Merge facts that agree in KEY: the latest times and numbers, and the union of sets, count.

    A write whose text is no well-formed set becomes UNREAD; others with such a text are left out.

    Args:
        facts: FACT and `more`.
        more: further columns of numbers in which merged facts must agree; those of UNREAD become 0.

    Returns:
        FACT and `more`.
    """
    text, what = fn.col("gtids"), fn.col("what")
    alone = what.isin(REIGNED, ASKED)
    when = {f"at_{name}": fn.when(alone, fn.col(name)).otherwise(0) for name in TIMES[1:]}
    keys = [*KEY, *more, *when]
    # Each text that Spark cannot unite is a group of its own, until all others are united.
    odd = fn.when((text != "") & ~fn.expr(is_plain("gtids")), text)
    united = gtid_columns.united(
        facts.withColumns({**when, "odd": odd}), [*keys, "odd"], "gtids", latest=LATEST
    )
    read = fn.when(fn.isnull("odd"), text).otherwise(_canonical(fn.col("odd")))
    good = united.withColumn("gtids", read).where(fn.isnotnull("gtids") | (what == WROTE))
    is_unread = fn.isnull("gtids")
    good = good.withColumns(
        {
            "what": fn.when(is_unread, fn.lit(UNREAD).cast("bigint")).otherwise(what),
            "gtids": fn.coalesce("gtids", fn.lit("")),
            **{name: fn.when(is_unread, 0).otherwise(fn.col(name)) for name in more},
        }
    )
    newest = [fn.max(name).alias(name) for name in LATEST]
    several = fn.size("texts") > 1
    union = fn.when(several, _union(fn.when(several, fn.col("texts"))))
    return (
        good.groupBy(*keys)
        .agg(*newest, fn.collect_set("gtids").alias("texts"))
        .withColumn("gtids", union.otherwise(fn.element_at("texts", 1)))
        .select(*FACT.names, *more)
    )


def _canonical_text(text: str | None) -> str | None:
    """The canonical text of a set; None if the text is none."""
    try:
        return None if text is None else parse(text).text()
    except MalformedGtidSetError:
        return None


def _united_text(texts: Sequence[str] | None) -> str:
    """The union of sets."""
    union = GtidSet()
    for text in texts or ():
        union.update(parse(text))
    return union.text()


# They are called only with the few texts that Spark cannot unite.
_canonical = fn.udf(_canonical_text, StringType(), useArrow=False)
_union = fn.udf(_united_text, StringType(), useArrow=False)

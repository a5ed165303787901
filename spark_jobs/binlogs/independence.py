"""Checks with binary logs the reads that are independent by the proxy's word.

Such a read was answered by a replica that lacked transactions which the read had to see. The proxy
says that these changed none of the read's tables. That holds if, of each transaction g that was
left out (the rule has four premises; see docs/consistency.md),

1. the primary's log has g, and
2. g only changed rows, and of no table of the read;
3. the replica commits in the primary's order, and
4. the replica had every transaction before g that did more than change rows.

Binary logs of any server of the cluster show 1, 2 and 4, and the replica's own shows 3.
Transactions of one source have their numbers in the order in which they were committed there.
"""

import re
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.tables.schema import RUN
from spark_jobs.verdict import Dependence, Verdict

DEPENDENT: Final = (
    *(*RUN, "seq", "session", "server", "arrived_us", "why", "table", "gtid", "file", "position"),
)
"""A read that depended on what its server lacked: the first transaction that shows it, and why."""

KEY: Final = (*RUN, "seq")
_READ: Final = ("session", "server", "arrived_us")
_CLAIM: Final = ("required", "proof_set", "tables")
_SOURCE: Final = ("source_uuid", "tag")
_ANYTHING: Final = "*"
"""In place of a table: the transactions that may have changed anything."""

_TABLE: Final = re.compile(r"`(?:[^`]|``)*`\.`(?:[^`]|``)*`")
_Interval = tuple[str, str, str, int, int]
_INTERVAL: Final = StructType(
    [
        StructField("source_uuid", StringType()),
        StructField("tag", StringType()),
        StructField("table", StringType()),
        StructField("first", LongType()),
        StructField("last", LongType()),
    ]
)


def by_word(reads: DataFrame, records: DataFrame) -> DataFrame:
    """Select the reads that are independent by the proxy's word, with what they claim.

    Args:
        reads: JUDGED.
        records: NUMBERED of the same log.

    Returns:
        RUN, ``seq``, ``session``, ``server``, ``server_uuid``, ``arrived_us``, and what it claims.
    """
    chosen = reads.where(fn.col("verdict") == Verdict.BY_WORD.value).select(*KEY)
    return records.join(fn.broadcast(chosen), [*KEY], "left_semi").select(
        *KEY, *_READ, "server_uuid", *_CLAIM
    )


def dependent(claims: DataFrame, transactions: DataFrame) -> DataFrame:
    """Find the reads for which the binary logs contradict the proxy.

    Args:
        claims: the result of `by_word`.
        transactions: `binlog_source.TRANSACTION`.

    Returns:
        DEPENDENT: one row for each such read.
    """
    found = [_touched(claims, transactions), _disordered(claims, transactions)]
    every = reduce(DataFrame.unionByName, found)
    first = fn.min_by(fn.struct(*DEPENDENT[len(KEY) :]), fn.struct("why", "number"))
    return every.groupBy(*KEY).agg(first.alias("first")).select(*KEY, "first.*").select(*DEPENDENT)


def confirmed(claims: DataFrame, transactions: DataFrame) -> DataFrame:
    """Find the reads of which the logs have every transaction that was left out.

    Args:
        claims: the result of `by_word`.
        transactions: `binlog_source.TRANSACTION`.

    Returns:
        RUN and ``seq``. Those of `dependent` may be among them.
    """
    known = (
        transactions.where("complete")
        .select(*_SOURCE, "number")
        .distinct()
        .withColumn("counts", fn.lit(1))
    )
    left = _exploded(claims, _absent)
    ends = ((fn.col("first") - 1, -1), (fn.col("last"), 1))
    probes = [left.withColumns({"number": at, "sign": fn.lit(sign)}) for at, sign in ends]
    so_far = Window.partitionBy(*_SOURCE).orderBy("number", fn.col("counts").desc_nulls_last())
    return (
        reduce(DataFrame.unionByName, probes)
        .unionByName(known, allowMissingColumns=True)
        .withColumn("before", fn.coalesce(fn.sum("counts").over(so_far), fn.lit(0)))
        .where("sign is not null")
        .groupBy(*KEY)
        .agg(
            fn.sum(fn.col("sign") * fn.col("before")).alias("found"),
            fn.sum(fn.col("sign") * fn.col("number")).alias("wanted"),
        )
        .where("found = wanted")
        .select(*KEY)
    )


def _touched(claims: DataFrame, transactions: DataFrame) -> DataFrame:
    """Reads whose server lacked a transaction that changed their tables, or perhaps anything."""
    nothing = fn.lit(None)
    table = fn.explode(fn.coalesce("tables", fn.array(fn.lit(_ANYTHING)))).alias("table")
    # Of a transaction that a log has only in part, another server's log may have all.
    changes = transactions.where("complete").select(
        *_SOURCE,
        "number",
        fn.struct("number", "gtid", "file", "position").alias("change"),
        table,
        nothing.cast("long").alias("first"),
    )
    asked = _exploded(claims, _compared).withColumn("number", fn.col("last"))
    # At the same number a transaction comes before who asks for it.
    order = ("number", fn.col("first").asc_nulls_first())
    before = Window.partitionBy(*_SOURCE, "table").orderBy(*order)
    newest = fn.max(fn.col("change")).over(before)
    why = fn.when(fn.col("table") == _ANYTHING, Dependence.OPAQUE.value).otherwise(
        Dependence.CHANGED.value
    )
    return (
        asked.unionByName(changes, allowMissingColumns=True)
        .withColumn("newest", newest)
        .where("first is not null and newest.number >= first")
        .select(*KEY, *_READ, why.alias("why"), "table", "newest.*")
    )


def _disordered(claims: DataFrame, transactions: DataFrame) -> DataFrame:
    """Reads of servers whose own log has a transaction behind a later one of the same source."""
    folder = fn.element_at(fn.split("file", "/"), -2)
    before = (
        Window.partitionBy("folder", *_SOURCE)
        .orderBy("file", "position")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    late = (
        transactions.where("gtid is not null")
        .withColumn("folder", folder)
        .withColumn("newest", fn.max("number").over(before))
        .where("number < newest")
        .groupBy("folder")
        .agg(fn.min_by(fn.struct("number", "gtid", "file", "position"), "number").alias("late"))
    )
    same = (fn.col("folder") == fn.col("server_uuid")) | (fn.col("folder") == fn.col("server"))
    nothing = fn.lit(None).cast("string")
    return claims.join(fn.broadcast(late), same).select(
        *KEY,
        *_READ,
        fn.lit(Dependence.DISORDERED.value).alias("why"),
        nothing.alias("table"),
        "late.*",
    )


def _exploded(claims: DataFrame, rows: Callable[..., list[_Interval]]) -> DataFrame:
    """The claims, each once for every interval that a function makes of what they claim."""
    # Without Arrow, which would need pandas.
    made = fn.udf(rows, ArrayType(_INTERVAL), useArrow=False)
    return claims.select(
        *KEY,
        *_READ,
        fn.explode(made(*_CLAIM)).alias("interval"),
    ).select(*KEY, *_READ, "interval.*")


def _absent(required: str | None, had: str | None, _tables: str | None) -> list[_Interval]:
    """What a read had to see and its server need not have had."""
    left, _ = _sets(required, had)
    return list(_intervals(left, ""))


def _compared(required: str | None, had: str | None, tables: str | None) -> list[_Interval]:
    """Which transactions must not be in the logs: those of a table, and those of anything.

    Of what may have changed anything, all before what was left out counts, too.
    """
    left, there = _sets(required, had)
    rows = [row for table in _TABLE.findall(tables or "") for row in _intervals(left, str(table))]
    earlier = left.copy()
    for tsid, _, end in left:
        earlier.add(tsid, 1, end)
    return [*rows, *_intervals(earlier.minus(there), _ANYTHING)]


def _sets(required: str | None, had: str | None) -> tuple[GtidSet, GtidSet]:
    try:
        there = parse(had or "")
        return parse(required or "").minus(there), there
    except MalformedGtidSetError:
        return GtidSet(), GtidSet()  # then the read has another verdict


def _intervals(gtids: GtidSet, table: str) -> Iterator[_Interval]:
    for tsid, start, end in gtids:
        uuid, _, tag = tsid.partition(":")
        yield uuid, tag, table, start, end - 1

"""Reads the routing log into numbered records, and notes what is missing from it."""

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from spark_jobs.records import numbering, statement
from spark_jobs.records.numbering import Counts
from spark_jobs.tables.schema import KINDS, LIMITS, NUMBERED, RECORD, RECORD_VERSION

_FEW: Final = 500_000
"""Up to so many strange numbers are broadcast; for more, all records are sorted by number."""

_NO_TEXT: Final = r"(?i)(?<!\\)((?:\\\\)*)(?<!\\ud[89ab][0-9a-f]{2})(\\udc[89a-f][0-9a-f])"
"""The escape of a byte that is no UTF-8, and the escaped backslashes before it. Java would read all
such bytes as one letter; with U+DBFF before it, it is a letter of its own, which nobody uses."""

_END: Final = "end"


def _fingerprint() -> Column:
    """A hash of all fields; two records have the same one with a probability of 2**-64."""
    nothing = (fn.isnull(field.name) for field in RECORD if field.nullable)
    return fn.xxhash64(*RECORD.names, *nothing)  # the hash alone ignores null


def parse(lines: DataFrame, *others: str) -> DataFrame:
    """Read each line as a record.

    Args:
        lines: ``file``, ``line`` and `others`.
        others: columns that are kept as they are.

    Returns:
        PARSED and `others`.
    """
    loose = StructType([StructField(field.name, field.dataType) for field in RECORD])
    loose.add(StructField("_unread", StringType()))
    line = fn.col("line")
    no_text = line.contains(r"\udc") | line.contains(r"\uDC")
    text = fn.when(no_text, fn.regexp_replace(line, _NO_TEXT, r"$1\\udbff$2")).otherwise(line)
    read = fn.from_json(text, loose, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_unread"})
    # Spark reads one object, and passes over what comes behind it in the line. Mostly the first
    # brace that closes is the last letter; only other lines are worth a second look.
    items = fn.from_json(fn.concat(fn.lit("["), line, fn.lit(f',"{_END}"]')), "array<string>")
    alone = fn.slice(items, 2, 2).eqNullSafe(fn.array(fn.lit(_END)))
    several = fn.when(fn.locate("}", line) < fn.length(line), ~alone).otherwise(fn.lit(False))
    incomplete = reduce(
        or_, (fn.col(field.name).isNull() for field in RECORD if not field.nullable)
    )
    impossible = reduce(or_, (~fn.col(name).between(*limits) for name, limits in LIMITS.items()))
    # Java would read all bytes that are no text as one letter.
    unread = fn.col("_unread").isNotNull() | several | ~fn.is_valid_utf8("line")
    fault = (
        fn.when(unread & ~fn.col("line").endswith("}"), "torn")
        # Another version may have other types.
        .when(fn.col("v").isNotNull() & (fn.col("v") != RECORD_VERSION), "foreign")
        .when(unread | incomplete, "damaged")
        .when(~fn.col("kind").isin(*KINDS), "foreign")
        .when(impossible, "damaged")
    )
    more = fn.isnotnull("fault") | ((fn.col("kind") == "proof") & fn.col("line").contains('"lag"'))
    return (
        lines.select("file", "line", *others)
        .where(fn.trim("line") != "")
        .select("file", "line", *others, read.alias("record"))
        .select("file", "line", *others, "record.*")
        .select(*RECORD.names, "file", fault.alias("fault"), "line", *others)
        .withColumn("line", fn.when(more, fn.col("line")))
    )


def number(
    records: DataFrame,
    kept: list[DataFrame] | None = None,
    strange: DataFrame | None = None,
    counts: Counts | None = None,
    before: DataFrame | None = None,
) -> DataFrame:
    """Add to each record what follows from its numbers and from its fields. This runs jobs.

    Args:
        records: RECORD, ``file``; they are read several times.
        kept: tables that are persisted here are added to it, for the caller to unpersist.
        strange: `numbering.strange` of the same records; None to compute it.
        counts: `numbering.count` of it; None to count.
        before: passed on to `numbering.strange`.

    Returns:
        NUMBERED.
    """
    narrow = records.select(*RECORD.names, "file", _fingerprint().alias("fingerprint"))
    if strange is None:
        strange = numbering.strange(narrow, before).persist()
        if kept is not None:
            kept.append(strange)
    found, repeated, *_ = counts or numbering.count(strange)
    strange = strange.select(*numbering.KEY, "repeated", "missing", "hole", "since_us")
    joined = narrow.select("*", numbering.run_of().alias(numbering.KEY[0]))
    if found:
        handed = fn.broadcast(strange) if found <= _FEW else strange
        joined = joined.join(handed, [*numbering.KEY], "left")
    else:
        # No number is strange, so no later query needs a join.
        rest = strange.schema.fields[len(numbering.KEY) :]
        nothing = fn.lit(None)
        joined = joined.withColumns({field.name: nothing.cast(field.dataType) for field in rest})
    again = fn.lit(None).cast("string")
    missing, zero = fn.coalesce("missing", fn.lit(0)), fn.lit(0)
    plain = joined.withColumn("repeat", again)
    if repeated:
        of_number = Window.partitionBy(*numbering.KEY).orderBy("fingerprint", "file")
        other = fn.lag("fingerprint").over(of_number)
        same = fn.when(fn.col("fingerprint") == other, "same").otherwise("other")
        is_repeated = fn.coalesce("repeated", fn.lit(False))
        plain = plain.where(~is_repeated).unionByName(
            joined.where(is_repeated).withColumn("repeat", fn.when(other.isNotNull(), same))
        )
    first = fn.isnull("repeat")
    return (
        plain.withColumn("missing", fn.when(first, missing).otherwise(zero))
        .withColumns(
            {
                "declared": fn.least("missing", "dropped"),
                "hole": first
                & (fn.col("kind") == "statement")
                & fn.coalesce("hole", fn.lit(False)),
                "since_us": fn.when(first, fn.coalesce("since_us", zero)).otherwise(zero),
                **statement.facts(),
            }
        )
        .select(NUMBERED.names)
    )

"""The routing log: from files to numbered records, without losing sight of what is not there."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_jobs import numbering, statement
from spark_jobs.schema import NUMBERED, RECORD, RECORD_VERSION
from spark_jobs.segments import Segments

_FEW: Final = 500_000
"""Numbers with something to tell that are handed to everybody, rather than that all are sorted."""


_TIMES: Final = ("arrived_us", "dispatched_us", "ended_us", "snapshot_us")
_TIME_ENDS_US: Final = 253_402_300_800_000_000
"""The year 10000, which no report can name."""

_MOST: Final = 2**48
"""Of any other number: so no sum of a few of them is beyond 64 bits."""


def read(spark: SparkSession, segments: Segments) -> DataFrame:
    """Read the lines: ``file`` (its last two path components) and ``line``."""
    return spark.read.text(names(segments.paths), lineSep="\n").select(
        fn.regexp_extract(fn.col("_metadata.file_path"), "[^/]+/[^/]+$", 0).alias("file"),
        fn.col("value").alias("line"),
    )


def names(paths: Iterable[Path | str]) -> list[str]:
    """Paths as Spark reads them: Hadoop takes some characters for patterns."""
    return [re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path)) for path in paths]


def parse(lines: DataFrame, *others: str) -> DataFrame:
    """Read each line as a record.

    Args:
        lines: ``file``, ``line`` and the others.
        others: columns that are kept as they are.

    Returns:
        RECORD, ``file``, ``fingerprint`` (of the line), ``fault``: null for a record, else "torn"
        (a line cut short), "damaged" (also a number that cannot be) or "foreign" (a version or kind
        that is not known), ``line`` and the others.
    """
    loose = StructType([StructField(field.name, field.dataType) for field in RECORD])
    loose.add(StructField("_unread", StringType()))
    read = fn.from_json(
        fn.col("line"), loose, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_unread"}
    )
    incomplete = reduce(
        or_, (fn.col(field.name).isNull() for field in RECORD if not field.nullable)
    )
    counts = (it.name for it in RECORD if it.dataType == LongType() and it.name not in _TIMES)
    impossible = reduce(
        or_,
        (
            *((fn.col(it) < 0) | (fn.col(it) >= _TIME_ENDS_US) for it in _TIMES),
            # A clock that is set back makes a wait negative.
            *((fn.col(it) < -_MOST) | (fn.col(it) > _MOST) for it in counts),
        ),
    )
    fault = (
        fn.when(fn.col("_unread").isNotNull() & ~fn.col("line").endswith("}"), "torn")
        .when(fn.col("_unread").isNotNull(), "damaged")
        .when(fn.col("v").isNotNull() & (fn.col("v") != RECORD_VERSION), "foreign")
        .when(incomplete, "damaged")
        .when(~fn.col("kind").isin("statement", "proof", "gap"), "foreign")
        .when(impossible, "damaged")
    )
    return (
        lines.select("file", "line", *others)
        .where(fn.trim("line") != "")
        .select("file", "line", *others, read.alias("record"))
        .select("file", "line", *others, "record.*")
        .select(
            *(*RECORD.names, "file"),
            fn.xxhash64("line").alias("fingerprint"),
            fault.alias("fault"),
            *("line", *others),
        )
    )


@dataclass(frozen=True)
class Kept:
    """Lines that were read, as Parquet.

    Attributes:
        parsed: as `parse` gives them.
        files: those that hold them, and perhaps others.
    """

    parsed: DataFrame
    files: Sequence[str]


def keep(parsed: DataFrame, folder: Path) -> Kept:
    """Write lines that were read as Parquet, so that none is read as JSON again.

    Args:
        parsed: as `parse` gives them.
        folder: where to; it must not exist.

    Returns:
        The same, but that ``line`` is null where RECORD holds all of it.
    """
    more = fn.isnotnull("fault") | ((fn.col("kind") == "proof") & fn.col("line").contains('"lag"'))
    kept = parsed.withColumn("line", fn.when(more, fn.col("line")))
    kept.write.parquet(str(folder))
    # Only what Spark itself has written is there, so nothing need be looked for.
    again = parsed.sparkSession.read.schema(parsed.schema).parquet(names([folder])[0])
    return Kept(again, sorted(map(str, folder.glob("*.parquet"))))


def number(
    records: DataFrame, kept: list[DataFrame] | None = None, strange: DataFrame | None = None
) -> DataFrame:
    """Put to each record what its numbers tell. This runs jobs.

    Args:
        records: RECORD, ``file``, ``fingerprint``; they are read several times.
        kept: takes what is persisted meanwhile, for the caller to unpersist.
        strange: `numbering.strange` of the same records, if it is known, or None.

    Returns:
        NUMBERED.
    """
    narrow = records.select(*RECORD.names, "file", "fingerprint")
    if strange is None:
        strange = numbering.strange(narrow).persist()
        if kept is not None:
            kept.append(strange)
    strange = strange.select(*numbering.KEY, "repeated", "missing", "hole", "since_us")
    found, repeated = strange.agg(fn.count("*"), fn.count_if("repeated")).collect()[0]
    told = narrow.select("*", numbering.run_of().alias(numbering.KEY[0]))
    if found:
        handed = fn.broadcast(strange) if found <= _FEW else strange
        told = told.join(handed, [*numbering.KEY], "left")
    else:
        # Then no later query has to look for anything.
        rest = strange.schema.fields[len(numbering.KEY) :]
        nothing = fn.lit(None)
        told = told.withColumns({it.name: nothing.cast(it.dataType) for it in rest})
    again = fn.lit(None).cast("string")
    missing, zero = fn.coalesce("missing", fn.lit(0)), fn.lit(0)
    plain = told.withColumn("repeat", again)
    if repeated:
        its = Window.partitionBy(*numbering.KEY).orderBy("fingerprint", "file")
        before = fn.lag("fingerprint").over(its)
        same = fn.when(fn.col("fingerprint") == before, "same").otherwise("other")
        is_repeated = fn.coalesce("repeated", fn.lit(False))
        plain = plain.where(~is_repeated).unionByName(
            told.where(is_repeated).withColumn("repeat", fn.when(before.isNotNull(), same))
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

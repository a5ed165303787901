"""The routing log: from files to numbered records, without losing sight of what is not there."""

import re
from collections.abc import Iterable
from functools import reduce
from operator import or_
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from spark_jobs import statement
from spark_jobs.schema import NUMBERED, RECORD, RECORD_VERSION, RUN, SESSION
from spark_jobs.segments import Segments


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
        (a line cut short), "damaged" or "foreign" (a version or kind that is not known), ``line``
        and the others.
    """
    loose = StructType([StructField(field.name, field.dataType) for field in RECORD])
    loose.add(StructField("_unread", StringType()))
    read = fn.from_json(
        fn.col("line"), loose, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_unread"}
    )
    incomplete = reduce(
        or_, (fn.col(field.name).isNull() for field in RECORD if not field.nullable)
    )
    fault = (
        fn.when(fn.col("_unread").isNotNull() & ~fn.col("line").endswith("}"), "torn")
        .when(fn.col("_unread").isNotNull(), "damaged")
        .when(fn.col("v").isNotNull() & (fn.col("v") != RECORD_VERSION), "foreign")
        .when(incomplete, "damaged")
        .when(~fn.col("kind").isin("statement", "proof", "gap"), "foreign")
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


def number(records: DataFrame) -> DataFrame:
    """Compare each record's numbers with those of the one before it.

    Every run begins at ``seq`` 1 and every session at ``ordinal`` 1, so what the log has lost or
    no longer holds shows at the first record after it.

    Args:
        records: RECORD, ``file``, ``fingerprint``.

    Returns:
        NUMBERED.
    """
    in_run = Window.partitionBy(*RUN).orderBy("seq", "fingerprint", "file")
    # Repeats and other kinds of records are kept out of a session's count.
    alike = (*SESSION, "kind", fn.isnull("repeat"))
    in_session = Window.partitionBy(*alike).orderBy("seq", "fingerprint", "file")
    zero = fn.lit(0)
    return (
        records.select(*RECORD.names, "file", "fingerprint")
        .withColumns(
            {
                "before": fn.lag("seq").over(in_run),
                "print_before": fn.lag("fingerprint").over(in_run),
                "since_us": fn.coalesce(fn.lag("ended_us").over(in_run), fn.lit(0)),
            }
        )
        .withColumn(
            "repeat",
            fn.when(
                fn.col("seq") == fn.col("before"),
                fn.when(fn.col("fingerprint") == fn.col("print_before"), "same").otherwise("other"),
            ),
        )
        .withColumn(
            "missing",
            fn.when(fn.isnull("repeat"), fn.col("seq") - 1 - fn.coalesce("before", zero)).otherwise(
                zero
            ),
        )
        .withColumn("declared", fn.least("missing", "dropped"))
        .withColumn("ordinal_before", fn.coalesce(fn.lag("ordinal").over(in_session), zero))
        .withColumn(
            "hole",
            fn.isnull("repeat")
            & (fn.col("kind") == "statement")
            & (fn.col("ordinal") != fn.col("ordinal_before") + 1),
        )
        .withColumns(statement.facts())
        .select(NUMBERED.names)
    )

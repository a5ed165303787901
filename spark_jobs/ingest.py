"""The routing log: from files to numbered records, without losing sight of what is not there."""

import re
import shutil
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructField, StructType

from spark_jobs import statement
from spark_jobs.schema import NUMBERED, RECORD, RECORD_VERSION, RUN, SESSION

OPEN_SUFFIX: Final = ".open"
_SEGMENTS: Final = "date=*/*.jsonl"


@dataclass(frozen=True, slots=True)
class Segments:
    """The files of a log.

    Attributes:
        complete: segments that the proxy has finished.
        live: copies of the segments that it was still writing (or was killed over).
    """

    complete: tuple[Path, ...]
    live: tuple[Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        return self.complete + self.live


def find_segments(log: Path, scratch: Path) -> Segments:
    """List a log that may be growing.

    A live segment is renamed when it is complete, so it is copied first, and its copy dropped if
    the rename came between. Everything is named by a path below `scratch`: a log may be in a
    directory whose name Hadoop would take for a pattern or for a URI.

    Args:
        log: the directory that holds ``date=YYYY-MM-DD/``.
        scratch: an empty directory.
    """
    copies: dict[Path, Path] = {}
    for path in sorted(log.glob(_SEGMENTS + OPEN_SUFFIX)):
        copy = scratch / "live" / path.relative_to(log)
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(path, copy)
        except FileNotFoundError:
            continue  # renamed; it is among the complete ones below
        copies[path.with_suffix("")] = copy
    complete = sorted(log.glob(_SEGMENTS))
    for path in complete:
        copies.pop(path, None)
    link = scratch / "log"
    link.symlink_to(log.resolve())
    return Segments(
        tuple(link / path.relative_to(log) for path in complete), tuple(copies.values())
    )


def read(spark: SparkSession, segments: Segments) -> DataFrame:
    """Read the lines: ``file`` (its last two path components) and ``line``."""
    # Hadoop takes these characters for patterns.
    paths = [re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path)) for path in segments.paths]
    return spark.read.text(paths, lineSep="\n").select(
        fn.regexp_extract(fn.col("_metadata.file_path"), "[^/]+/[^/]+$", 0).alias("file"),
        fn.col("value").alias("line"),
    )


def parse(lines: DataFrame) -> DataFrame:
    """Read each line as a record.

    Args:
        lines: ``file``, ``line``.

    Returns:
        RECORD, ``file``, ``fingerprint`` (of the line) and ``fault``: null for a record, else
        "torn" (a line cut short), "damaged" or "foreign" (a version or kind that is not known).
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
        lines.select("file", "line")
        .where(fn.trim("line") != "")
        .select("file", "line", read.alias("record"))
        .select("file", "line", "record.*")
        .select(
            *RECORD.names, "file", fn.xxhash64("line").alias("fingerprint"), fault.alias("fault")
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

"""A log that only Spark can read (``s3a:``, ``hdfs:`` and the like), copied to this machine.

The audit lists a log, knows segments by their names and sums, and tells which of them came late.
All of that it does with files. So segments are fetched by Spark's reader, each once, and the copy
is kept beside the report.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SEGMENT: Final = re.compile(r"/(date=[^/]+)/([^/]+\.jsonl(?:\.open|\.gz|\.zst)?)$")


def fetch(spark: "SparkSession", uri: str, folder: Path) -> int:
    """Make a folder have the segments that a log has.

    Args:
        spark: a session.
        uri: of the directory that holds ``date=YYYY-MM-DD/``, as Hadoop reads it.
        folder: the copy, of this log alone.

    Returns:
        How many segments were fetched.

    Raises:
        OSError: the copy cannot be written.
        PySparkException: the log cannot be read; so does Py4J, with an error of its own.
    """
    from pyspark.sql import functions as fn

    from spark_jobs import ingest

    changed_us = fn.unix_micros("modificationTime").alias("changed_us")
    # Segments alone: what else is there is not looked at.
    listed = _files(spark, f"{uri.rstrip('/')}/date=*/*.jsonl*").select(
        "path", "length", changed_us
    )
    found = {
        "/".join(match.groups()): row
        for row in listed.collect()
        if (match := _SEGMENT.search(row.path))
    }
    for path in folder.glob("date=*/*"):
        if path.relative_to(folder).as_posix() not in found:
            path.unlink()
    fetched = 0
    for name, row in found.items():
        path, changed_ns = folder / name, row.changed_us * 1000
        if path.is_file():
            stat = path.stat()
            if (stat.st_size, stat.st_mtime_ns) == (row.length, changed_ns):
                continue
        path.parent.mkdir(parents=True, exist_ok=True)
        (its,) = _files(spark, *ingest.names([row.path])).select("content").collect()
        staged = path.with_name(f"{path.name}.staged")
        staged.write_bytes(its.content)
        os.utime(staged, ns=(changed_ns, changed_ns))
        staged.rename(path)
        fetched += 1
    return fetched


def _files(spark: "SparkSession", pattern: str) -> "DataFrame":
    return spark.read.format("binaryFile").load(pattern)

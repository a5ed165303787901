"""Copies a log that only Spark can read (``s3a:``, ``hdfs:`` and the like) to this machine.

The audit lists a log, recognizes segments by their names and checksums, and notes which of them
came late. It does all that with local files. So Spark's reader fetches each segment once, and the
copy is kept beside the report.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SEGMENT: Final = re.compile(r"/(date=[^/]+)/([^/]+\.jsonl(?:\.open|\.gz|\.zst)?)$")


def fetch(spark: "SparkSession", uri: str, folder: Path) -> int:
    """Update a folder so that it holds the segments of a log.

    Args:
        spark: a session.
        uri: URI of the directory that holds ``date=YYYY-MM-DD/``, as Hadoop reads it.
        folder: the copy; it holds nothing but this log.

    Returns:
        How many segments were fetched.

    Raises:
        OSError: the copy cannot be written, or Spark lacks its library for S3.
        PySparkException: the log cannot be read; Py4J may raise an error of its own instead.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as fn

    from spark_jobs.records import ingest

    changed_us = fn.unix_micros("modificationTime").alias("changed_us")
    # Other files than segments are ignored.
    try:
        listed = _files(spark, f"{uri.rstrip('/')}/date=*/*.jsonl*").select(
            "path", "length", changed_us
        )
    except (PySparkException, Py4JError) as error:
        if "S3AFileSystem not found" in str(error):
            raise OSError(_without_s3(spark, uri)) from error
        raise
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
        (remote,) = _files(spark, *ingest.names([row.path])).select("content").collect()
        staged = path.with_name(f"{path.name}.staged")
        staged.write_bytes(remote.content)
        os.utime(staged, ns=(changed_ns, changed_ns))
        staged.rename(path)
        fetched += 1
    return fetched


def _without_s3(spark: "SparkSession", uri: str) -> str:
    jvm = spark.sparkContext._jvm
    version = "VERSION" if jvm is None else jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    return (
        f"this Spark cannot read {uri}, since it lacks the library for S3: set spark.jars.packages "
        f"to org.apache.hadoop:hadoop-aws:{version} in spark-defaults.conf (SPARK_CONF_DIR names "
        "its directory), or put that jar and those that it needs into Spark's jars"
    )


def _files(spark: "SparkSession", pattern: str) -> "DataFrame":
    return spark.read.format("binaryFile").load(pattern)

"""One Spark for all audit tests. They are skipped, in plain sight, only where it cannot run."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from spark_jobs import stop_signals
from spark_jobs.spark_session import start_spark, what_is_missing
from tests.support.services import needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
@needs("spark")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    missing = what_is_missing()
    if missing:
        pytest.skip(missing)
    # Hundreds of audits compile more than fits into the 48 MB that the first compiler gets alone.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:ReservedCodeCacheSize=240m")
    # One JVM keeps something of each of hundreds of audits; with 1 GB it sometimes ran out of it.
    os.environ.setdefault("SPARK_DRIVER_MEMORY", "3g")
    # With the settings for a small log, which sessions that audits open for themselves have, too.
    session = start_spark(tmp_path_factory.mktemp("spark") / "spark.log", size=1)
    stop_signals.ends_first(None)  # tests send signals to themselves, and others need this one
    yield session
    session.stop()

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
    # Short jobs: the second compiler would cost more than it saves. Without it, Java keeps no more
    # than 48 MB of compiled code, and is soon busy with making room for what other audits run.
    os.environ.setdefault(
        "JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
    )
    # One JVM keeps something of each of hundreds of audits; with 1 GB it sometimes ran out of it.
    os.environ.setdefault("SPARK_DRIVER_MEMORY", "3g")
    session = start_spark(tmp_path_factory.mktemp("spark") / "spark.log")
    stop_signals.ends_first(None)  # tests send signals to themselves, and others need this one
    # Logs here are small: to compile what runs over them costs more than to interpret it, and to
    # plan each stage anew more than it saves.
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    # Each task costs more than the few rows in it.
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()

"""The state that an audit begins with, in the form that passes and judges read."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as fn

from spark_jobs.records import statement
from spark_jobs.records.ingest import names
from spark_jobs.state import records
from spark_jobs.state.facts import FACT
from spark_jobs.tables.schema import NUMBERED, PARSED, RUN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.state.states import State


class Before:
    """A state that was opened.

    Attributes:
        folder: the files that `state.records.lay` has written.
        facts: FACT.
        until_us: everything that is condensed had ended by then.
        tail: files of `schema.PARSED`: the records that are not condensed.
    """

    def __init__(self, spark: "SparkSession", state: "State", folder: Path) -> None:
        """Open a state.

        Args:
            spark: a session.
            state: the state.
            folder: takes the files made from it; it must not exist.
        """
        self._spark, self.folder = spark, folder
        self.facts: pa.Table = pq.read_table(state.facts, schema=FACT)
        self.until_us = state.about.until_us
        self.tail: Sequence[Path] = state.tail
        records.lay(self.facts, folder)

    def _read(self, name: str) -> "DataFrame":
        return self._spark.read.parquet(*names([self.folder / f"{name}.parquet"]))

    @cached_property
    def tail_records(self) -> "DataFrame":
        """The tail: `schema.PARSED`."""
        return self._spark.read.schema(PARSED).parquet(*names(self.tail))

    @property
    def records(self) -> "DataFrame":
        """NUMBERED of the records that stand for what is condensed; none of them is judged."""
        its = self._read("records").withColumns(
            {
                "repeat": fn.lit(None).cast("string"),
                "declared": fn.lit(0).cast("bigint"),
                **statement.facts(),
            }
        )
        return its.withColumn("is_judged", fn.lit(False)).select(NUMBERED.names)

    @property
    def numbers(self) -> "DataFrame":
        """The last known numbers, in the form that `numbering.strange` takes."""
        nothing = fn.lit(None).cast("bigint")
        ended = fn.col("last_ended_us").alias("ended_us")
        seq = fn.col("last_seq").alias("seq")
        whole = (nothing.alias("session"), nothing.alias("ordinal"))
        runs = self._read("stretches").select(*RUN, seq, ended, *whole)
        ordinal = fn.col("last_ordinal").alias("ordinal")
        its = self._read("sessions").select(
            *RUN, seq, nothing.alias("ended_us"), "session", ordinal
        )
        return runs.unionByName(its)

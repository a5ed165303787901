"""The state that an audit begins with."""

from typing import TYPE_CHECKING

from spark_jobs.paths import escape
from spark_jobs.state import records
from spark_jobs.state.facts import FACT
from spark_jobs.tables.schema import PARSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.state.states import State


class Before:
    """A state that was opened.

    Attributes:
        facts: FACT, merged.
        until_us: everything that is condensed had ended by then.
        tail: PARSED of the records that are not condensed.
    """

    def __init__(self, spark: "SparkSession", state: "State") -> None:
        """Open a state.

        Args:
            spark: a session.
            state: the state.
        """
        self.facts = spark.read.schema(FACT).parquet(*escape([state.facts]))
        self.tail = spark.read.schema(PARSED).parquet(*escape([state.tail]))
        self.until_us = state.about.until_us

    @property
    def records(self) -> "DataFrame":
        """NUMBERED of the records that stand for what is condensed; none of them is judged."""
        return records.transform(self.facts)

    @property
    def numbers(self) -> "DataFrame":
        """The last known numbers, in the form that `numbering.strange` takes."""
        return records.numbers(self.facts)

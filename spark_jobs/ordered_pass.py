"""One pass over sorted groups, for computations that need rows in order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import arrow_udtf
from pyspark.sql.table_arg import TableArg
from pyspark.sql.types import StructType

from spark_jobs.tables import small_table


class Handler(ABC):
    """Goes through one group."""

    @abstractmethod
    def eval(self, row: Iterable[object]) -> Iterable[tuple[object, ...]]:
        """Take the next row; yield rows of the result."""

    def terminate(self) -> Iterable[tuple[object, ...]]:
        """Yield what is left at the group's end."""
        return ()


def ordered_pass(
    rows: DataFrame,
    groups: Sequence[str],
    order: Sequence[str],
    handler: Callable[[], Handler],
    result: StructType,
) -> DataFrame:
    """Feed each group's rows, sorted, to a handler of its own.

    Rows reach the handler's worker, and leave it, as columns of Arrow, a batch at a time. So a
    group may be larger than memory, as long as the handler's state is not.

    Args:
        rows: what to go through.
        groups: columns; rows that agree in them form a group.
        order: columns by which each group is sorted.
        handler: made once per group.
        result: the result's columns.
    """
    made = {"handler": handler, "schema": small_table.to_arrow(result)}
    run = arrow_udtf(type("_GroupOf", (_Group,), made), returnType=result)
    found = cast("Callable[[TableArg], DataFrame]", run)
    return found(rows.asTable().partitionBy(*groups).orderBy(*order)).select(result.names)


class _Group:
    """One group, in a worker.

    Attributes:
        handler: makes what goes through the group.
        schema: the result's.
    """

    handler: ClassVar[Callable[[], Handler]]
    schema: ClassVar[pa.Schema]

    def __init__(self) -> None:
        self._handler = type(self).handler()

    def eval(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        columns = [column.to_pylist() for column in batch.columns]
        yield from self._table(
            chain.from_iterable(map(self._handler.eval, zip(*columns, strict=True)))
        )

    def terminate(self) -> Iterator[pa.Table]:
        yield from self._table(self._handler.terminate())

    def _table(self, rows: Iterable[tuple[object, ...]]) -> Iterator[pa.Table]:
        found = [*rows]
        if found:
            arrays = map(pa.array, zip(*found, strict=True), self.schema.types)
            yield pa.table([*arrays], schema=self.schema)

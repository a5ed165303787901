"""One pass over sorted groups, for computations that need rows in order."""

from collections.abc import Callable, Sequence
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql.functions import udtf
from pyspark.sql.table_arg import TableArg
from pyspark.sql.types import StructType


def ordered_pass(
    rows: DataFrame, groups: Sequence[str], order: Sequence[str], handler: type, result: StructType
) -> DataFrame:
    """Feed each group's rows, sorted, to a handler of its own.

    A handler sees one row at a time, so a group may be larger than memory, as long as the handler's
    state is not.

    Args:
        rows: what to go through.
        groups: columns; rows that agree in them form a group.
        order: columns by which each group is sorted.
        handler: made once per group; ``eval(row)`` yields tuples of the result.
        result: the result's columns.
    """
    # Without Arrow: it needs pandas and pyarrow, and there is nothing to vectorise here.
    run = cast("Callable[[TableArg], DataFrame]", udtf(handler, returnType=result, useArrow=False))
    return run(rows.asTable().partitionBy(*groups).orderBy(*order)).select(result.names)

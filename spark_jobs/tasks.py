"""Distributes work by Spark: Python functions that go through pieces of files by whole columns.

A task reads and writes Parquet itself, and returns little. So only names of files and small sums
pass between Java and Python, and Java need not compile anything. Results are added up within each
task, and then in the driver.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Sum(Protocol):
    def add(self, other: Self, /) -> None: ...


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Total = TypeVar("Total", bound=_Sum)
"""A result that can be added to another."""


def each(
    spark: "SparkSession", items: Sequence[_Item], work: Callable[[_Item], _Result]
) -> list[_Result]:
    """Apply a function to each item, and return the results in the same order.

    Args:
        spark: a session.
        items: the items; each is a task.
        work: the function; it is sent to the workers, with all that it holds.
    """
    if not items:
        return []
    results: list[_Result] = spark.sparkContext.parallelize(items, len(items)).map(work).collect()
    return results


def total(
    spark: "SparkSession", items: Sequence[_Item], work: Callable[[_Item], Total], slices: int
) -> Total | None:
    """Apply a function to each item, and add up the results; None if there are no items.

    Args:
        spark: a session.
        items: the items; a task may take several of them.
        work: the function; it is sent to the workers, with all that it holds.
        slices: the number of tasks.
    """
    if not items:
        return None

    def add_up(mine: Iterable[_Item]) -> Iterator[Total]:
        sum_: Total | None = None
        for item in mine:
            result = work(item)
            if sum_ is None:
                sum_ = result
            else:
                sum_.add(result)
        if sum_ is not None:
            yield sum_

    count = min(slices, len(items))
    first, *others = spark.sparkContext.parallelize(items, count).mapPartitions(add_up).collect()
    for other in others:
        first.add(other)
    return first

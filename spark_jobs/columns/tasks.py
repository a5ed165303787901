"""Spark as the one that hands out work: Python that goes through pieces of files by whole columns.

A task reads Parquet itself, writes Parquet, and says little. So nothing passes between Java and
Python but names of files and small sums, and Java need not compile anything. What is said is put
together where it was found, and then at the driver.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Sum(Protocol):
    def add(self, other: Self, /) -> None: ...


_Item = TypeVar("_Item")
_Said = TypeVar("_Said")
Total = TypeVar("Total", bound=_Sum)
"""What adds up."""


def each(
    spark: "SparkSession", items: Sequence[_Item], work: Callable[[_Item], _Said]
) -> list[_Said]:
    """Do something with each item, and give what each says, in their order.

    Args:
        spark: a session.
        items: each is a task.
        work: what is done; it is sent to the workers, with all that it holds.
    """
    if not items:
        return []
    said: list[_Said] = spark.sparkContext.parallelize(items, len(items)).map(work).collect()
    return said


def total(
    spark: "SparkSession", items: Sequence[_Item], work: Callable[[_Item], Total], slices: int
) -> Total | None:
    """Do something with each item, and add up what they say; None if there are no items.

    Args:
        spark: a session.
        items: tasks take several of them.
        work: what is done; it is sent to the workers, with all that it holds.
        slices: tasks.
    """
    if not items:
        return None

    def add_up(mine: Iterable[_Item]) -> Iterator[Total]:
        sum_: Total | None = None
        for item in mine:
            said = work(item)
            if sum_ is None:
                sum_ = said
            else:
                sum_.add(said)
        if sum_ is not None:
            yield sum_

    count = min(slices, len(items))
    first, *others = spark.sparkContext.parallelize(items, count).mapPartitions(add_up).collect()
    for other in others:
        first.add(other)
    return first

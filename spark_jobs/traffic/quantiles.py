"""Quantiles of times, and the parts of the day in which they are."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def quantiles(values: Column | str, name: str) -> list[Column]:
    """p50, p95, p99 and max of a column of microseconds; null where all values are.

    Each is the least value such that at least this share of all values is no greater, or, where
    there are very many, one whose rank is off by a ten-thousandth of their number at most.

    Args:
        values: the column; null does not count.
        name: the names of the results; it has a placeholder for the quantile's name.
    """
    # All quantiles come from one expression, which Spark computes once.
    found = fn.percentile_approx(values, list(_SHARES.values()))
    return [
        *(
            found[place].cast("long").alias(name.format(which))
            for place, which in enumerate(_SHARES)
        ),
        fn.max(values).alias(name.format("max")),
    ]


def begin_of(span_us: int, time: str) -> Column:
    """The begin of the hour, minute, … in which a time is, µs."""
    return fn.col(time) - fn.pmod(fn.col(time), fn.lit(span_us))

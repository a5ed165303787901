"""Quantiles of times, and the parts of the day in which they are."""

from typing import Final

_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def quantiles(values: str, name: str) -> list[str]:
    """SQL for p50, p95, p99 and max of microseconds; null where all values are.

    Each is the least value such that at least this share of all values is no greater, or, where
    there are very many, one whose rank is off by a ten-thousandth of their number at most.

    Args:
        values: SQL for the values; null does not count.
        name: the names of the results; it has a placeholder for the quantile's name.
    """
    # All quantiles come from one expression, which Spark computes once.
    found = f"percentile_approx({values}, array({', '.join(map(str, _SHARES.values()))}))"
    return [
        *(
            f"bigint({found}[{place}]) as {name.format(which)}"
            for place, which in enumerate(_SHARES)
        ),
        f"max({values}) as {name.format('max')}",
    ]


def begin_of(span_us: int, time: str) -> str:
    """SQL for the begin of the hour, minute, … in which a time is, µs."""
    return f"{time} - pmod({time}, {span_us}L)"

"""Latencies in buckets."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often each latency was seen.

    Attributes:
        counts: number of latencies by bucket; a bucket is named by a latency in it, in µs.
    """

    counts: Mapping[float, int]

    def __len__(self) -> int:
        return sum(self.counts.values())

    def percentile(self, percent: float) -> float:
        """The least bucket that `percent` of all latencies do not exceed, in µs.

        Raises:
            ValueError: the histogram is empty, or `percent` is not in (0, 100].
        """
        total = len(self)
        if not total:
            raise ValueError("an empty histogram has no percentiles")
        if not 0 < percent <= 100:
            raise ValueError(f"{percent} is not a percentage in (0, 100]")
        seen = 0
        for latency, count in sorted(self.counts.items()):
            seen += count
            if seen * 100 >= total * percent:
                return latency
        raise AssertionError("the counts of a histogram add up to its total")

"""All counts of one worker at one moment, as they go from process to process."""

import os
import sys
from collections.abc import Sequence
from operator import add
from pathlib import Path
from typing import TypedDict

from proxy.observe.histogram import Histogram


class Snapshot(TypedDict):
    """All counts of one worker at one moment, by family name.

    Attributes:
        values: of counters and gauges, per series (label values, value).
        histograms: per series (label values, counts per bucket, sum in seconds).

    """

    values: dict[str, list[tuple[list[str], float]]]
    histograms: dict[str, list[tuple[list[str], list[int], float]]]


def merged(
    histograms: Sequence[tuple[tuple[str, ...], Histogram]],
) -> list[tuple[list[str], list[int], float]]:
    """Add up histograms with the same labels; give labels, counts per bucket, sum in seconds."""
    counts: dict[tuple[str, ...], list[int]] = {}
    totals: dict[tuple[str, ...], int] = {}
    for labels, histogram in histograms:
        found = list(histogram.counts)
        known = counts.get(labels)
        counts[labels] = found if known is None else list(map(add, known, found))
        totals[labels] = totals.get(labels, 0) + histogram.total
    return [(list(labels), found, totals[labels] / 1e6) for labels, found in counts.items()]


def resident_bytes(peak_kib: int) -> int | None:
    """Return the memory in use, or its peak where the kernel does not tell.

    None where no file can be opened now: all other counts are shown all the same.
    """
    if sys.platform != "linux":
        return peak_kib * 1024
    try:
        text = Path("/proc/self/statm").read_text()
    except OSError:
        return None
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")

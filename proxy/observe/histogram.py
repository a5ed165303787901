"""Values counted by size: one series of a histogram."""

from typing import Final


class Histogram:
    """A histogram. One thread adds values; others may read it at any moment.

    Attributes:
        counts: how many values each bucket has; the last one counts those above all bounds.
        total: the sum of all values.
    """

    def __init__(self, bounds: tuple[int, ...]) -> None:
        """Begin without values; `bounds` are the greatest values of the buckets, ascending."""
        self.counts: Final = [0] * (len(bounds) + 1)
        self.total = 0
        self._bounds: Final = bounds
        # The bucket of the last value; the next value is mostly in the same one.
        self._bucket = 0
        self._above = -1
        self._most = bounds[0]

    def add(self, value: int) -> None:
        """Count a value, 0 or more."""
        if not self._above < value <= self._most:
            self._find(value)
        self.counts[self._bucket] += 1
        self.total += value

    def _find(self, value: int) -> None:
        """Find a value's bucket: that of the first bound that is not below it."""
        bounds = self._bounds
        low, high = 0, len(bounds)
        while low < high:
            middle = (low + high) >> 1
            if bounds[middle] < value:
                low = middle + 1
            else:
                high = middle
        self._bucket = low
        self._above = bounds[low - 1] if low else -1
        self._most = bounds[low] if low < len(bounds) else value

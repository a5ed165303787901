"""A rate limit that tells how long to wait."""


class RateLimit:
    """Lets through `rate` per second, and up to a second's worth at once."""

    def __init__(self, rate: float) -> None:
        """`rate` is per second."""
        self._rate = rate
        self._burst = max(rate, 1.0)
        self._left = self._burst
        self._at: float | None = None

    def change(self, rate: float) -> None:
        """Let through this rate from now on; who has been given a turn keeps it."""
        self._rate = rate
        self._burst = max(rate, 1.0)
        self._left = min(self._left, self._burst)

    def reserve(self, now: float, most: float) -> float | None:
        """Take one; return in how many seconds its turn comes.

        Args:
            now: monotonic time, seconds.
            most: the longest useful wait; beyond it nothing is taken and None is returned.
        """
        if self._at is not None and now > self._at:
            self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now if self._at is None else max(now, self._at)
        delay = max(0.0, (1.0 - self._left) / self._rate)
        if delay > most:
            return None
        self._left -= 1.0
        return delay

"""How far servers' clocks are apart, as far as questions and answers can tell."""

from typing import Final, NamedTuple

_DRIFT: Final = 0.0005
"""A clock that is being corrected runs faster or slower by at most this share (adjtime)."""


class Difference(NamedTuple):
    """Bounds of what one clock is ahead of another, µs; negative where it is behind."""

    low: int
    high: int

    @property
    def least(self) -> int:
        """The smallest difference that is possible: 0 unless the clocks are known to differ."""
        return max(self.low, min(self.high, 0))

    @property
    def error(self) -> int:
        """How far the difference may be from `least`, µs."""
        return max(self.high - self.least, self.least - self.low)


class Clock(NamedTuple):
    """What a server's clock was ahead of the proxy's monotonic clock; all µs.

    Attributes:
        low: at least so much.
        high: at most so much.
        at: when the question was sent, by the proxy's clock.
    """

    low: int
    high: int
    at: int

    @classmethod
    def from_answer(cls, server_us: int, asked_us: int, answered_us: int) -> "Clock":
        """A server said `server_us` between two moments of the proxy's clock."""
        return cls(server_us - answered_us, server_us - asked_us, asked_us)

    def ahead_of(self, other: "Clock") -> Difference:
        """What this clock is ahead of another server's."""
        drift = int(abs(self.at - other.at) * _DRIFT)
        return Difference(self.low - other.high - drift, self.high - other.low + drift)

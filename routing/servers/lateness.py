"""Whether reads keep meeting a replica that is late.

A read that waits for some milliseconds, or in vain, may only have met a stall of the machine. So
what is asked here is whether that has gone on for a while. It is a hint, and proves nothing.
"""

from math import inf
from typing import Final

LATE_S: Final = 0.02
"""A replica for which a read waits so long is late."""
_LASTS_S: Final = 1.0
"""More than a wait that ran out by a stall, and the time after that in which no read waits."""
_FORGOTTEN_S: Final = 10.0
"""What nobody has met for so long is over: longer than late replicas are left alone at most."""


class Lateness:
    """What reads have met at one replica.

    Attributes:
        at: when it was last found to be late, and had been so for a while, monotonic s.
    """

    def __init__(self) -> None:
        """It is not late."""
        self.at = -inf
        self._since = inf
        self._seen_at = -inf

    def on_late(self, now: float, waited: float = 0.0) -> None:
        """A read has waited there for so long, s, or need not try to; or it was seen to be late."""
        if now - waited - self._seen_at > _FORGOTTEN_S:
            self._since = inf
        self._since = min(self._since, now - waited)
        self._seen_at = now
        if now - self._since >= _LASTS_S:
            self.at = now

    def on_prompt(self) -> None:
        """It had a write soon after its acknowledgement."""
        self._since = inf

"""What one replica lacks, though WAITs ran out for it, one after the other.

A replica may apply all that it is sent, and yet never get some of what reads must see: GTIDs that
the primary was given by `gtid_purged`, or whose binary log is gone. Progress with all else says
nothing of these. So where a WAIT begins after another one has run out, and runs out for the same
GTIDs, the next one for them has to wait, and longer each time. Only a hint: it proves nothing.
"""

from math import inf
from typing import Final

from protocol.gtid import EMPTY, GtidSet

_PAUSE_FIRST_S: Final = 1.0
_PAUSE_LAST_S: Final = 30.0
"""A WAIT of 250 ms is then less than a hundredth of the time."""


class MissingGtids:
    """What WAITs ran out for on one replica; all times are monotonic, s."""

    def __init__(self) -> None:
        """Nothing is missing."""
        self._gtids = EMPTY
        self._found_at = -inf
        self._pause = 0.0
        self._until = -inf

    def on_timeout(self, missing: GtidSet, waited: float, now: float) -> None:
        """A WAIT ran out after so long a time; this part of its set is not known to be there."""
        if now - waited < self._found_at:
            return  # it has met the same stall as another one
        again = self._gtids & missing
        self._pause = min(max(self._pause * 2, _PAUSE_FIRST_S), _PAUSE_LAST_S) if again else 0.0
        self._gtids = again or missing
        self._found_at = now
        self._until = now + self._pause

    def hold_back(self, required: GtidSet, applied: GtidSet, now: float) -> bool:
        """Whether no WAIT for this is worth a budget yet, on a replica that has proved so much."""
        return now < self._until and bool((self._gtids & required) - applied)

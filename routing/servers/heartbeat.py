"""Lag by heartbeat rows, for replicas whose replication tables may not be read.

A program writes the time into one row of the primary, again and again, as `pt-heartbeat` does. A
replica lacks what came since the newest beat that it has. Tidegate does not know the program's
clock, so such a lag is never certain, and it is only as exact as the time between beats.
"""

from collections import deque
from typing import Final

from routing.servers.lag import Span

_KEPT: Final = 4096


class Heartbeats:
    """The beats that were seen on the primary."""

    def __init__(self) -> None:
        self.server_id = 0
        self._beats: deque[int] = deque(maxlen=_KEPT)

    def on_beat(self, server_id: int, beat_us: int | None) -> None:
        """The primary was asked: its id, and its newest beat, if there is one."""
        if server_id != self.server_id:
            self.server_id = server_id
            self._beats.clear()
        if beat_us is not None and (not self._beats or beat_us > self._beats[-1]):
            self._beats.append(beat_us)

    def waits(self, beat_us: int | None, now_us: int) -> Span | None:
        """Age of the oldest beat that a replica lacks, by its clock; None if none was ever seen.

        Args:
            beat_us: the newest that it has; None if it has none.
            now_us: its clock, which is not the beats'.
        """
        if not self._beats:
            return None
        for beat in self._beats:
            if beat_us is None or beat > beat_us:
                return Span(max(0, now_us - beat), None)
        return Span(0, None)

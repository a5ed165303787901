"""When a server's transactions are committed: the timestamps of WL#7319."""

import time
from collections.abc import Callable
from typing import Final

from protocol.binlog.commit_timestamps import CommitTimestamps, original_for

# As MySQL 9.7 writes them to its error log.
INVALID: Final = (
    "Invalid replication timestamps: original commit timestamp is more recent than the immediate "
    "commit timestamp. This may be an issue if delayed replication is active. Make sure that "
    "servers have their clocks set to the correct time. No further message will be emitted until "
    "after timestamps become valid again."
)
NORMAL: Final = "The replication timestamps have returned to normal values."


class CommitClock:
    """One server's clock, in microseconds since the epoch, UTC.

    Args:
        warn: takes what goes to the error log.

    Attributes:
        ahead: microseconds by which it is ahead of the true time.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.ahead = 0
        self._warn = warn
        self._contradicted = False

    def stamp(self, session_value: int, *, by_applier: bool) -> CommitTimestamps:
        """The timestamps of a transaction that is committed now.

        The error log tells once when first commits begin to lie in this server's future, and once
        when they no longer do (F6).

        Args:
            session_value: what the session, or the source's log, says of the first commit.
            by_applier: whether another server's transaction is applied.
        """
        now = time.time_ns() // 1000 + self.ahead
        stamped = CommitTimestamps(original_for(session_value, now, by_applier=by_applier), now)
        contradicted = stamped.original > stamped.immediate
        if contradicted is not self._contradicted:
            self._contradicted = contradicted
            self._warn(INVALID if contradicted else NORMAL)
        return stamped

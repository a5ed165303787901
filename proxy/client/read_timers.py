"""What a read waits for besides its answer: its turn, a WAIT in front of it, or another read's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from protocol.gtid import GtidSet
    from proxy.shared.deadlines import Deadline, Deadlines
    from proxy.tasks import CallLater
    from routing.servers.topology import Server
    from routing.servers.waits import Follower, Wait, Waits


class ReadTimers:
    """What one session's read waits for, and the one timer that ends the waiting."""

    def __init__(
        self,
        waits: Waits,
        deadlines: Deadlines,
        call_later: CallLater,
        silent: Callable[[], None],
    ) -> None:
        """Nothing is waited for yet.

        Args:
            waits: those of all sessions.
            deadlines: likewise.
            call_later: sets a timer.
            silent: is called when a server does not even say that a WAIT ran out.
        """
        self._silent: Callable[[], None] | None = silent
        self._waits = waits
        self._deadlines = deadlines
        self._call_later = call_later
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: Deadline | None = None  # of a WAIT
        self._wait: Wait | None = None  # in flight in front of the read
        self._joined: Wait | None = None  # another read's

    @property
    def waits(self) -> bool:
        """Whether a WAIT is in flight in front of it."""
        return self._wait is not None

    @property
    def joined(self) -> bool:
        """Whether it relies on another read's WAIT."""
        return self._joined is not None

    def after(self, seconds: float, then: Callable[[], object]) -> None:
        """Have `then` called after this time, unless `cancel_timer` is called before."""
        self._timer = self._call_later(seconds, then)

    def limit_primary_wait(self, seconds: float) -> None:
        """A WAIT goes to the primary; if it has not answered so much later, it counts as silent."""
        self.after(seconds, self._is_silent)

    def cancel_timer(self) -> None:
        """What the timer is for has come, or nobody waits for it any more."""
        if self._deadline is not None:
            self._deadline.pause()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin_wait(self, server: Server, gtids: GtidSet, now: float, limit: float) -> None:
        """A WAIT goes out in front of the read; `limit` seconds later its replica is silent."""
        self._wait = self._waits.begin(server, gtids, now)
        deadline = self._deadline
        if deadline is None or not deadline.put_off(limit, now):
            if deadline is not None:
                deadline.cancel()
            self._deadline = self._deadlines.after(limit, self._is_silent)

    def _is_silent(self) -> None:
        if self._silent is not None:
            self._silent()

    def part(self) -> None:
        """Let go of the session."""
        self._silent = None
        if self._deadline is not None:
            self._deadline.cancel()

    def end_wait(self) -> None:
        """It is over: those who joined it need not wait any more."""
        self.cancel_timer()
        wait = self._wait
        if wait is not None:
            self._wait = None
            self._waits.end(wait)

    def join(self, wait: Wait, follower: Follower) -> None:
        """Rely on another read's WAIT; `follower` is told of its end."""
        self._joined = wait
        wait.joined.append(follower)

    def leave(self, follower: Follower) -> None:
        """Rely on it no more."""
        self.cancel_timer()
        joined = self._joined
        self._joined = None
        if joined is not None and follower in joined.joined:
            joined.joined.remove(follower)

"""Time limits that are hardly ever reached: there are many, and of few lengths.

Limits of the same length are due in the order in which they were set. So each length has a queue,
and the event loop has one timer for its head, in place of a timer for each limit that is set and
cancelled. Once there are many lengths, limits of further lengths have a timer each. A limit that is
needed again and again is kept: it is put off, and keeps its place in the queue. Only if it is
awaited just when its place comes to the head it gets a timer of its own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from proxy.tasks import CallLater

_MOST_LENGTHS: Final = 64
_EARLY_S: Final = 0.001
"""How much too early a timer may come: the loop's own time is in whole milliseconds."""


class Deadline:
    """One time limit.

    Attributes:
        due: when it is reached, monotonic s.
        over: it was reached, or nobody waits for it now.
        gone: nobody will wait for it any more.
        place: by what it is ordered in the queue: when it was first due.
        length: of the queue that it stands in, s; 0 if in none.
        timer: its own, if it has one.
    """

    def __init__(self, due: float, reached: Callable[[], object]) -> None:
        self.due = due
        self.over = self.gone = False
        self.place: Final = due
        self.length = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self._reached: Callable[[], object] | None = reached

    def put_off(self, seconds: float, now: float) -> bool:
        """Be reached this long from now; False if it is not in the queue of this length."""
        if self.length != seconds:
            return False
        self.due = now + seconds
        self.over = False
        return True

    def pause(self) -> None:
        """Nobody waits for it until it is put off."""
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def cancel(self) -> None:
        """Nobody waits for it any more."""
        self.pause()
        self.gone = True
        self._reached = None

    def reach(self) -> None:
        """It is reached."""
        reached = self._reached
        self.cancel()
        if reached is not None:
            reached()


class Deadlines:
    """Those of one worker."""

    def __init__(self, now: Callable[[], float], call_later: CallLater) -> None:
        """`now` is the monotonic clock, s; `call_later` sets a timer."""
        self._now = now
        self._call_later = call_later
        self._queues: dict[float, deque[Deadline]] = {}  # each with a timer

    def after(self, seconds: float, reached: Callable[[], object]) -> Deadline:
        """Have `reached` called then, unless that is cancelled."""
        deadline = Deadline(self._now() + seconds, reached)
        queue = self._queues.get(seconds)
        if queue is None:
            if len(self._queues) >= _MOST_LENGTHS:
                deadline.timer = self._call_later(seconds, deadline.reach)
                return deadline
            queue = self._queues[seconds] = deque()
            self._call_later(seconds, self._look, seconds)
        while queue and queue[0].gone:
            queue.popleft()
        deadline.length = seconds
        queue.append(deadline)
        return deadline

    def _look(self, seconds: float) -> None:
        """Reach what is due; look again when the next one is."""
        queue = self._queues[seconds]
        now = self._now()
        until = now + _EARLY_S
        try:
            while queue and (queue[0].gone or queue[0].place <= until):
                deadline = queue.popleft()
                deadline.length = 0.0
                if deadline.over:
                    pass
                elif deadline.due <= until:
                    deadline.reach()
                else:
                    deadline.timer = self._call_later(deadline.due - now, deadline.reach)
        finally:
            if queue:
                left = queue[0].place - self._now()
                self._call_later(max(0.0, left), self._look, seconds)
            else:
                del self._queues[seconds]

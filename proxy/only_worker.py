"""The only worker of a proxy, which runs in this process, as other threads see it."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from proxy.event_loop_probe import HANGS_S, EventLoopProbe
from proxy.handover.step import Step, StepDone, StepError, StepKind
from proxy.handover.worker_group import STEP_S
from proxy.reload.reloader import CannotReloadError
from proxy.supervisor import CHANGE_TIMEOUT_S, DRAINING, NOT_SERVING

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.handover.worker_part import WorkerPart
    from proxy.reload.answer import Answer
    from proxy.reload.source import Change
    from proxy.worker import WorkerLoop


HANGS: Final = "the event loop does not answer"
_WITHIN_S: Final = 2.0
"""How long `/readyz` waits for the event loop."""
_AT_ONCE_S: Final = 0.2
"""How long `/livez` does: who asks it may take a slow answer for none."""


class OnlyWorker:
    """Changes its configuration, and has it do its part of hand-overs (`WorkerGroup`).

    Attributes:
        listening: clients can connect.
        stops: it has begun to stop.
        left: a successor accepts the clients, at all addresses.
        failed: it could not take over.
    """

    def __init__(self) -> None:
        self.listening = threading.Event()
        self.stops = threading.Event()
        self.left = False
        self.failed = False
        self._loop: WorkerLoop | None = None
        self._part: WorkerPart | None = None
        self._probe: EventLoopProbe | None = None

    def started(self, loop: WorkerLoop, reload: Callable[[], Answer] | None) -> None:
        """It runs in this event loop."""
        self._loop = loop
        self._probe = EventLoopProbe(loop.call)
        if reload is not None:
            loop.live.reload = partial(asyncio.to_thread, reload)

    def take_part(self, part: WorkerPart) -> None:
        """It does its steps of hand-overs by this."""
        self._part = part

    def change(self, change: Change) -> list[str]:
        """Put another configuration in place, once clients can connect; what went wrong.

        Raises:
            CannotReloadError: it stops, or does not come up.
        """
        if not self.listening.wait(CHANGE_TIMEOUT_S) or self._loop is None:
            raise CannotReloadError(NOT_SERVING)
        if self.stops.is_set():
            raise CannotReloadError(DRAINING)
        changed: SimpleQueue[str] = SimpleQueue()
        self._loop.change(change, changed.put)
        try:
            error = changed.get(timeout=CHANGE_TIMEOUT_S)
        except Empty:
            error = f"{HANGS}; the configuration counts when it does"
        return [error] if error else []

    def stopping(self) -> bool:
        """Whether it stops."""
        return self.stops.is_set()

    def trouble(self) -> str:
        """Why it serves nobody; "" if it does, as far as its event loop is concerned."""
        if not self.listening.is_set():
            return NOT_SERVING
        return HANGS if self._silence(_WITHIN_S) else ""

    def stuck(self) -> str:
        """Why it has to be started again: its event loop has not answered for long; else ""."""
        serves = self.listening.is_set() and not self.stops.is_set()
        return HANGS if serves and self._silence(_AT_ONCE_S) >= HANGS_S else ""

    def _silence(self, within: float) -> float:
        return 0.0 if self._probe is None else self._probe.silence(within)

    def act(self, step: Step) -> None:
        """Have it do a step."""
        loop, part = self._loop, self._part
        if loop is None or part is None:
            raise StepError("the worker has not started yet")
        done: SimpleQueue[StepDone] = SimpleQueue()
        loop.call(lambda: done.put(part.act(step)))
        try:
            error = done.get(timeout=STEP_S).error
        except Empty:
            raise StepError(f"the worker does not answer within {STEP_S:g} s") from None
        if error:
            raise StepError(error)

    def leave(self) -> None:
        """Let the sessions go, when the event loop comes to that (`WorkerGroup`)."""
        loop, part = self._loop, self._part
        self.left = True
        self.stops.set()
        if loop is not None and part is not None:
            loop.call(lambda: part.act(Step(StepKind.LEAVE)))

    def fail(self) -> None:
        """Let it end."""
        self.failed = True
        if self._loop is not None:
            self._loop.stop()

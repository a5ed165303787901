"""Whether an event loop runs, as another thread finds out; and what probes are told then."""

from collections.abc import Callable

import pytest

from proxy.event_loop_probe import HANGS_S, EventLoopProbe
from proxy.only_worker import HANGS, OnlyWorker
from proxy.supervisor import NOT_SERVING


class Loop:
    """An event loop that runs what it is given only when it is let."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []
        self.hangs = False
        self.now = 0.0

    def call(self, function: Callable[[], object]) -> None:
        self.waiting.append(function)
        if not self.hangs:
            self.run()

    def run(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def probe(self) -> EventLoopProbe:
        return EventLoopProbe(self.call, lambda: self.now)


def test_a_loop_that_runs_owes_nothing() -> None:
    loop = Loop()
    probe = loop.probe()
    for loop.now in (0.0, 100.0, 200.0):
        assert probe.silence(0) == 0


def test_one_that_hangs_is_asked_once_and_its_silence_grows() -> None:
    loop = Loop()
    probe = loop.probe()
    loop.hangs = True
    assert probe.silence(0) == 0  # nothing was to be waited for
    loop.now = 7.0
    assert probe.silence(0) == 7
    assert len(loop.waiting) == 1
    loop.run()
    assert probe.silence(0) == 0  # asked anew
    loop.now = 8.0
    assert probe.silence(0) == 1
    assert len(loop.waiting) == 1


def test_what_probes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = 0.0
    monkeypatch.setattr(EventLoopProbe, "silence", lambda *_: silent)
    worker = OnlyWorker()
    worker._probe = Loop().probe()
    assert (worker.trouble(), worker.stuck()) == (NOT_SERVING, "")
    worker.listening.set()
    assert (worker.trouble(), worker.stuck()) == ("", "")
    silent = HANGS_S - 1
    assert (worker.trouble(), worker.stuck()) == (HANGS, "")
    silent = HANGS_S
    assert (worker.trouble(), worker.stuck()) == (HANGS, HANGS)
    worker.stops.set()  # it is ending, which its event loop may be for already
    assert worker.stuck() == ""

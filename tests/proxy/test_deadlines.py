"""Time limits that share timers, against a clock that stands still until it is turned."""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.shared.deadlines import Deadlines


@dataclass
class Timer:
    """One that can be cancelled."""

    cancel: Callable[[], None]


class Clock:
    """A loop's clock and its timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.set = 0
        self._timers: list[tuple[float, int, Callable[..., object], tuple[object, ...]]] = []
        self._number = count()
        self._cancelled = set[int]()

    def time(self) -> float:
        return self.now

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object
    ) -> asyncio.TimerHandle:
        self.set += 1
        number = next(self._number)
        heapq.heappush(self._timers, (self.now + delay, number, callback, args))
        return Timer(lambda: self._cancelled.add(number))  # type: ignore[return-value]  # as one

    @property
    def waiting(self) -> int:
        """Timers that are set, and were not cancelled."""
        return sum(number not in self._cancelled for _, number, *_ in self._timers)

    def current(self, until: float) -> None:
        while self._timers and self._timers[0][0] <= until:
            at, number, callback, arguments = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            if number not in self._cancelled:
                callback(*arguments)
        self.now = until


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_limits_of_one_length_share_a_timer_while_they_are_cancelled(clock: Clock) -> None:
    deadlines, reached = Deadlines(clock.time, clock.call_later), list[int]()
    for number in range(1000):
        clock.current(number * 0.001)
        deadlines.after(5.0, lambda number=number: reached.append(number)).cancel()
    last = deadlines.after(5.0, lambda: reached.append(-1))
    assert clock.set == 1
    clock.current(5.99)
    assert (reached, last.over) == ([], False)
    clock.current(6.01)
    assert (reached, last.over) == ([-1], True)
    clock.current(100)
    assert clock.set == 2


def test_many_lengths_leave_no_timers_behind(clock: Clock) -> None:
    deadlines = Deadlines(clock.time, clock.call_later)
    for number in range(1000):
        deadlines.after(1.0 + number / 1000, lambda: pytest.fail("it was cancelled")).cancel()
    assert clock.waiting < 100
    clock.current(10.0)
    assert clock.waiting == 0


def test_what_goes_wrong_at_one_limit_does_not_keep_others_from_theirs(clock: Clock) -> None:
    deadlines, reached = Deadlines(clock.time, clock.call_later), list[int]()
    deadlines.after(1.0, lambda: 1 // 0)
    deadlines.after(1.0, lambda: reached.append(2))
    with pytest.raises(ZeroDivisionError):
        clock.current(1.0)
    clock.current(1.1)
    assert reached == [2]


_LIMITS = st.lists(
    st.tuples(
        st.floats(0, 3),  # after the one before
        st.one_of(st.sampled_from([0.25, 1.0, 5.0]), st.floats(0.01, 9)),  # how long
        st.one_of(st.none(), st.floats(0, 9)),  # cancelled so long afterwards
    ),
    max_size=100,
)


@given(_LIMITS)
def test_each_is_reached_when_it_is_due_unless_it_is_cancelled(
    limits: list[tuple[float, float, float | None]],
) -> None:
    clock = Clock()
    deadlines, reached = Deadlines(clock.time, clock.call_later), dict[int, float]()
    expected = dict[int, float]()
    now = 0.0
    events: list[tuple[float, int, int]] = []
    for number, (later, length, cancelled) in enumerate(limits):
        now += later
        events.append((now, 0, number))
        if cancelled is None or cancelled > length + 0.01:
            expected[number] = now + length
        elif cancelled < length - 0.01:
            events.append((now + cancelled, 1, number))
        else:
            expected[number] = now + length
    made = {}
    for at, action, number in sorted(events):
        clock.current(at)
        if action == 0:
            made[number] = deadlines.after(
                limits[number][1],
                lambda number=number: reached.setdefault(number, clock.now),
            )
        else:
            made[number].cancel()
    clock.current(now + 20)
    assert reached == pytest.approx(expected, abs=0.0011)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 3),  # after the one before has ended
            st.sampled_from([1.0, 5.0]),
            st.floats(0, 6),  # until it is paused
        ),
        max_size=30,
    ),
    st.lists(st.floats(0, 30), max_size=5),
)
def test_one_that_is_put_off_again_and_again_is_reached_when_it_is_due(
    limits: list[tuple[float, float, float]], others: list[float]
) -> None:
    clock = Clock()
    deadlines, reached, expected = Deadlines(clock.time, clock.call_later), [], list[float]()
    events = [(at, -1.0) for at in others]
    now = 0.0
    for later, length, pause in limits:
        now += later
        events.append((now, length))
        if pause < length - 0.01:
            now += pause
            events.append((now, 0.0))
        else:
            expected.append(now + length)
            now += length + 0.01
    deadline = deadlines.after(1.0, lambda: reached.append(clock.now))
    deadline.pause()
    for at, length in sorted(events, key=lambda event: event[0]):
        clock.current(at)
        if length < 0:
            deadlines.after(5.0, lambda: None)  # of somebody else
        elif length == 0:
            deadline.pause()
        elif not deadline.put_off(length, at):
            deadline.cancel()
            deadline = deadlines.after(length, lambda: reached.append(clock.now))
    clock.current(now + 60)
    assert reached == pytest.approx(expected, abs=0.0011)
    assert clock.waiting == 0


def test_one_that_is_put_off_needs_no_timer_of_its_own(clock: Clock) -> None:
    deadlines = Deadlines(clock.time, clock.call_later)
    deadline = deadlines.after(5.0, lambda: pytest.fail("it was paused"))
    for number in range(4000):
        clock.current(number * 0.001)
        assert deadline.put_off(5.0, clock.now)
        deadline.pause()
    assert clock.set == 1
    clock.current(5.01)
    assert not deadline.put_off(5.0, clock.now)

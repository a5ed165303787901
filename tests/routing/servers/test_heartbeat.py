from routing.servers.heartbeat import Heartbeats
from routing.servers.lag import Span


def test_the_oldest_beat_that_is_missing_counts() -> None:
    beats = Heartbeats()
    assert beats.waits(None, 5_000) is None  # nobody beats
    for beat in (1_000, 2_000, 2_000, 3_000):
        beats.on_beat(7, beat)
    assert beats.waits(1_000, 5_000) == Span(3_000, None)
    assert beats.waits(2_500, 5_000) == Span(2_000, None)
    assert beats.waits(3_000, 5_000) == Span(0, None)
    assert beats.waits(9_000, 5_000) == Span(0, None)  # the replica was asked later
    assert beats.waits(None, 5_000) == Span(4_000, None)


def test_a_clock_that_is_behind_is_no_negative_lag() -> None:
    beats = Heartbeats()
    beats.on_beat(7, 9_000)
    assert beats.waits(8_000, 5_000) == Span(0, None)


def test_another_primary_begins_anew() -> None:
    beats = Heartbeats()
    beats.on_beat(7, 9_000)
    beats.on_beat(8, None)
    assert beats.waits(1_000, 9_500) is None


def test_nothing_is_certain_of_it() -> None:
    beats = Heartbeats()
    beats.on_beat(7, 1_000)
    waits = beats.waits(None, 5_000_000)
    assert waits is not None
    assert waits.least_us == 0

"""Connections that come and go are counted where their scope promises less than they may need."""

import logging
from collections.abc import Callable

import pytest

from proxy.observe.metrics import Metrics
from proxy.short_lived import OFTEN, SOON_S, ShortLived
from routing.consistency.decision import Level, Scope
from routing.consistency.rules import Rules
from routing.servers.topology import Role, Server
from routing.session.session import Session
from tests.routing.consistency.test_scope import rules_at
from tests.support.gtid_sets import gtids

FAMILY = "tidegate_reads_behind_another_connection_total"
WRITE = gtids("11111111-1111-1111-1111-111111111111:1")
PRIMARY = Server("primary", Role.PRIMARY)
REPLICA = Server("replica", Role.REPLICA)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def short_lived(metrics: Metrics, clock: Clock) -> ShortLived:
    return ShortLived(metrics, clock)


def counted(metrics: Metrics) -> float:
    return sum(value for _, value in metrics.snapshot()["values"][FAMILY])


def session(user: str = "web", rules: Rules | None = None) -> Session:
    return Session(rules or rules_at(), 0, None, user)


def writer(user: str = "web") -> Session:
    state = session(user)
    state.record_write(WRITE, PRIMARY)
    return state


def reader(rules: Rules | None = None, server: Server = REPLICA, user: str = "web") -> Session:
    state = session(user, rules)
    state.record_answer(server, 1)
    return state


def comes_and_goes(short_lived: ShortLived, state: Session) -> None:
    short_lived.on_end(state, short_lived.follows(state))


def test_a_read_behind_another_connections_write_is_counted(
    short_lived: ShortLived, metrics: Metrics
) -> None:
    comes_and_goes(short_lived, reader())
    comes_and_goes(short_lived, writer())
    assert counted(metrics) == 0
    comes_and_goes(short_lived, reader())
    assert counted(metrics) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda: reader(rules_at(scope=Scope.USER)),
        lambda: reader(rules_at(Level.BEST_EFFORT)),
        lambda: reader(rules_at(Level.STRONG)),
        lambda: reader(server=PRIMARY),
        lambda: reader(user="another"),
        session,
    ],
    ids=["of a wider scope", "best effort", "strong", "at the primary", "other user", "no read"],
)
def test_who_misses_nothing_is_not(
    short_lived: ShortLived, metrics: Metrics, other: Callable[[], Session]
) -> None:
    comes_and_goes(short_lived, writer())
    comes_and_goes(short_lived, other())
    assert counted(metrics) == 0


def test_who_comes_much_later_is_not(
    short_lived: ShortLived, metrics: Metrics, clock: Clock
) -> None:
    comes_and_goes(short_lived, writer())
    clock.time += SOON_S
    comes_and_goes(short_lived, reader())
    assert counted(metrics) == 0


def test_what_is_not_known_to_have_written_may_have(
    short_lived: ShortLived, metrics: Metrics
) -> None:
    state = session()
    state.may_have_written()
    comes_and_goes(short_lived, state)
    comes_and_goes(short_lived, reader())
    assert counted(metrics) == 1


def test_the_log_tells_of_a_habit_once_an_hour(
    short_lived: ShortLived, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def pages(count: int) -> None:
        for _ in range(count):
            comes_and_goes(short_lived, writer())
            comes_and_goes(short_lived, reader())
            clock.time += 1.0

    pages(OFTEN - 1)
    assert not caplog.records
    pages(2 * OFTEN)
    (record,) = caplog.records
    assert "'web'" in record.message
    assert 'scope = "user"' in record.message
    clock.time += 3600.0
    pages(OFTEN)
    assert len(caplog.records) == 2


def test_what_is_rare_is_no_habit(
    short_lived: ShortLived, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2 * OFTEN):
        comes_and_goes(short_lived, writer())
        comes_and_goes(short_lived, reader())
        clock.time += 100.0
    assert not caplog.records

"""Which delays make a replica a late one."""

from math import inf

import pytest

from protocol.gtid import EMPTY, GtidSet
from routing.servers.lateness import LATE_S, Lateness
from routing.servers.topology import Role, Server


@pytest.fixture
def lateness() -> Lateness:
    return Lateness()


def test_a_single_long_wait_makes_it_not_late(lateness: Lateness) -> None:
    lateness.on_late(100.0)
    assert lateness.at == -inf


def test_one_that_goes_on_being_late_is(lateness: Lateness) -> None:
    for now in (100.0, 100.4, 100.8):
        lateness.on_late(now)
        assert lateness.at == -inf
    lateness.on_late(101.0)
    assert lateness.at == 101.0
    lateness.on_late(104.5)
    assert lateness.at == 104.5


def test_a_prompt_answer_in_between_begins_anew(lateness: Lateness) -> None:
    lateness.on_late(100.0)
    lateness.on_prompt()
    lateness.on_late(100.6)
    lateness.on_late(101.5)
    assert lateness.at == -inf
    lateness.on_late(101.6)
    assert lateness.at == 101.6


def test_two_that_are_far_apart_are_no_while(lateness: Lateness) -> None:
    lateness.on_late(100.0)
    lateness.on_late(110.5)
    assert lateness.at == -inf


def test_a_wait_that_is_a_while_itself_is_enough(lateness: Lateness) -> None:
    lateness.on_late(100.0, 0.9)
    assert lateness.at == -inf
    lateness.on_late(120.0, 8.0)
    assert lateness.at == 120.0


@pytest.fixture
def server() -> Server:
    server = Server("replica:1", Role.REPLICA)
    server.observe("replica", (0, 0), EMPTY, EMPTY)
    return server


def test_waits_that_end_well_tell_it(server: Server) -> None:
    for step in range(6):
        server.applied_after(1.0, 0.2, 100.2 + step / 5)
    assert server.lateness.at == pytest.approx(101.2)


def test_waits_that_run_out_tell_it_between_all_that_is_left_alone(server: Server) -> None:
    now = 100.0
    server.timed_out(now, 1.0)
    while server.behind_until < 110.0:
        now = server.behind_until + 0.25  # one waits again, in vain
        server.timed_out(now, 1.0)
        assert server.lateness.at == (now if now >= 101.0 else -inf)


@pytest.mark.parametrize("waited", [0.0001, LATE_S / 2])
def test_a_short_wait_for_an_old_write_tells_nothing(server: Server, waited: float) -> None:
    server.timed_out(100.0, 1.0)
    server.applied_after(30.0, waited, 100.6)
    assert server.lateness.at == -inf
    server.timed_out(101.0, 1.0)
    assert server.lateness.at == 101.0  # that was none of its end


@pytest.mark.parametrize("waited", [0.0001, LATE_S / 4])
def test_a_new_write_that_is_soon_there_ends_it(server: Server, waited: float) -> None:
    server.timed_out(100.0, 1.0)
    server.applied_after(LATE_S / 2, waited, 100.6)
    server.timed_out(101.5, 1.0)
    assert server.lateness.at == -inf


def test_a_measured_lag_alone_tells_nothing(server: Server) -> None:
    for now in (100.0, 101.0, 102.0):
        server.apply_delay.missing(1.0 + now, now)
        server.apply_delay.measured([1.0 + now], now)
    assert server.lateness.at == -inf


def test_a_long_wait_in_vain_is_a_while(server: Server) -> None:
    server.timed_out(100.0, 2.0, 1.0)
    assert server.lateness.at == 100.0


def test_progress_alone_does_not_end_it(server: Server) -> None:
    server.timed_out(100.0, 1.0)
    assert server.add_proof(GtidSet.of("3e11fa47-71ca-11e1-9e33-c80aa9429562", 1, 2), server.epoch)
    server.timed_out(101.2, 1.0)
    assert server.lateness.at == 101.2

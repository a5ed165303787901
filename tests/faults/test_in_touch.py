"""Sessions whose clients work on replicas, and what the primary hears of them meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from mysql_mocker.state.faults import Gate
from protocol.constants import Command
from proxy.shared.keepalive import Keepalive
from routing.session.session import Session
from tests.faults.client import Client, query
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture
from tests.support.statement_records import RULES

PING = bytes((Command.COM_PING,))
READ = "SELECT 1 UNION SELECT 2"
TABLE = "CREATE TABLE t (id INT PRIMARY KEY)"


def look(proxy: ProxyFixture, times: int = 1) -> None:
    for _ in range(times):
        Keepalive(proxy.shared.sessions).look()  # it is everybody's turn


async def test_the_primary_hears_of_a_session_that_reads_on_a_replica() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        pings = proxy.cluster.primary.faults.hold_reply(matching=PING, times=None)
        pings.open()
        await client.query(TABLE)
        look(proxy)
        for number in (1, 2):
            assert (await client.query(READ)).rows == [[b"1"], [b"2"]]
            look(proxy)
            assert (await client.query("SELECT FOUND_ROWS(), ROW_COUNT()")).rows == [[b"2", b"-1"]]
            assert pings.held == number
            await proxy.caught_up()
            look(proxy)
        assert (await client.query("INSERT INTO t VALUES (1)")).ok


async def test_and_of_one_that_waits_for_a_replica() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        pings = proxy.cluster.primary.faults.hold_reply(matching=PING, times=None)
        pings.open()
        await client.query(READ)
        look(proxy)
        await eventually(lambda: pings.held == 1)
        gate = proxy.cluster.replicas[0].faults.hold_reply(matching=b"UNION")
        client.send(query(READ))
        await eventually(lambda: gate.held == 1)
        for number in (2, 3):
            look(proxy, 2)
            await eventually(lambda number=number: pings.held == number)
        gate.open()
        assert (await client.answer()).rows == [[b"1"], [b"2"]]


async def test_a_write_behind_it_waits_its_turn() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query(TABLE)
        look(proxy)
        await client.query(READ)
        pings = proxy.cluster.primary.faults.hold_reply(matching=PING)
        look(proxy)
        await eventually(lambda: pings.held == 1)
        client.send(query("INSERT INTO t VALUES (1)"))
        pings.open()
        answer = await client.answer()
        assert answer.ok
        assert answer.ok.affected_rows == 1


async def test_and_of_one_that_the_proxy_answers() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        pings = proxy.cluster.primary.faults.hold_reply(matching=PING, times=None)
        pings.open()
        await client.query(TABLE)
        look(proxy)
        await client.query("SHOW TIDEGATE LAST")
        look(proxy, 3)
        assert (await client.query("DO 1")).ok
        assert pings.held == 1


@pytest.mark.parametrize("sql", ["SELECT CONNECTION_ID()", None])
async def test_it_hears_of_no_other(sql: str | None) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        pings = proxy.cluster.primary.faults.hold_reply(matching=PING, times=None)
        await client.query(TABLE)
        look(proxy)
        if sql is not None:
            await client.query(sql)
        look(proxy, 3)
        assert (await client.query("DO 1")).ok
        assert pings.held == 0


async def hear(proxy: ProxyFixture, pings: Gate, number: int) -> None:
    """Look, after which the primary has had so many pings, and has answered them."""
    look(proxy)
    await eventually(lambda: pings.held == number)
    (session,) = proxy.shared.sessions
    primary = session._servers.primary
    assert primary is not None
    await eventually(lambda: not primary.busy)
    await proxy.caught_up()


@asynccontextmanager
async def reading() -> AsyncIterator[tuple[ProxyFixture, Client, Gate]]:
    """A client with a short wait_timeout that has just read, and the primary's pings."""
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        pings = proxy.cluster.primary.faults.hold_reply(matching=PING, times=None)
        pings.open()
        await client.query("SET wait_timeout = 3")
        look(proxy)
        await client.query(READ)
        yield proxy, client, pings


async def test_it_hears_once_more_before_the_wait_timeout_is_over() -> None:
    """A command that comes at the end of it is only seen when the next look would be too late."""
    async with reading() as (proxy, client, pings):
        for number in (1, 2, 2):
            await hear(proxy, pings, number)
        assert (await client.query(READ)).rows == [[b"1"], [b"2"]]
        for number in (3, 4, 4):
            await hear(proxy, pings, number)
        assert (await client.query(READ)).rows == [[b"1"], [b"2"]]


async def test_who_is_idle_for_the_wait_timeout_is_ended_all_the_same() -> None:
    async with reading() as (proxy, client, pings):
        for number in (1, 2, 2, 2):
            await hear(proxy, pings, number)
        assert (await client.read_error()).code == 4031
        assert proxy.count("tidegate_clients_ended_total", "wait_timeout") == 1


async def test_who_waits_for_the_primary_is_not_idle() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query(TABLE)
        await client.query("SET wait_timeout = 3")
        gate = proxy.cluster.primary.faults.hold_reply(matching=b"INSERT")
        client.send(query("INSERT INTO t VALUES (1)"))
        await eventually(lambda: gate.held == 1)
        look(proxy, 9)
        gate.open()
        assert (await client.answer()).ok
        look(proxy, 3)
        assert (await client.query("DO 1")).ok


class Looked:
    """A session that notes the ticks at which it has its turn."""

    def __init__(self, wait_timeout: int) -> None:
        self.state = Session(RULES, 0)
        self.state.on_connect("", wait_timeout=wait_timeout)
        self.turns: list[int] = [0]
        self.tick = 0

    def keep_alive(self) -> None:
        self.turns.append(self.tick)


def test_each_session_has_its_turn_three_times_in_its_wait_timeout() -> None:
    sessions = [Looked(seconds) for seconds in (1, 2, 7, 29, 30, 31, 28800, 31536000)]
    later = Looked(28800)
    keepalive = Keepalive([*sessions, later])  # type: ignore[arg-type] # what is looked at only
    for tick in range(1, 301):
        if tick == 100:
            later.state.set_variable("wait_timeout", "3")
        for session in (*sessions, later):
            session.tick = tick
        keepalive.look(tick)
    for session in sessions:
        gaps = {after - before for before, after in pairwise(session.turns)}
        assert gaps == {min(30, session.state.wait_timeout)}
    assert [turn for turn in later.turns if turn < 110] == [0, 30, 60, 90, 102, 105, 108]


def test_a_reset_gives_the_session_what_the_primary_says() -> None:
    state = Session(RULES, 0)
    state.on_connect("", wait_timeout=50)
    state.set_variable("wait_timeout", "3")
    assert state.wait_timeout == 3
    state.set_variable("wait_timeout", "0")  # which a server makes 1
    assert state.wait_timeout == 1
    state.reset()
    state.on_connect("", wait_timeout=60)
    assert state.wait_timeout == 60

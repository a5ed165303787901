"""Sessions whose clients work on replicas, and what the primary hears of them meanwhile."""

import pytest

from protocol.constants import Command
from proxy.shared.keepalive import Keepalive
from tests.faults.client import query
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture

PING = bytes((Command.COM_PING,))
READ = "SELECT 1 UNION SELECT 2"
TABLE = "CREATE TABLE t (id INT PRIMARY KEY)"


def look(proxy: ProxyFixture, times: int = 1) -> None:
    for _ in range(times):
        Keepalive(proxy.shared.sessions).look()


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

"""Reads that a replica refuses, and the pings that need no server."""

import pytest

from protocol.constants import Command
from tests.faults.peers import err
from tests.faults.proxy_fixture import proxy_fixture, statements_of
from tests.faults.table_fixture import COUNT


@pytest.mark.parametrize("code", [1290, 1792, 1836])
async def test_a_read_that_writes_after_all_is_not_tried_on_a_replica_again(code: int) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await proxy.caught_up()
        replica = proxy.cluster.replicas[0]
        replica.faults.raw_reply(err(code), matching=b"COUNT", times=None)
        assert (await client.query(COUNT)).value == b"0"
        assert proxy.count("tidegate_fallbacks_total", "replica_refused") == 1
        replica.faults.clear()
        assert (await client.query(COUNT)).value == b"0"
        assert (await client.query("SELECT  count(*)  FROM t")).value == b"0"  # the same digest
        assert COUNT not in statements_of(replica)
        assert proxy.count("tidegate_fallbacks_total", "replica_refused") == 1
        assert (await client.query("SELECT COUNT(*) + 1 FROM t")).value == b"1"
        assert proxy.statements("replica", "read") == 1


async def test_it_is_tried_again_some_time_later() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        replica = proxy.cluster.replicas[0]
        replica.faults.raw_reply(err(1792), matching=b"SELECT 1")
        assert (await client.query("SELECT 1")).value == b"1"
        refusals = proxy.shared.topology.refusals
        for digest in list(refusals.until):
            refusals.until[digest] = proxy.shared.now()
        assert (await client.query("SELECT 1")).value == b"1"
        assert statements_of(replica)[-1] == "SELECT 1"
        assert proxy.statements("replica", "read") == 1


async def test_a_replica_s_own_limit_of_time_is_not_the_client_s() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        replica = proxy.cluster.replicas[0]
        for text in (b"SELECT 1", b"MAX_EXECUTION_TIME(1)"):
            replica.faults.raw_reply(err(3024), matching=text, times=None)
        assert (await client.query("SELECT 1")).value == b"1"
        hinted = await client.query("SELECT /*+ MAX_EXECUTION_TIME(1) */ 2")
        assert hinted.error.code == 3024
        assert (await client.query("SET max_execution_time = 1")).ok
        assert (await client.query("SELECT 1")).error.code == 3024


async def test_a_ping_behind_an_answer_of_the_primary_needs_no_server() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query("SET @a = 1")).ok
        proxy.cluster.primary.faults.drop_connection_after(0, matching=bytes((Command.COM_PING,)))
        assert (await client.ping()).ok
        assert proxy.count("tidegate_statements_total", "proxy") == 1
        assert (await client.ping()).error.code == 2013  # it may not rely on that one

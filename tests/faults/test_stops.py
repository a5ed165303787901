"""How the proxy stops while clients are connected."""

import asyncio

import pytest

from protocol.packet import frame
from proxy.drain import drain
from tests.faults.client import query
from tests.faults.proxy_fixture import eventually, proxy_fixture

SHUTDOWN = 1053


@pytest.mark.parametrize("tls", [False, True])
async def test_an_idle_client_that_does_not_close_its_side_holds_up_no_stop(
    tls: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxy_fixture(drain_timeout=30.0) as proxy:
        client = await proxy.session(tls=tls)
        client.writer.transport.pause_reading()
        await drain(proxy.shared)
        assert not [record for record in caplog.records if "cut off" in record.message]
        assert not proxy.shared.sessions
        client.abort()


async def test_an_open_transaction_has_time_to_end() -> None:
    async with proxy_fixture(drain_timeout=30.0) as proxy:
        idle, working = await proxy.session(), await proxy.session()
        assert (await working.query("CREATE TABLE t (id INT)")).ok
        assert (await working.query("BEGIN")).ok
        stopping = asyncio.create_task(drain(proxy.shared))
        assert (await idle.last_error()).code == SHUTDOWN
        assert (await working.query("INSERT INTO t VALUES (7)")).ok
        assert not stopping.done()
        assert (await working.query("COMMIT")).ok
        assert (await working.last_error()).code == SHUTDOWN
        await stopping


async def test_a_transaction_whose_client_says_nothing_ends_with_the_time() -> None:
    async with proxy_fixture(drain_timeout=0.1) as proxy:
        client = await proxy.session()
        assert (await client.query("CREATE TABLE t (id INT)")).ok
        assert (await client.query("SET autocommit = 0")).ok
        assert (await client.query("INSERT INTO t VALUES (8)")).ok
        await drain(proxy.shared)
        assert (await client.last_error()).code == SHUTDOWN
        assert not proxy.shared.sessions


async def test_a_long_statement_that_is_being_sent_is_no_idle_session() -> None:
    async with proxy_fixture(drain_timeout=30.0) as proxy:
        client = await proxy.session()
        assert (await client.query("CREATE TABLE t (id INT)")).ok
        packets = frame(query("INSERT INTO t VALUES (9) -- " + "x" * (1 << 24)), 0)
        client.send_bytes(packets[:-1000])
        (session,) = proxy.shared.sessions
        await eventually(lambda: session._long.going)  # type: ignore[attr-defined] # not a Member's
        stopping = asyncio.create_task(drain(proxy.shared))
        await asyncio.sleep(0.1)
        client.send_bytes(packets[-1000:])
        assert (await client.answer(first=2)).ok
        assert (await client.last_error()).code == SHUTDOWN
        await stopping

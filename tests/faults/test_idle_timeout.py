"""Clients that send nothing for too long are ended, by a clock that the test moves."""

from dataclasses import replace

from proxy.live_config import LiveConfig
from proxy.shared.idle_timeout import IdleTimeout
from tests.faults.proxy_fixture import proxy_fixture


async def test_an_idle_client_is_ended_and_a_busy_one_is_not() -> None:
    async with proxy_fixture() as proxy:
        time = [0.0]
        config = replace(proxy.shared.config, client_idle_timeout=10.0)
        live = LiveConfig(config, proxy.shared.materials)
        idle_timeout = IdleTimeout(live, proxy.shared.sessions, lambda: time[0])
        idle, open_, busy = [await proxy.session() for _ in range(3)]
        await idle.query("SELECT 1")
        await open_.query("BEGIN")
        for _ in range(10):
            await busy.query("SELECT 1")
            idle_timeout.look()
            time[0] += 1.0
            assert len(proxy.shared.sessions) == 3
        idle_timeout.look()
        for client in (idle, open_):
            error = await client.last_error()
            assert (error.code, error.sqlstate, client.sequence_id) == (4031, "HY000", 0)
        assert (await busy.query("SELECT 1")).value == b"1"

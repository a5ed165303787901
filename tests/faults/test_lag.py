"""What the monitor makes of replicas' replication tables, before mock servers."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from proxy.monitor.lag import TABLES
from routing.servers.lag import SourceLag, Span
from routing.servers.topology import ProbeResult
from tests.faults.client import PASSWORD
from tests.faults.peers import err, rows
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture
from tests.faults.table_fixture import apply, execute

CONNECTION_TABLE = TABLES[0].encode()
MEASURED = "tidegate_replication_lag_measured"
CURRENT = "tidegate_replication_lag_seconds"


@asynccontextmanager
async def watched(apply_delay: float = 0.0, **more: Any) -> AsyncIterator[ProxyFixture]:
    """Before a primary with a table `t`, and a replica that has it."""
    options = {
        "monitor_user": "app",
        "monitor_password": PASSWORD.encode(),
        "monitor_interval": 0.02,
    }
    async with proxy_fixture(1, apply_delay, **options, **more) as proxy:
        proxy.cluster.primary.administrators.add("app")
        await execute(await proxy.direct(), "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        await eventually(lambda: len(found(proxy)) == 1 and found(proxy)[0].applied is not None)
        await eventually(lambda: found(proxy)[0].waits == Span(0))
        yield proxy


def found(proxy: ProxyFixture) -> list[SourceLag]:
    return proxy.shared.topology.replicas[0].replication.sources


async def looks(proxy: ProxyFixture, times: int = 3) -> None:
    """Wait until the monitor has looked at the replica so often."""
    (server,) = proxy.shared.topology.replicas
    before = server.packets_received
    await eventually(lambda: server.packets_received > before + times)


def us(span: Span | None) -> int:
    assert span is not None
    return span.us


def waits(proxy: ProxyFixture) -> int:
    return us(found(proxy)[0].waits)


async def test_a_transaction_that_is_applied_late_is_as_late() -> None:
    async with watched(apply_delay=0.2) as proxy:
        before = counted(proxy)
        await execute(await proxy.direct(), "INSERT INTO t VALUES (1)")
        await eventually(lambda: waits(proxy) > 0)
        await proxy.caught_up()
        newest = str(proxy.cluster.primary.binlog.transactions[-1].gtid)
        await eventually(
            lambda: (a := found(proxy)[0].applied) is not None and a.stamped.gtid == newest
        )
        applied = found(proxy)[0].applied
        assert applied is not None
        # The mocker's delay counts from its event loop's last turn.
        assert us(applied.end_to_end) == us(applied.last_hop) > 150_000
        await eventually(lambda: waits(proxy) == 0)
        await looks(proxy)  # each counts once
        after = counted(proxy)
        assert {part: after[part] - before.get(part, 0) for part in after} == {
            "end_to_end": 1,
            "last_hop": 1,
            "apply": 1,
            "transport": 1,
        }


def counted(proxy: ProxyFixture) -> dict[str, int]:
    """Transactions of the primary in the histogram, by part."""
    histogram = proxy.shared.metrics.snapshot()["histograms"]["tidegate_transaction_lag_seconds"]
    uuid = proxy.cluster.primary.gtids.server_uuid
    return {labels[2]: sum(counts) for labels, counts, _ in histogram if labels[1] == uuid}


async def test_a_stopped_applier_is_lag_that_grows_and_an_idle_primary_is_none() -> None:
    async with watched() as proxy:
        apply(proxy, False)
        await looks(proxy)
        assert waits(proxy) == 0
        await execute(await proxy.direct(), "INSERT INTO t VALUES (1)")
        await eventually(lambda: waits(proxy) > 100_000)
        assert proxy.count(CURRENT, "end_to_end") > 0.1
        apply(proxy, True)
        await eventually(lambda: waits(proxy) == 0)
        assert proxy.count(CURRENT) == 0


@pytest.mark.parametrize("ahead", [-3_600_000_000, 3_600_000_000])
async def test_a_clock_that_is_set_aside_is_corrected(ahead: int) -> None:
    async with watched() as proxy:
        replica = proxy.cluster.replicas[0]
        replica.clock.ahead = ahead
        primary, watched_replica = proxy.shared.topology.servers
        await eventually(
            lambda: (
                watched_replica.clock is not None
                and primary.clock is not None
                and abs(watched_replica.clock.ahead_of(primary.clock).least - ahead) < 10_000_000
            )
        )
        apply(proxy, False)
        await execute(await proxy.direct(), "INSERT INTO t VALUES (1)")
        # A wait that is an hour long, or negative, would be the clocks'.
        await eventually(lambda: waits(proxy) > 0)
        assert waits(proxy) < 1_800_000_000
        await eventually(lambda: proxy.count("tidegate_clock_offset_seconds") * ahead > 0)


async def test_what_is_refused_is_unmeasured_told_once_and_told_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with watched() as proxy:
        faults = proxy.cluster.replicas[0].faults
        faults.raw_reply(err(1142, "SELECT command denied"), CONNECTION_TABLE, times=None)
        (server,) = proxy.shared.topology.replicas
        await eventually(lambda: "command denied" in server.replication.cause)
        assert found(proxy) == []
        await looks(proxy)
        assert proxy.count(MEASURED, server.name) == 0
        assert not proxy.shared.metrics.snapshot()["values"][CURRENT]
        assert server.probe_result is ProbeResult.ANSWERED
        assert server.lag == 0  # which needs no right
        faults.clear()
        await eventually(lambda: not server.replication.cause)
        assert proxy.count(MEASURED, server.name) == 1
    messages = [record.getMessage() for record in caplog.records if "lag of server" in record.msg]
    assert len(messages) == 2, messages
    assert all(f"GRANT SELECT ON {table} TO app" in messages[0] for table in TABLES)
    assert messages[1].endswith("is measured")


async def test_a_table_that_makes_no_sense_is_no_end_of_its_server() -> None:
    async with watched() as proxy:
        (server,) = proxy.shared.topology.replicas
        for nonsense in (rows([b"soon"]), rows([None], [b"x"])):
            proxy.cluster.replicas[0].faults.raw_reply(nonsense, CONNECTION_TABLE, times=None)
            await eventually(lambda: bool(server.replication.cause))
            assert server.probe_result is ProbeResult.ANSWERED
            proxy.cluster.replicas[0].faults.clear()
            await eventually(lambda: not server.replication.cause)
        time_of_day = b"SELECT UTC_TIMESTAMP(6),@@GLOBAL.gtid_executed"
        proxy.cluster.replicas[0].faults.raw_reply(
            rows([b"half past", b"", b"1"], columns=3), time_of_day, times=None
        )
        await eventually(lambda: "is no time" in server.replication.cause)
        assert server.probe_result is ProbeResult.ANSWERED


async def test_a_first_commit_of_the_future_is_warned_of_once_until_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with watched() as proxy:
        direct = await proxy.direct()
        (server,) = proxy.shared.topology.replicas
        for _ in range(2):
            future = time.time_ns() // 1000 + 3_600_000_000
            await execute(direct, f"SET original_commit_timestamp = {future}")
            await execute(direct, "INSERT INTO t VALUES (1)")
            await eventually(lambda: server.replication.disordered)
            await looks(proxy)
        await execute(direct, "SET original_commit_timestamp = DEFAULT")
        await execute(direct, "INSERT INTO t VALUES (1)")
        await eventually(lambda: not server.replication.disordered)
        assert proxy.count("tidegate_clock_warnings_total", server.name) == 1
    logged = [r.getMessage() for r in caplog.records if r.name == "proxy.monitor.lag"]
    assert len(logged) == 2, logged
    assert "newer than their immediate" in logged[0]
    assert "in order again" in logged[1]


async def test_a_replica_that_is_gone_is_unmeasured() -> None:
    async with watched() as proxy:
        (server,) = proxy.shared.topology.replicas
        await proxy.cluster.replicas[0].stop()
        await eventually(lambda: server.replication.cause == "it does not answer")
        assert found(proxy) == []
        assert server.clock is None
        await proxy.cluster.replicas[0].start()
        await eventually(lambda: len(found(proxy)) == 1)


async def test_heartbeats_tell_where_nothing_else_may() -> None:
    async with watched(heartbeat_table="`test`.`heartbeat`") as proxy:
        (server,) = proxy.shared.topology.replicas
        faults = proxy.cluster.replicas[0].faults
        faults.raw_reply(err(1142, "SELECT command denied"), CONNECTION_TABLE, times=None)
        await eventually(lambda: "denied" in server.replication.cause)
        assert found(proxy) == []  # there is no such table
        direct = await proxy.direct()
        await execute(direct, "CREATE TABLE heartbeat (ts VARCHAR(26), server_id INT PRIMARY KEY)")

        beat = "REPLACE INTO heartbeat VALUES (UTC_TIMESTAMP(6), @@server_id)"
        await execute(direct, beat)
        await eventually(lambda: len(found(proxy)) == 1 and found(proxy)[0].waits == Span(0, None))
        apply(proxy, False)
        await execute(direct, beat)
        await eventually(lambda: waits(proxy) > 100_000)
        assert proxy.count(CURRENT, "end_to_end") > 0.1
        assert proxy.count(MEASURED, server.name) == 0
        assert server.replication.lacks_for(server.uuid) == 0  # the beats' clock is not known
        rows_shown = (await (await proxy.session()).query("SHOW TIDEGATE SERVERS")).rows
        assert b"by heartbeats" in rows_shown[1]
        apply(proxy, True)
        await looks(proxy)
        await eventually(lambda: found(proxy)[0].waits == Span(0, None))  # nobody beats any more
        # What is better is used as soon as it may be.
        faults.clear()
        await eventually(lambda: proxy.count(MEASURED, server.name) == 1)


async def test_tables_that_are_locked_are_no_end_of_their_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with watched(connect_timeout=1.0) as proxy:
        (server,) = proxy.shared.topology.replicas
        gate = proxy.cluster.replicas[0].faults.hold_reply(CONNECTION_TABLE, times=None)
        await eventually(lambda: gate.held >= 2)  # it was asked again
        assert server.probe_result is ProbeResult.ANSWERED
        assert server.down_until == 0
        assert "no answer in time" in server.replication.cause
        gate.open()
        proxy.cluster.replicas[0].faults.clear()
        await eventually(lambda: not server.replication.cause)
    assert not [r for r in caplog.records if "is down" in r.msg]

"""What the proxy makes of replicas' binary logs, before mock servers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.packet import frame
from proxy.monitor import binlog_lag, binlog_stream
from proxy.monitor.lag import TABLES
from tests.faults.client import PASSWORD
from tests.faults.peers import err, rows
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture
from tests.faults.table_fixture import apply, execute

DUMP = b"\x1e\0\0"
ENDS = "tidegate_binlog_stream_ends_total"
MEANS = "tidegate_replication_lag_means"
OPTIONS: dict[str, Any] = {
    "monitor_user": "app",
    "monitor_password": PASSWORD.encode(),
    "monitor_interval": 0.02,
    "binlog_lag": "on",
}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binlog_stream, "HEARTBEAT_S", 0.05)  # a reader that left is noticed by it
    monkeypatch.setattr(binlog_stream, "BACKOFF_FIRST_S", 0.02)
    monkeypatch.setattr(binlog_stream, "BACKOFF_LAST_S", 0.1)


@asynccontextmanager
async def watched(**more: Any) -> AsyncIterator[ProxyFixture]:
    async with proxy_fixture(1, **(OPTIONS | more)) as proxy:
        await execute(await proxy.direct(), "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        yield proxy


async def measured(proxy: ProxyFixture, means: str = "binlog") -> None:
    (server,) = proxy.shared.topology.replicas
    await eventually(lambda: proxy.count(MEANS, server.name, means) == 1)


def counted(proxy: ProxyFixture, part: str = "end_to_end") -> int:
    histogram = proxy.shared.metrics.snapshot()["histograms"]["tidegate_transaction_lag_seconds"]
    return sum(sum(counts) for labels, counts, _ in histogram if labels[2] == part)


async def looks(proxy: ProxyFixture, times: int = 3) -> None:
    (server,) = proxy.shared.topology.replicas
    received = server.packets_received
    await eventually(lambda: server.packets_received > received + times)


async def insert(proxy: ProxyFixture, times: int) -> None:
    direct = await proxy.direct()
    for _ in range(times):
        await execute(direct, "INSERT INTO t VALUES (1)")


async def test_every_transaction_counts_and_counts_once() -> None:
    async with watched() as proxy:
        await measured(proxy)
        had = counted(proxy)
        await insert(proxy, 30)
        await eventually(lambda: counted(proxy) >= had + 30)
        await looks(proxy)
        assert counted(proxy) == had + 30
        # A local write of the replica was not replicated.
        proxy.cluster.replicas[0].set_variable("read_only", False)
        await execute(await proxy.direct(proxy.cluster.replicas[0]), "CREATE TABLE own (id INT)")
        await looks(proxy)
        assert counted(proxy) == had + 30


async def test_a_transaction_is_as_late_as_its_commit_on_the_replica() -> None:
    async with watched() as proxy:
        await measured(proxy)
        apply(proxy, False)
        await insert(proxy, 1)
        await asyncio.sleep(1)  # clocks are known to some milliseconds only
        apply(proxy, True)
        histogram = "tidegate_transaction_lag_seconds"

        def late() -> list[float]:
            found = proxy.shared.metrics.snapshot()["histograms"][histogram]
            return [total for labels, _, total in found if labels[2] == "end_to_end"]

        await eventually(lambda: sum(late()) >= 0.5)


async def test_without_the_option_nobody_reads_it() -> None:
    async with watched(binlog_lag="off") as proxy:
        await measured(proxy, "performance_schema")
        await looks(proxy)
        assert not proxy.count(ENDS)
        assert not proxy.count(MEANS, "binlog")


async def test_who_may_not_read_it_is_told_what_to_grant_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with watched() as proxy:
        faults = proxy.cluster.replicas[0].faults
        await measured(proxy)
        faults.raw_reply(err(1227, "Access denied; you need REPLICATION SLAVE"), DUMP, times=None)
        proxy.cluster.replicas[0].disconnect()
        await eventually(lambda: proxy.count(ENDS, "denied") >= 3)
        await measured(proxy, "performance_schema")
        # Looks tell of transactions meanwhile.
        had = counted(proxy)
        await insert(proxy, 1)
        await eventually(lambda: counted(proxy) == had + 1 or proxy.count(ENDS, "denied") > 20)
        faults.clear()
        await measured(proxy)
    messages = [r.getMessage() for r in caplog.records if r.name == binlog_lag.__name__]
    assert sum("GRANT REPLICATION SLAVE ON *.* TO app" in message for message in messages) == 1, (
        messages
    )


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (err(1236, "purged required binary logs"), "refused"),
        (frame(b"\0" + bytes(40), 1), "malformed"),
        (frame(b"\xfe\0\0\2\0", 1), "lost"),
    ],
)
async def test_what_ends_it_is_counted_and_it_begins_again(
    answer: bytes, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched() as proxy:
        (server,) = proxy.shared.topology.replicas
        await measured(proxy)
        proxy.cluster.replicas[0].faults.raw_reply(answer, DUMP, times=3)
        proxy.cluster.replicas[0].disconnect()
        await eventually(lambda: proxy.count(ENDS, server.name, cause) >= 3)
        await measured(proxy)
        had = counted(proxy)
        await insert(proxy, 5)
        await eventually(lambda: counted(proxy) == had + 5)
    warnings = [r for r in caplog.records if "does not tell the lag" in r.msg]
    assert 1 <= len(warnings) <= 2  # the end of its connections may be one of its own


async def test_what_is_not_logged_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    async with watched() as proxy:
        await measured(proxy)
        replica = proxy.cluster.replicas[0]
        received = rows([b"1", b"0"], columns=2)
        replica.faults.raw_reply(received, binlog_lag._LOGS, times=None)
        replica.disconnect()
        await eventually(lambda: proxy.count(ENDS, "unlogged") >= 2)
        await measured(proxy, "performance_schema")
    assert sum("does not log what it replicates" in r.getMessage() for r in caplog.records) == 1


async def test_a_replica_that_starts_again_is_read_again() -> None:
    async with watched() as proxy:
        await measured(proxy)
        await proxy.cluster.replicas[0].stop()
        await eventually(lambda: not proxy.count(MEANS))
        await proxy.cluster.replicas[0].start()
        await measured(proxy)
        had = counted(proxy)
        await insert(proxy, 3)
        await eventually(lambda: counted(proxy) == had + 3)


async def test_a_replica_that_becomes_the_primary_is_left_and_the_old_one_read() -> None:
    async with watched(failover="read_only") as proxy:
        await measured(proxy)
        old, new = proxy.cluster.primary, proxy.cluster.replicas[0]
        await proxy.caught_up()
        old.read_only = True
        await new.unfollow()
        new.set_variable("read_only", False)
        await eventually(lambda: proxy.shared.topology.primary.name == new.address)
        await measured(proxy)  # the replica is another one by now
        await eventually(lambda: proxy.count(MEANS, new.address) == 0)


async def test_a_stream_may_be_all_that_tells() -> None:
    async with watched() as proxy:
        faults = proxy.cluster.replicas[0].faults
        faults.raw_reply(err(1142, "SELECT denied"), TABLES[0].encode(), times=None)
        (server,) = proxy.shared.topology.replicas
        await eventually(lambda: "denied" in server.replication.cause)
        await measured(proxy)
        await insert(proxy, 3)
        await eventually(lambda: counted(proxy) >= 3)


async def test_a_server_that_falls_silent_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binlog_stream, "HEARTBEAT_S", 1.0)
    monkeypatch.setattr(binlog_stream, "SILENCE_S", 0.1)
    async with watched() as proxy:
        await eventually(lambda: proxy.count(ENDS, "lost") >= 2)  # its heartbeats are rarer

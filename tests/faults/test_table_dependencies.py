"""What the proxy makes of the primary's binary log, before mock servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from protocol.gtid import EMPTY, GtidSet
from protocol.packet import frame
from proxy.monitor import binlog_stream, transaction_follower
from routing.servers.transaction_tables import TableName
from tests.faults.client import PASSWORD
from tests.faults.peers import err
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture
from tests.faults.table_fixture import execute

DUMP = b"\x1e\0\0"
ENDS = "tidegate_table_dependencies_ends_total"
ACTIVE = "tidegate_table_dependencies_active"
OPTIONS: dict[str, Any] = {
    "monitor_user": "app",
    "monitor_password": PASSWORD.encode(),
    "monitor_interval": 0.02,
    "table_dependencies": "on",
}
NAME = transaction_follower.__name__
READ = frozenset({TableName("test", "other")})


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binlog_stream, "HEARTBEAT_S", 0.05)  # a reader that left is noticed by it
    monkeypatch.setattr(binlog_stream, "BACKOFF_FIRST_S", 0.02)
    monkeypatch.setattr(binlog_stream, "BACKOFF_LAST_S", 0.1)


@asynccontextmanager
async def followed(**more: Any) -> AsyncIterator[ProxyFixture]:
    async with proxy_fixture(1, **(OPTIONS | more)) as proxy:
        await execute(await proxy.direct(), "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        yield proxy


async def active(proxy: ProxyFixture) -> None:
    await eventually(lambda: proxy.shared.topology.current_tables is not None)
    await eventually(lambda: proxy.count(ACTIVE) == 1)


async def inserted(proxy: ProxyFixture) -> GtidSet:
    """What a write committed; the log has been read through it."""
    had = proxy.cluster.primary.gtids.executed
    await execute(await proxy.direct(), "INSERT INTO t VALUES (1)")
    executed = proxy.cluster.primary.gtids.executed

    def read() -> bool:
        tables = proxy.shared.topology.current_tables
        return tables is not None and executed <= tables.read_through

    await eventually(read)
    return executed - had


async def test_what_the_log_has_is_read() -> None:
    async with followed() as proxy:
        await active(proxy)
        version = proxy.shared.topology.transaction_tables.version
        new = await inserted(proxy)
        # The mocker logs statements, which may change anything.
        tables = proxy.shared.topology.transaction_tables
        assert tables.version != version
        assert tables.still_required(new, EMPTY, READ) is new
        assert proxy.count("tidegate_table_dependencies_read_bytes_total") > 0


async def test_without_the_option_nobody_reads_it() -> None:
    async with followed(table_dependencies="off") as proxy:
        (replica,) = proxy.shared.topology.replicas
        received = replica.packets_received
        await eventually(lambda: replica.packets_received > received + 5)
        assert proxy.shared.topology.current_tables is None
        assert proxy.shared.topology.transaction_tables.cause == "off"
        assert not proxy.count(ENDS)
        assert not proxy.count("tidegate_table_dependencies_read_bytes_total")


async def test_the_option_is_followed_while_it_runs() -> None:
    async with followed() as proxy:
        await active(proxy)
        live = proxy.shared.live
        live.change(replace(live.config, table_dependencies="off"), live.materials)
        await eventually(lambda: proxy.shared.topology.transaction_tables.cause == "off")
        assert proxy.shared.topology.current_tables is None
        await eventually(lambda: proxy.count(ACTIVE) == 0)
        live.change(replace(live.config, table_dependencies="on"), live.materials)
        await active(proxy)
        live.change(replace(live.config, monitor_user=None), live.materials)
        await eventually(lambda: proxy.shared.topology.current_tables is None)
        assert "monitor-user" in proxy.shared.topology.transaction_tables.cause


async def test_a_group_is_not_followed() -> None:
    async with followed() as proxy:
        await active(proxy)
        proxy.shared.topology.group = "11111111-1111-1111-1111-111111111111"
        await eventually(lambda: proxy.shared.topology.current_tables is None)
        assert "group" in proxy.shared.topology.transaction_tables.cause
        proxy.shared.topology.group = ""
        await active(proxy)


async def test_who_may_not_read_it_is_told_what_to_grant_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with followed() as proxy:
        faults = proxy.cluster.primary.faults
        await active(proxy)
        faults.raw_reply(err(1227, "Access denied; you need REPLICATION SLAVE"), DUMP, times=None)
        proxy.cluster.primary.disconnect()
        await eventually(lambda: proxy.count(ENDS, "denied") >= 3)
        assert proxy.shared.topology.current_tables is None
        cause = proxy.shared.topology.transaction_tables.cause
        assert "GRANT REPLICATION SLAVE ON *.* TO app" in cause
        faults.clear()
        await active(proxy)
        await inserted(proxy)
    messages = [record.getMessage() for record in caplog.records if record.name == NAME]
    assert sum("GRANT REPLICATION SLAVE ON *.* TO app" in text for text in messages) == 1, messages


async def test_each_reason_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = ["who knows what it leaves out"]
    monkeypatch.setattr(transaction_follower, "why_not_logged", lambda *_: reasons[-1])
    async with followed() as proxy:
        await eventually(lambda: proxy.count(ENDS, "unfit") >= 3)
        reasons.append("binlog_format is MIXED")
        count = proxy.count(ENDS, "unfit")
        await eventually(lambda: proxy.count(ENDS, "unfit") >= count + 3)
    messages = [record.getMessage() for record in caplog.records if record.name == NAME]
    assert [sum(reason in text for text in messages) for reason in reasons] == [1, 1], messages


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (err(1236, "purged required binary logs"), "refused"),
        (frame(b"\0" + bytes(40), 1), "malformed"),
        (frame(b"\xfe\0\0\2\0", 1), "lost"),
    ],
)
async def test_what_ends_it_is_counted_and_it_begins_again(answer: bytes, cause: str) -> None:
    async with followed() as proxy:
        await active(proxy)
        proxy.cluster.primary.faults.raw_reply(answer, DUMP, times=3)
        proxy.cluster.primary.disconnect()
        await eventually(lambda: proxy.count(ENDS, cause) >= 3)
        await active(proxy)
        await inserted(proxy)


async def test_a_primary_that_falls_silent_is_not_relied_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binlog_stream, "HEARTBEAT_S", 1.0)
    monkeypatch.setattr(binlog_stream, "SILENCE_S", 0.1)
    async with followed() as proxy:
        tables = proxy.shared.topology.transaction_tables
        await eventually(lambda: proxy.count(ENDS, "lost") >= 2)  # its heartbeats are rarer
        await eventually(lambda: tables.begun)
        await eventually(lambda: not tables.begun and tables.cause.startswith("lost"))


async def test_the_log_of_the_new_primary_is_read() -> None:
    async with followed(failover="read_only") as proxy:
        await active(proxy)
        topology = proxy.shared.topology
        term = topology.term
        old, new = proxy.cluster.primary, proxy.cluster.replicas[0]
        await proxy.caught_up()
        old.read_only = True
        await new.unfollow()
        new.set_variable("read_only", False)
        await eventually(lambda: topology.primary.name == new.address)
        await active(proxy)
        assert topology.transaction_tables.term == topology.term != term


async def test_without_a_replica_it_does_not_begin() -> None:
    async with followed() as proxy:
        await active(proxy)
        await proxy.cluster.replicas[0].stop()
        (replica,) = proxy.shared.topology.replicas
        await eventually(lambda: replica.is_unreachable(proxy.shared.now()))
        proxy.cluster.primary.disconnect()
        await eventually(lambda: proxy.shared.topology.current_tables is None)
        await proxy.cluster.replicas[0].start()
        await active(proxy)

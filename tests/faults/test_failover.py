"""Another server becomes the primary, or the primary comes back as another: what sessions meet."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mysql_mocker.replication.applier import Applier
from mysql_mocker.server.server import Server
from mysql_mocker.state.faults import Gate
from protocol.gtid import GtidSet
from proxy.monitor.primary_election import promote
from proxy.server.gtid_question import PROBE_SQL
from routing.consistency.decision import Level, LostPolicy, Scope
from tests.faults.client import PASSWORD, Client, change_user, query
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture, statements_of
from tests.faults.table_fixture import COUNT, KEYS, count, execute, value

INSERT = "INSERT INTO t VALUES ({})"
WATCHED: dict[str, Any] = {
    "failover": "read_only",
    "monitor_user": "app",
    "monitor_password": PASSWORD.encode(),
    "monitor_interval": 0.03,
    "connect_timeout": 1.0,
    "wait_budget": 0.05,
}


@asynccontextmanager
async def watched(replicas: int = 2, **options: Any) -> AsyncIterator[ProxyFixture]:
    """A monitored cluster; `t` is empty everywhere."""
    async with proxy_fixture(replicas, **{**WATCHED, **options}) as proxy:
        direct = await proxy.direct()
        await execute(direct, "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        await looked(proxy)
        yield proxy


async def looked(proxy: ProxyFixture) -> None:
    """Wait until the monitor has looked at all servers that run, and at the primary last."""
    for _ in range(2):
        for server in proxy.shared.topology.servers:
            real = mocked(proxy, server.name)
            if real.running:
                seen = len(real.statements)
                await eventually(lambda: any(_is_look(t) for _, t in list(real.statements)[seen:]))  # noqa: B023
    await asyncio.sleep(0.01)


def _is_look(text: str) -> bool:
    return text.startswith("SELECT @@server_uuid")


def mocked(proxy: ProxyFixture, name: str) -> Server:
    (server,) = [server for server in proxy.cluster.servers if server.address == name]
    return server


async def open_for_writes(replica: Server) -> None:
    """Make a replica a primary, as whoever promotes it does."""
    await replica.unfollow()
    replica.set_variable("read_only", False)


async def promoted(proxy: ProxyFixture, server: Server) -> None:
    await eventually(lambda: proxy.shared.topology.primary.name == server.address)


def is_down(proxy: ProxyFixture) -> Callable[[], bool]:
    return lambda: proxy.shared.topology.primary.down_until > 0


async def demote(proxy: ProxyFixture, how: str) -> None:
    """The primary dies, or is told to take no more writes."""
    if how == "dies":
        await proxy.cluster.primary.stop()
    else:
        proxy.cluster.primary.read_only = True


async def refused_login(proxy: ProxyFixture) -> int:
    client = await proxy.connect()
    end = await client.log_in()
    return int.from_bytes(end[1:3], "little") if end[0] == 0xFF else 0


# The way it goes well.


@pytest.mark.parametrize("how", ["dies", "read only"])
async def test_a_replica_takes_over(how: str) -> None:
    async with watched(without_primary="refuse") as proxy:
        new, other = proxy.cluster.replicas
        old_session, in_transaction = await proxy.session(), await proxy.session()
        assert await count(old_session) == 0
        await execute(in_transaction, "BEGIN")
        await demote(proxy, how)
        await open_for_writes(new)
        assert other.applier is not None
        await other.applier.follow(new.binlog)
        await promoted(proxy, new)
        for client in (old_session, in_transaction):
            if how == "dies":
                await client.rest()
            else:
                error = await client.last_error()
                assert error.code == 1053
                assert client.sequence_id == 0
        await eventually(lambda: not proxy.shared.sessions)
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        assert await count(client) == 1
        await eventually(lambda: new.gtids.executed <= other.gtids.executed)
        assert await count(client) == 1
        assert proxy.count("tidegate_promotions_total") == 1
        roles = [row[:2] for row in (await client.query("SHOW TIDEGATE SERVERS")).rows]
        assert roles[0] == [new.address.encode(), b"primary"]
        assert [role for _, role in roles[1:]] == [b"replica", b"replica"]
        (row,) = [
            row[1]
            for row in (await client.query("SHOW TIDEGATE SESSION")).rows
            if row[0] == b"primary"
        ]
        assert row == new.address.encode()
        await proxy.cluster.primary.stop()


async def test_what_was_acknowledged_in_a_wide_scope_is_seen_after_it() -> None:
    async with watched(scope=Scope.USER) as proxy:
        new, other = proxy.cluster.replicas
        client = await proxy.session()
        assert await count(client) == 0
        await execute(client, "INSERT INTO t VALUES (1)")
        await eventually(lambda: proxy.cluster.primary.gtids.executed <= new.gtids.executed)
        other.applying = False
        await demote(proxy, "read only")
        await open_for_writes(new)
        await promoted(proxy, new)
        again = await proxy.session()
        assert await count(again) == 1
        await looked(proxy)
        assert proxy.count("tidegate_lost_transactions_total") == 0
        (scope,) = proxy.shared.scopes.states()
        assert scope.term == proxy.shared.topology.term


# What the new primary lacks.


async def lose_a_write(proxy: ProxyFixture) -> tuple[Server, str]:
    """A write is acknowledged to `app`, and no replica gets it; one of them takes over."""
    new, other = proxy.cluster.replicas
    for user, password in (("app", PASSWORD), ("other", "word")):
        client = await proxy.session(user=user, password=password)
        assert await count(client) == 0
    client = await proxy.session()
    await execute(client, "INSERT INTO t VALUES (1)")
    await proxy.caught_up()
    new.applying = other.applying = False
    await execute(client, "INSERT INTO t VALUES (2), (3)")
    lost = f"{proxy.cluster.primary.gtids.server_uuid}:3"
    await proxy.cluster.primary.stop()
    await open_for_writes(new)
    assert other.applier is not None
    await other.applier.follow(new.binlog)
    await promoted(proxy, new)
    return new, lost


async def test_lost_writes_are_named_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async with watched(without_primary="refuse", scope=Scope.USER) as proxy:
        _, lost = await lose_a_write(proxy)
        await eventually(lambda: proxy.count("tidegate_lost_transactions_total") == 1)
        (message,) = [r.getMessage() for r in caplog.records if "gone from the primary" in r.msg]
        assert "scope user 'app'" in message
        assert lost in message
        first, second = await proxy.session(), await proxy.session()
        assert (await first.query("SHOW TIDEGATE SCOPES")).rows[1][5] == lost.encode()
        await execute(second, "INSERT INTO t VALUES (4)")
        error = (await first.query(COUNT)).error
        assert error.code == 1105
        assert lost in error.message
        for client in (first, second):
            assert await count(client) == 2
        stranger = await proxy.session(user="other", password="word")
        assert await count(stranger) >= 1
        assert proxy.count("tidegate_lost_transactions_total") == 1


@pytest.mark.parametrize("policy", list(LostPolicy))
async def test_a_read_may_come_before_the_monitor_has_compared(policy: LostPolicy) -> None:
    async with watched(without_primary="refuse", scope=Scope.USER, on_lost_writes=policy) as proxy:
        _, lost = await lose_a_write(proxy)
        client = await proxy.session()
        if policy is LostPolicy.ERROR:
            error = (await client.query(COUNT)).error
            assert error.code == 1105
            assert lost in error.message
        for _ in range(3):
            assert await count(client) == 1
        await looked(proxy)
        assert proxy.count("tidegate_lost_transactions_total") == 1


async def test_a_token_of_the_old_primary() -> None:
    async with watched(**KEYS) as proxy:
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        await proxy.caught_up()
        kept = await value(client, "token")
        for replica in proxy.cluster.replicas:
            replica.applying = False
        await execute(client, "INSERT INTO t VALUES (2)")
        lost = await value(client, "token")
        assert kept is not None
        assert lost is not None
        await proxy.cluster.primary.stop()
        new = proxy.cluster.replicas[0]
        await open_for_writes(new)
        await promoted(proxy, new)
        client = await proxy.session()
        await execute(client, f"SET tidegate_token = '{kept.decode()}'")
        assert await count(client) == 1
        await execute(client, f"SET tidegate_token = '{lost.decode()}'")
        assert (await client.query(COUNT)).error.code == 1105
        assert await count(client) == 1


# Who is not promoted.


async def test_a_replica_that_was_writable_all_along() -> None:
    async with proxy_fixture(2, without_primary="refuse", **WATCHED) as proxy:
        new = proxy.cluster.replicas[0]
        new.set_variable("read_only", False)
        await looked(proxy)
        await proxy.cluster.primary.stop()
        await eventually(is_down(proxy))
        await looked(proxy)
        assert proxy.shared.topology.primary.name == proxy.cluster.primary.address
        assert await refused_login(proxy) == 2003


async def test_two_that_could_be() -> None:
    async with watched(without_primary="refuse") as proxy:
        new, other = proxy.cluster.replicas
        await open_for_writes(new)
        await open_for_writes(other)
        await looked(proxy)
        await proxy.cluster.primary.stop()
        await eventually(is_down(proxy))
        await looked(proxy)
        assert proxy.count("tidegate_promotions_total") == 0
        assert await refused_login(proxy) == 2003
        # Whoever made two makes one of it.
        other.read_only = True
        await promoted(proxy, new)
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")


async def test_a_replica_that_was_opened_while_the_primary_serves() -> None:
    """Not promoted then, and neither gets a write; but it is, once the primary is gone."""
    async with watched(without_primary="refuse") as proxy:
        new = proxy.cluster.replicas[0]
        await open_for_writes(new)
        await eventually(lambda: proxy.count("tidegate_primary_disputed") == 1)
        client = await proxy.session()
        assert (await client.query("INSERT INTO t VALUES (1)")).error.code == 1290
        assert await count(client) == 0
        assert proxy.count("tidegate_promotions_total") == 0
        proxy.cluster.primary.read_only = True
        await promoted(proxy, new)
        assert (await client.last_error()).code == 1053
        assert proxy.count("tidegate_primary_disputed") == 0
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        assert not [
            text for text in statements_of(proxy.cluster.primary) if text.startswith("INSERT")
        ]


async def test_a_replica_that_replicates_still() -> None:
    """Opened, its replication running or not: somebody wants to write there, that is all."""
    async with watched() as proxy:
        first, second = proxy.cluster.replicas
        second.applying = False
        for replica in (first, second):
            replica.set_variable("read_only", False)
        await looked(proxy)
        assert proxy.count("tidegate_primary_disputed") == 0
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        await proxy.cluster.primary.stop()
        await eventually(is_down(proxy))
        await looked(proxy)
        assert proxy.shared.topology.primary.name == proxy.cluster.primary.address


async def test_one_that_lacks_what_the_old_primary_can_still_give() -> None:
    async with watched() as proxy:
        new = proxy.cluster.replicas[0]
        new.applying = False
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        await looked(proxy)
        await demote(proxy, "read only")
        await open_for_writes(new)
        await looked(proxy)
        assert proxy.count("tidegate_promotions_total") == 0
        lacked = f"{proxy.cluster.primary.gtids.server_uuid}:2"
        assert lacked in proxy.shared.metrics.trouble
        new.gtids.add(GtidSet.parse(lacked))
        await promoted(proxy, new)
        assert proxy.shared.metrics.trouble == ""


async def test_without_the_option_nothing_is_followed() -> None:
    async with watched(failover="off") as proxy:
        new = proxy.cluster.replicas[0]
        client = await proxy.session()
        await demote(proxy, "read only")
        await open_for_writes(new)
        await looked(proxy)
        assert (await client.query("INSERT INTO t VALUES (1)")).error.code == 1290
        assert proxy.count("tidegate_promotions_total") == 0


async def test_a_primary_that_came_back_writable_is_not_promoted_by_the_next_ones_hiccup() -> None:
    """It was opened long ago; nobody has opened it since."""
    async with watched() as proxy:
        first, (second, third) = proxy.cluster.primary, proxy.cluster.replicas
        await first.stop()
        await open_for_writes(second)
        await promoted(proxy, second)
        await second.stop()
        await open_for_writes(third)
        await promoted(proxy, third)
        await second.start()  # as it was: writable
        await eventually(lambda: server_of(proxy, second).down_until == 0)
        await looked(proxy)
        await third.stop()
        await eventually(is_down(proxy))
        await looked(proxy)
        assert proxy.shared.topology.primary.name == third.address
        assert proxy.count("tidegate_promotions_total") == 2
        await third.start()
        await eventually(lambda: proxy.shared.topology.primary.down_until == 0)
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        assert len(statements_of(third)) > 0


def server_of(proxy: ProxyFixture, real: Server) -> Any:
    (server,) = [s for s in proxy.shared.topology.servers if s.name == real.address]
    return server


# What the old primary comes back with.


async def test_the_old_primary_returns_with_errant_transactions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with watched() as proxy:
        old, (new, other) = proxy.cluster.primary, proxy.cluster.replicas
        new.applying = other.applying = False
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1), (2)")
        errant = GtidSet.parse(f"{old.gtids.server_uuid}:2")
        await old.stop()
        await open_for_writes(new)
        await promoted(proxy, new)
        old.applier = Applier(new.binlog, old.gtids, old.apply, 0)
        old.read_only = True
        await old.start()
        name = "tidegate_errant_transactions"
        await eventually(lambda: proxy.count(name, old.address) == 1)
        assert server_of(proxy, old).errant == errant
        client = await proxy.session()
        rows = (await client.query("SHOW TIDEGATE SERVERS")).rows
        assert {row[0]: row[11] for row in rows}[old.address.encode()] == errant.text.encode()
        messages = [r.getMessage() for r in caplog.records if "that the primary has not" in r.msg]
        assert len(messages) == 1
        assert errant.text in messages[0]
        assert proxy.count(name, new.address) == proxy.count(name, other.address) == 0
        await execute(client, "INSERT INTO t VALUES (9)")
        await eventually(lambda: new.gtids.executed <= old.gtids.executed)
        # Whoever mends it has the primary take the transaction's name.
        new.gtids.add(errant)
        await eventually(lambda: proxy.count(name) == 0)
        assert not server_of(proxy, old).errant


async def test_a_promoted_replica_is_not_errant_any_more() -> None:
    async with watched() as proxy:
        new = proxy.cluster.replicas[0]
        own = new.gtids.next_gtid()
        new.gtids.add(own)
        await eventually(lambda: proxy.count("tidegate_errant_transactions", new.address) == 1)
        await proxy.cluster.primary.stop()
        await open_for_writes(new)
        await promoted(proxy, new)
        await eventually(lambda: proxy.count("tidegate_errant_transactions") == 0)
        client = await proxy.session()
        rows = (await client.query("SHOW TIDEGATE SERVERS")).rows
        assert [row[11] for row in rows] == [b"", b"", b""]


async def test_what_the_primary_is_still_committing_is_not_errant(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A replica has it earlier than the primary's gtid_executed, for as long as that may take."""
    async with watched(1) as proxy:
        primary, replica = proxy.cluster.primary, proxy.cluster.replicas[0]
        own = primary.gtids.next_gtid()
        primary.set_variable("gtid_owned", f"{own.text}#17")
        replica.gtids.add(own)
        await eventually(lambda: own <= server_of(proxy, replica).applied)
        for _ in range(3):
            await looked(proxy)
        primary.gtids.add(own)
        primary.set_variable("gtid_owned", "")
        await looked(proxy)
        assert not [r for r in caplog.records if "the primary" in r.msg]
        assert not server_of(proxy, replica).errant


# The same server comes back as another.


async def test_names_that_the_primary_lost_and_gives_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Under them a replica has something else: no set can tell, so it is not read from."""
    async with watched(1, failover="off") as proxy:
        primary, replica = proxy.cluster.primary, proxy.cluster.replicas[0]
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        await proxy.caught_up()
        await primary.stop()
        primary.gtids.reset()
        primary.gtids.add(GtidSet.parse(f"{primary.gtids.server_uuid}:1"))
        await primary.start()
        await eventually(lambda: server_of(proxy, replica).has_diverged)
        (warning,) = [r for r in caplog.records if "until it is made anew" in r.msg]
        assert warning.args == (replica.address,)
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (2)")
        assert primary.gtids.executed <= replica.gtids.executed
        assert await count(client) == 2
        await looked(proxy)
        assert await count(client, "/* tidegate consistency=STRONG */") == 2
        assert proxy.statements("primary", "no_replica") == 2
        assert await count(client, "/* tidegate consistency=BEST_EFFORT */") == 1
        # Made anew, from a copy of the primary.
        replica.engine.own.apply([])
        direct = await proxy.direct(replica)
        await execute(direct, "RESET BINARY LOGS AND GTIDS")
        await eventually(lambda: not server_of(proxy, replica).has_diverged)


@pytest.mark.parametrize("policy", list(LostPolicy))
async def test_the_primary_restarts_without_its_last_transactions(policy: LostPolicy) -> None:
    async with watched(
        without_primary="refuse", scope=Scope.USER, failover="off", on_lost_writes=policy
    ) as proxy:
        primary = proxy.cluster.primary
        client = await proxy.session()
        assert await count(client) == 0
        for replica in proxy.cluster.replicas:
            replica.applying = False
        await execute(client, "INSERT INTO t VALUES (1)")
        await primary.stop()
        kept = GtidSet.parse(f"{primary.gtids.server_uuid}:1")
        primary.gtids.executed = kept
        await primary.start()
        await client.rest()
        await eventually(lambda: proxy.count("tidegate_lost_transactions_total") == 1)
        client = await proxy.session()
        if policy is LostPolicy.ERROR:
            assert (await client.query(COUNT)).error.code == 1105
        for _ in range(2):
            assert await count(client) == 0
        assert proxy.statements("replica", "read", "ok") >= 2


@pytest.mark.parametrize("scope", [Scope.CONNECTION, Scope.USER])
async def test_reset_binary_logs_and_gtids(scope: Scope) -> None:
    """Sessions survive it; what they wrote before has no name any more, which is told once."""
    async with watched(scope=scope) as proxy:
        client, direct = await proxy.session(), await proxy.direct()
        assert await count(client) == 0
        await execute(client, "INSERT INTO t VALUES (1)")
        await proxy.caught_up()
        assert await count(client) == 1
        await execute(direct, "RESET BINARY LOGS AND GTIDS")
        await looked(proxy)
        assert (await client.query(COUNT)).error.code == 1105
        for _ in range(2):
            assert await count(client) == 1
        for replica in proxy.cluster.replicas:
            replica_direct = await proxy.direct(replica)
            await execute(replica_direct, "RESET BINARY LOGS AND GTIDS")
        await looked(proxy)
        await execute(client, "INSERT INTO t VALUES (2)")
        assert await count(client) == 2
        await proxy.caught_up()
        assert await count(client) == 2


# Which of two events comes first.


async def switch(proxy: ProxyFixture) -> Server:
    """Promote the first replica; the old primary goes on to run."""
    new = proxy.cluster.replicas[0]
    promote(proxy.shared, server_of(proxy, new))
    return new


@asynccontextmanager
async def about_to_switch(**options: Any) -> AsyncIterator[ProxyFixture]:
    """No monitor: the test promotes at the moment that it wants. Sessions end then, by default."""
    options = {"wait_budget": 5.0, "without_primary": "refuse", **options}
    async with proxy_fixture(2, **options) as proxy:
        direct = await proxy.direct()
        await execute(direct, "CREATE TABLE t (id INT)")
        await proxy.caught_up()
        proxy.cluster.replicas[0].set_variable("read_only", False)
        yield proxy


async def test_it_comes_while_a_client_logs_in() -> None:
    async with about_to_switch() as proxy:
        gate = proxy.cluster.primary.faults.hold_reply(b"SELECT @@server_uuid")
        client = await proxy.connect()
        login = asyncio.create_task(client.log_in())
        await eventually(lambda: gate.held == 1)
        new = await switch(proxy)
        gate.open()
        try:
            end = await login
        except asyncio.IncompleteReadError:
            end = b"\xff"
        if end[0] == 0x00:
            await client.rest()
        await eventually(lambda: not proxy.shared.sessions)
        again = await proxy.session()
        await execute(again, "INSERT INTO t VALUES (1)")
        assert "INSERT INTO t VALUES (1)" in statements_of(new)


async def test_it_comes_while_a_client_changes_its_user() -> None:
    async with about_to_switch() as proxy:
        client = await proxy.session()
        client.send(change_user("other"))
        await client.read_packet()
        await switch(proxy)
        await client.rest()
        await eventually(lambda: not proxy.shared.sessions)
        await eventually(lambda: proxy.cluster.primary.connections == 1)


BUSY = {
    "a write": ("INSERT INTO t VALUES (1)", b"INSERT", False),
    "a read on the primary": ("SELECT id FROM t FOR UPDATE", b"FOR UPDATE", False),
    "a probe": (f"/* tidegate consistency=STRONG */ {COUNT}", PROBE_SQL, False),
    "a probe for a token": ("SELECT @@tidegate_token", PROBE_SQL, False),
    "a read on a replica": (COUNT, b"COUNT", True),
    "the login at a replica": (COUNT, b"SELECT @@server_uuid", True),
}


@pytest.mark.parametrize("case", BUSY)
async def test_it_comes_while_a_statement_runs(case: str) -> None:
    sql, matching, on_replicas = BUSY[case]
    async with about_to_switch(**KEYS, consistency=Level.BEST_EFFORT) as proxy:
        client, second = await proxy.session(), await proxy.session()
        if case != "the login at a replica":
            await execute(client, "SELECT 1")
        servers: list[Server] = [proxy.cluster.primary]
        if on_replicas:
            servers = list(proxy.cluster.replicas)
        gates = [server.faults.hold_reply(matching, times=None) for server in servers]
        client.send(query(sql))
        await eventually(lambda: any(gate.held for gate in gates))
        second.send(query(sql))
        await eventually(lambda: sum(busy(s) for s in proxy.shared.sessions) == 2)
        await switch(proxy)
        for waiting in (client, second):
            assert codes(await waiting.rest()) in ([], [1105, 1053])
        opened(gates)
        await eventually(lambda: not proxy.shared.sessions)
        again = await proxy.session()
        await execute(again, "INSERT INTO t VALUES (1)")
        assert proxy.statements("write", "ok") == 1


@pytest.mark.parametrize("case", ["a probe", "a read on a replica", "the login at a replica"])
async def test_it_comes_while_a_statement_runs_that_can_go_on(case: str) -> None:
    """The new primary is asked in place of the old one; a replica's answer counts as ever."""
    sql, matching, on_replicas = BUSY[case]
    async with about_to_switch(consistency=Level.BEST_EFFORT, without_primary="read") as proxy:
        client, second = await proxy.session(), await proxy.session()
        if case != "the login at a replica":
            await execute(client, "SELECT 1")
        old = proxy.cluster.primary
        servers: list[Server] = list(proxy.cluster.replicas) if on_replicas else [old]
        gates = [server.faults.hold_reply(matching, times=None) for server in servers]
        for waiting in (client, second):
            waiting.send(query(sql))
        await eventually(lambda: sum(busy(s) for s in proxy.shared.sessions) == 2)
        await switch(proxy)
        opened(gates)
        for waiting in (client, second):
            assert (await waiting.answer()).value == b"0"
            await execute(waiting, "INSERT INTO t VALUES (1)")
        assert not any("INSERT" in text for text in statements_of(old))


def codes(received: bytes) -> list[int]:
    """Of the ERR packets."""
    found = []
    while received:
        end = 4 + int.from_bytes(received[:3], "little")
        assert received[4] == 0xFF
        found.append(int.from_bytes(received[5:7], "little"))
        received = received[end:]
    return found


def busy(session: Any) -> bool:
    return bool(session._task is not None or session._current.stage != "done")


def opened(gates: list[Gate]) -> None:
    for gate in gates:
        gate.open()


async def test_it_comes_while_reads_wait_for_a_replica() -> None:
    """One sent the WAIT, the other joined it."""
    async with about_to_switch(scope=Scope.USER) as proxy:
        first, second = await proxy.session(), await proxy.session()
        for client in (first, second):
            assert await count(client) == 0
        for replica in proxy.cluster.replicas:
            replica.applying = False
        await execute(first, "INSERT INTO t VALUES (1)")
        for client in (first, second):
            client.send(query(COUNT))
            await asyncio.sleep(0.01)
        await eventually(lambda: sum(busy(s) for s in proxy.shared.sessions) == 2)
        await switch(proxy)
        for client in (first, second):
            assert (await client.last_error()).code == 2013
        await eventually(lambda: not proxy.shared.sessions)
        again = await proxy.session()
        assert (await again.query(COUNT)).error.code == 1105
        assert await count(again) in (0, 1), "the old primary still has it, as a replica"


async def test_it_comes_with_commands_behind_the_one_that_runs() -> None:
    """None of them may reach the old primary any more, nor the new one."""
    async with about_to_switch(**KEYS) as proxy:
        client = await proxy.session()
        gate = proxy.cluster.primary.faults.hold_reply(PROBE_SQL)
        await execute(client, "SET tidegate_consistency = 'BEST_EFFORT'")
        client.send(query("SELECT @@tidegate_token"))
        await eventually(lambda: gate.held == 1)
        client.send(query("INSERT INTO t VALUES (1)"))
        client.send(query("INSERT INTO t VALUES (2)"))
        await asyncio.sleep(0.02)
        new = await switch(proxy)
        await client.rest()
        gate.open()
        await eventually(lambda: not proxy.shared.sessions)
        for server in (new, proxy.cluster.primary):
            assert not any("INSERT" in text for text in statements_of(server))


async def test_clients_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions come and write all the time while the roles change; none writes to the old one."""
    async with watched() as proxy:
        new = proxy.cluster.replicas[0]
        done = False
        acknowledged: list[int] = []

        async def write(number: int) -> None:
            while not done:
                client: Client = await proxy.connect()
                try:
                    if (await client.log_in())[0] != 0x00:
                        await asyncio.sleep(0.01)
                        continue
                    for _ in range(5):
                        number += 10
                        client.send(query(INSERT.format(number)))
                        if (await client.read_packet())[0] == 0x00:
                            acknowledged.append(number)
                except (asyncio.IncompleteReadError, ConnectionError):
                    pass
                finally:
                    client.abort()

        writers = [asyncio.create_task(write(number)) for number in range(4)]
        await eventually(lambda: len(acknowledged) > 20)
        await demote(proxy, "read only")
        await asyncio.sleep(0.05)  # what was running ends
        await eventually(lambda: proxy.cluster.primary.gtids.executed <= new.gtids.executed)
        before = len(acknowledged)
        await open_for_writes(new)
        await promoted(proxy, new)
        await eventually(lambda: len(acknowledged) > before + 20)
        done = True
        await asyncio.gather(*writers)
        client = await proxy.session()
        rows = (await client.query("/* tidegate consistency=STRONG */ SELECT id FROM t")).rows
        found = {int(row[0] or b"") for row in rows}
        assert set(acknowledged) <= found


# While somebody logs in.


async def test_a_server_may_lose_its_role_in_the_midst_of_a_login() -> None:
    async with proxy_fixture() as proxy:
        gate = proxy.cluster.primary.faults.hold_reply(b"SELECT @@server_uuid")
        login = asyncio.create_task(refused_login(proxy))
        await eventually(lambda: gate.held == 1)
        (replica,) = proxy.shared.topology.replicas
        promote(proxy.shared, replica)
        gate.open()
        assert await login == 2013
        assert await (await proxy.session()).query("SELECT 1")

"""Servers to which all connections are taken that Tidegate may have."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from mysql_mocker.server.server import Server
from protocol.constants import Capability
from protocol.handshake import HandshakeV10
from proxy.client.connection import STREAM_ABOVE
from proxy.client.statements.saved_state import SAVE_STATE_SQL
from proxy.server.slots import TURN_COMMANDS
from proxy.shared.client_profile import ALIKE
from routing.consistency.decision import Level, TransactionReads
from routing.servers.topology import Server as TopologyServer
from tests.faults.client import MODERN, Client, change_user, finish_change, query
from tests.faults.proxy_fixture import ProxyFixture, eventually, statements_of
from tests.faults.proxy_fixture import proxy_fixture as any_proxy_fixture
from tests.faults.test_borrowing import away

AWAITED = "tidegate_server_connections_awaited"
BORROWED = "tidegate_connections_borrowed_total"
LENT = "tidegate_logins_lent_total"
OPENED = "tidegate_server_connections_opened_total"
TAKEN = "tidegate_kept_connections_taken_total"
RESTING = "tidegate_clients_resting"
WAITS = "tidegate_server_connection_waits_total"
CREATE = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)"


def sharing_fixture(**options: Any) -> AbstractAsyncContextManager[ProxyFixture]:
    defaults = {
        "replicas": 0,
        "connection_sharing": "on",
        "connection_sharing_delay": 3600.0,
        "max_server_connections": 1,
        "server_connection_timeout": 20.0,
        "kept_connection_age": 3600.0,
        "login_age": 3600.0,
    }
    return any_proxy_fixture(**defaults | options)


@asynccontextmanager
async def never_more_than(most: int, *servers: Server) -> AsyncIterator[None]:
    """Look at how many connections servers have, beside as many that are closing."""

    async def look() -> None:
        while True:
            assert all(server.connections <= 2 * most for server in servers)
            await asyncio.sleep(0)

    looking = asyncio.ensure_future(look())
    try:
        yield
        assert not looking.done(), looking.exception()
        await eventually(lambda: all(server.connections <= most for server in servers))
    finally:
        looking.cancel()


async def waits(proxy: ProxyFixture, count: int = 1) -> None:
    await eventually(lambda: proxy.count(AWAITED) == count)


# A login waits for its turn


async def test_a_login_waits_until_somebody_leaves() -> None:
    async with sharing_fixture(connection_sharing="off", max_server_connections=2) as proxy:
        first, _ = await proxy.session(), await proxy.session()
        third = asyncio.ensure_future(proxy.session())
        await waits(proxy)
        assert not third.done()
        async with never_more_than(2, proxy.cluster.primary):
            first.abort()
            assert (await (await third).query("SELECT 3")).value == b"3"
        assert proxy.count(WAITS, "connected") == 1


async def test_who_comes_first_is_served_first() -> None:
    async with sharing_fixture(connection_sharing="off") as proxy:
        client = await proxy.session()
        waiting: list[asyncio.Future[Client]] = []
        for number in range(3):
            waiting.append(asyncio.ensure_future(proxy.session()))
            await waits(proxy, number + 1)
        for number, waiter in enumerate(waiting):
            client.abort()
            client = await waiter
            assert [later.done() for later in waiting[number + 1 :]] == [False] * (2 - number)


async def test_a_login_that_waits_too_long_is_told_so() -> None:
    async with sharing_fixture(connection_sharing="off", server_connection_timeout=0.05) as proxy:
        client = await proxy.session()
        late = await proxy.connect()
        end = await late.log_in()
        assert end[:3] == b"\xff\x10\x04"
        assert b"08004" in end
        assert b"max-server-connections" in end
        assert proxy.count(WAITS, "timeout") == 1
        assert proxy.count("tidegate_clients_refused_total", "server_full") == 1
        assert proxy.count("tidegate_errors_total", "proxy", "1040") == 1
        assert (await client.query("SELECT 1")).value == b"1"


async def test_a_client_that_leaves_while_it_waits_takes_nobodys_turn() -> None:
    async with sharing_fixture(connection_sharing="off", handshake_timeout=2.0) as proxy:
        first = await proxy.session()
        gone = await proxy.connect()
        assert b"handshake-timeout" in await gone.log_in()
        assert proxy.count(WAITS, "left") == 1
        first.abort()
        assert (await (await proxy.session()).query("SELECT 2")).value == b"2"


@pytest.mark.parametrize("before", [0, ALIKE], ids=["a new connection", "a kept one"])
async def test_who_does_not_log_in_keeps_nobody_waiting(before: int) -> None:
    async with sharing_fixture() as proxy:
        for _ in range(before):
            (await proxy.session()).abort()
            await eventually(lambda: proxy.count("tidegate_kept_connections") == 1)
        silent = await proxy.connect()
        greeting = await silent.greet()
        async with asyncio.timeout(5):
            client = await proxy.session()
        await client.query("BEGIN")

        async def greet_again() -> HandshakeV10:
            return greeting

        silent.greet = greet_again  # type: ignore[method-assign]  # a stand-in
        late = asyncio.ensure_future(silent.log_in())
        await waits(proxy)
        assert (await client.query("SELECT 1")).value == b"1"
        await client.query("COMMIT")
        assert (await late)[0] == 0x00
        assert (await silent.query("SELECT 2")).value == b"2"
        assert (await client.query("SELECT 3")).value == b"3"


async def test_a_login_that_is_under_way_does_not_give_way() -> None:
    async with sharing_fixture(connection_sharing="off") as proxy:
        gate = proxy.cluster.primary.faults.hold_reply(matching=b"SELECT @@server_uuid")
        first = asyncio.ensure_future(proxy.session())
        await eventually(lambda: proxy.shared.slots.count_of(proxy.shared.topology.primary) == 1)
        second = asyncio.ensure_future(proxy.session())
        await waits(proxy)
        await asyncio.sleep(0.05)
        gate.open()
        client = await first
        assert (await client.query("SELECT 1")).value == b"1"
        client.abort()
        assert (await (await second).query("SELECT 2")).value == b"2"


async def test_kept_connections_make_room() -> None:
    """One that does not fit: it was opened for a client with other capabilities."""
    async with sharing_fixture(connection_sharing="off") as proxy:
        (await proxy.session()).abort()
        await eventually(lambda: proxy.count("tidegate_kept_connections") == 1)
        async with never_more_than(1, proxy.cluster.primary):
            client = await proxy.session(capabilities=MODERN & ~Capability.CLIENT_DEPRECATE_EOF)
            assert (await client.query("SELECT 1")).value == b"1"
        assert proxy.count("tidegate_kept_connections_dropped_total", "room") == 1


async def test_a_slot_that_nobody_has_any_more_is_somebodys() -> None:
    async with sharing_fixture(connection_sharing="off") as proxy:
        slots, primary = proxy.shared.slots, proxy.shared.topology.primary
        slot = slots.try_take(primary)
        assert slot is not None
        waiting = asyncio.ensure_future(proxy.session())
        await waits(proxy)
        del slot
        assert (await (await waiting).query("SELECT 1")).value == b"1"


# Sessions give way


async def test_who_rests_gives_way_at_once() -> None:
    async with sharing_fixture() as proxy, never_more_than(1, proxy.cluster.primary):
        clients = [await proxy.session() for _ in range(5)]
        for current in range(3):
            for number, client in enumerate(clients):
                answer = await client.query(f"SELECT {current * 10 + number}")
                assert answer.value == b"%d" % (current * 10 + number)
        assert proxy.count(BORROWED) >= 14
        assert proxy.count(WAITS, "timeout") == 0


async def test_who_never_rests_gives_way_between_two_commands() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        for _ in range(300):
            client.send(query("SELECT 1"))
        async with asyncio.timeout(20):
            await proxy.session()
        assert proxy.statements() < 300
        for _ in range(300):
            assert (await client.answer()).value == b"1"


async def test_a_change_of_user_keeps_its_connection() -> None:
    async with sharing_fixture(connection_sharing="off", server_connection_timeout=0.5) as proxy:
        client = await proxy.session()
        client.send(change_user("other"))
        assert (await finish_change(client, "word"))[0] == 0x00
        assert b"08004" in await (await proxy.connect()).log_in()


async def test_each_goes_on_as_it_was() -> None:
    async with sharing_fixture(max_server_connections=2) as proxy:
        clients = [await proxy.session() for _ in range(6)]
        for number, client in enumerate(clients):
            assert (await client.query(f"SET time_zone = '+0{number}:00'")).ok
        for _ in range(2):
            zones = [(await client.query("SELECT @@time_zone")).value for client in clients]
            assert zones == [b"+0%d:00" % number for number in range(6)]


async def test_only_as_many_give_way_as_others_wait() -> None:
    async with sharing_fixture(max_server_connections=3) as proxy:
        clients = [await proxy.session() for _ in range(3)]
        for client in clients:
            await client.query("SELECT 1")
        await asyncio.sleep(0.05)
        gate = proxy.cluster.primary.faults.hold_reply(matching=SAVE_STATE_SQL[:30])
        late = asyncio.ensure_future(proxy.session())
        await asyncio.sleep(0.1)
        gate.open()
        await late
        assert proxy.count("tidegate_connections_given_back_total") == 1


async def test_nobody_gives_way_while_a_connection_is_cleaned() -> None:
    async with sharing_fixture(max_server_connections=3) as proxy:
        clients = [await proxy.session() for _ in range(3)]
        for client in clients:
            await client.query("SELECT 1")
        await asyncio.sleep(0.05)
        gate = proxy.cluster.primary.faults.hold_reply(matching=b"ROLLBACK AND NO CHAIN")
        clients[0].abort()
        late = asyncio.ensure_future(proxy.session())
        await asyncio.sleep(0.1)
        gate.open()
        await late
        assert proxy.count("tidegate_connections_given_back_total") == 0


async def test_a_connection_that_changes_hands_is_not_opened_anew() -> None:
    """The next one waits until nothing of the last one is left."""
    async with sharing_fixture(max_server_connections=2) as proxy:
        clients = [await proxy.session() for _ in range(4)]
        for current in range(4):
            opened = proxy.count(OPENED)
            for client in clients:
                assert (await client.query("SELECT 1")).value == b"1"
            if current > 1:
                assert proxy.count(OPENED) == opened


async def test_many_that_never_rest_take_turns() -> None:
    async with sharing_fixture(max_server_connections=2) as proxy:
        clients = [await proxy.session() for _ in range(5)]

        async def work(client: Client, number: int) -> None:
            for current in range(5):
                value = number * 1000 + current
                assert (await client.query(f"SELECT {value}")).value == b"%d" % value

        async with asyncio.timeout(60), never_more_than(2, proxy.cluster.primary):
            await asyncio.gather(*map(work, clients, range(5)))


async def test_a_transaction_does_not_give_way() -> None:
    async with sharing_fixture(server_connection_timeout=1.0) as proxy:
        client, other = await proxy.session(), await proxy.session()
        await client.query("BEGIN")
        error = (await other.query("SELECT 5")).error
        assert (error.code, error.sqlstate) == (1040, "08004")
        assert "max-server-connections" in error.message
        await client.query("COMMIT")
        assert (await other.query("SELECT 6")).value == b"6"  # it may come back


async def test_a_command_that_came_meanwhile_is_served_behind_the_others() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        await asyncio.sleep(0.02)
        gate = proxy.cluster.primary.faults.hold_reply(matching=SAVE_STATE_SQL[:30])
        late = asyncio.ensure_future(proxy.session())
        await waits(proxy)
        client.send(query("SELECT 2"))
        await asyncio.sleep(0.05)
        gate.open()
        other = await late
        assert (await client.answer()).value == b"2"
        assert (await other.query("SELECT 3")).value == b"3"
        assert proxy.count(BORROWED) == 2


async def test_who_cannot_give_way_after_all_keeps_its_connection() -> None:
    async with sharing_fixture(server_connection_timeout=1.0) as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT PRIMARY KEY)")
        await client.query("INSERT INTO t VALUES (1)")  # ROW_COUNT() is 1
        late = await proxy.connect()
        assert b"08004" in await late.log_in()
        assert (await client.query("SELECT ROW_COUNT()")).value == b"1"
        await client.query("SELECT 1")
        assert await proxy.session()


@pytest.mark.parametrize("sql", ["SELECT 5", "INSERT INTO t VALUES (1)", "long"])
async def test_whatever_is_refused_did_not_run(sql: str) -> None:
    async with sharing_fixture(server_connection_timeout=1.0) as proxy:
        client, other = await proxy.session(), await proxy.session()
        await other.query("CREATE TABLE t (id INT PRIMARY KEY)")
        await away(proxy, other, sql="SELECT 1")
        await client.query("BEGIN")
        if sql == "long":
            sql = "SELECT LENGTH('" + "x" * (3 * STREAM_ABOVE) + "')"
        assert (await other.query(sql)).error.code == 1040
        assert sql not in statements_of(proxy.cluster.primary)
        await client.query("ROLLBACK")
        assert (await other.query("SELECT 6")).value == b"6"


async def test_a_read_that_would_have_asked_the_primary_is_refused() -> None:
    options = {"replicas": 1, "consistency": Level.STRONG}
    async with sharing_fixture(server_connection_timeout=1.0, **options) as proxy:
        client, other = await proxy.session(), await proxy.session()
        await client.query("BEGIN")
        assert (await other.query("SELECT 5")).error.code == 1040
        await client.query("COMMIT")
        assert (await other.query("SELECT 6")).value == b"6"


async def test_who_is_not_let_in_any_more_is_told_so_behind_a_question() -> None:
    """A read for which the primary is to be asked first."""
    options = {"replicas": 1, "consistency": Level.STRONG, "max_server_connections": 0}
    async with sharing_fixture(login_age=0.001, **options) as proxy:
        client = await proxy.session()
        await client.query("SELECT 5")
        for _ in range(2):
            for session in list(proxy.shared.sessions):
                session.rest()
        await eventually(lambda: proxy.count(RESTING) == 1)
        proxy.cluster.primary.accounts["app"] = "another"
        assert (await client.query("SELECT 5")).error.code == 1045
        assert await client.rest() == b""


async def test_a_kill_of_who_rests_needs_a_connection() -> None:
    async with sharing_fixture(server_connection_timeout=0.5) as proxy:
        client, other = await proxy.session(), await proxy.session()
        assert client.greeting is not None
        await other.query("SELECT 1")
        error = (await other.query(f"KILL {client.greeting.thread_id}")).error
        assert error.code == 1040  # the only connection is the one that kills
        assert (await client.query("SELECT 2")).value == b"2"


# Replicas


async def test_a_read_does_not_wait_long_for_a_replica() -> None:
    async with sharing_fixture(replicas=1, wait_budget=0.05, connection_sharing="off") as proxy:
        held = proxy.shared.slots.try_take(proxy.shared.topology.replicas[0])
        assert held is not None
        client = await proxy.session()
        assert (await client.query("SELECT 1")).value == b"1"
        assert proxy.statements("primary", "replica_full") == 1
        held.free()
        assert (await client.query("SELECT 2")).value == b"2"
        assert proxy.statements("replica") == 1


async def test_who_waits_for_the_primary_gives_way_at_a_replica() -> None:
    async with sharing_fixture(replicas=1, wait_budget=20.0) as proxy:
        first, second, third = [await proxy.session() for _ in range(3)]
        await third.query(CREATE)
        await proxy.caught_up()
        await third.query("BEGIN")  # and keeps the primary's connection
        await eventually(lambda: proxy.count(RESTING) == 2)
        assert (await first.query("SELECT 1")).value == b"1"
        first.send(query("INSERT INTO t VALUES (1)"))
        await waits(proxy)
        assert (await second.query("SELECT 2")).value == b"2"
        assert proxy.statements("replica") == 2
        await third.query("COMMIT")
        assert (await first.answer()).ok


async def test_reads_on_replicas_take_turns() -> None:
    async with sharing_fixture(replicas=1, wait_budget=20.0, max_server_connections=2) as proxy:
        clients = [await proxy.session() for _ in range(6)]

        async def work(client: Client, number: int) -> None:
            for current in range(5):
                value = number * 1000 + current
                assert (await client.query(f"SELECT {value}")).value == b"%d" % value

        servers = proxy.cluster.servers
        async with asyncio.timeout(60), never_more_than(2 + 1, *servers):  # and the monitor's
            await asyncio.gather(*map(work, clients, range(6)))
        assert proxy.statements("replica") == 30


async def test_who_waited_for_a_replica_is_lent_what_was_given_up() -> None:
    async with sharing_fixture(replicas=1, wait_budget=20.0, max_server_connections=2) as proxy:
        replica = proxy.shared.topology.replicas[0]
        first, second, third = [await proxy.session() for _ in range(3)]
        for client in (first, second):
            await client.query("SELECT 1")
        assert (await third.query("SELECT 3")).value == b"3"
        assert proxy.count(LENT, replica.name) == proxy.count(TAKEN, replica.name) > 0
        assert proxy.count(OPENED, replica.name) == 2


# Turns


class Waiter:
    """A session that uses a connection to a server; it counts how often it is asked to give way."""

    def __init__(self) -> None:
        self.asked = 0

    def give_way(self, server: TopologyServer) -> None:
        self.asked += 1


async def test_a_busy_session_has_a_turn_of_some_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with sharing_fixture(max_server_connections=1) as proxy:
        slots, server = proxy.shared.slots, proxy.shared.topology.primary
        slot = slots.try_take(server)
        assert slot is not None
        slot.use(Waiter())
        assert not slots.wants(slot)  # nobody waits
        waiting = asyncio.ensure_future(slots.take(server))
        await waits(proxy)
        slot.use(Waiter())  # its turn begins
        slot.since -= 0.02  # it lasts long enough for an idle one
        with monkeypatch.context() as patch:
            patch.setattr("proxy.server.slots._LONGEST_TURN_S", 3600.0)  # however slow this is
            turns = [slots.wants(slot) for _ in range(TURN_COMMANDS)]
        assert turns == [False] * (TURN_COMMANDS - 1) + [True]
        slot.use(Waiter())
        slot.since -= 60
        assert slots.wants(slot)  # however few they are
        slot.free()
        (await waiting).free()


async def test_who_is_between_two_commands_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.server.slots._LOOK_S", 3600.0)
    monkeypatch.setattr("proxy.server.slots._TURN_S", 60.0)
    async with sharing_fixture(max_server_connections=1) as proxy:
        slots, server = proxy.shared.slots, proxy.shared.topology.primary
        slot, busy = slots.try_take(server), Waiter()
        assert slot is not None
        slot.use(busy)
        waiting = asyncio.ensure_future(slots.take(server))
        await waits(proxy)
        slot.since -= 3600
        for _ in range(3):
            slots.wants(slot)  # a command has ended
            slots.look()
            assert busy.asked == 0
        slots.look()
        assert busy.asked == 1
        slot.free()
        (await waiting).free()


async def test_who_writes_and_reads_has_one_turn_on_both_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.server.slots._LONGEST_TURN_S", 3600.0)
    monkeypatch.setattr("proxy.server.slots._LOOK_S", 3600.0)
    async with sharing_fixture(replicas=1, wait_budget=20.0) as proxy:
        client, slots = await proxy.session(), proxy.shared.slots
        primary = proxy.shared.topology.primary
        await client.query(CREATE)
        assert (await client.query("SELECT 1")).value == b"1"
        monkeypatch.setattr("proxy.server.slots._TURN_S", 3600.0)  # nobody gives way yet
        waiting = asyncio.ensure_future(slots.take(primary))
        await waits(proxy)
        monkeypatch.setattr("proxy.server.slots._TURN_S", 0.0)  # it is over for who is idle
        for number in range(TURN_COMMANDS // 2 - 1):
            assert (await client.query("INSERT INTO t VALUES (NULL)")).ok
            assert (await client.query("SELECT COUNT(*) FROM t")).value == b"%d" % (number + 1)
        assert not waiting.done()
        assert proxy.statements("replica") == TURN_COMMANDS // 2
        assert (await client.query("INSERT INTO t VALUES (NULL)")).ok
        assert (await client.query("SELECT -1")).value == b"-1"
        (await waiting).free()  # the turn is over, behind a read


# A session borrows without a login


async def test_who_rests_reads_on_replicas_in_one_step() -> None:
    async with sharing_fixture(replicas=1, max_server_connections=0) as proxy:
        client = await proxy.session()
        await away(proxy, client)
        (session,) = proxy.shared.sessions
        for number in range(3):
            assert (await client.query(f"SELECT {number}")).value == b"%d" % number
        assert session.state.plain
        assert proxy.count(RESTING) == 1
        assert (await client.query("DO 1")).ok
        assert proxy.count(RESTING) == 0


async def test_who_comes_back_soon_need_not_log_in() -> None:
    async with sharing_fixture(max_server_connections=0) as proxy:
        clients = [await proxy.session() for _ in range(2)]
        pool, primary = proxy.shared.pool, proxy.shared.topology.primary
        for current in range(3):
            await away(proxy, *clients)
            await eventually(lambda: all(connection.clean for connection in pool.of(primary)))
            before = proxy.count(LENT)
            for client in clients:
                assert (await client.query(f"SELECT {current}")).value == b"%d" % current
            assert proxy.count(LENT) - before == (
                2 if current else 0
            )  # ids that were told end at first


async def test_who_has_another_schema_by_now_logs_in() -> None:
    async with sharing_fixture(max_server_connections=0) as proxy:
        client = await proxy.session(database="test")
        await client.query("USE second")
        for _ in range(2):
            await away(proxy, client)
            assert (await client.query("SELECT DATABASE()")).value == b"second"


async def test_what_a_login_is_remembered_for_ends() -> None:
    async with sharing_fixture(max_server_connections=0, login_age=0.05) as proxy:
        client = await proxy.session()
        await away(proxy, client)
        proxy.cluster.primary.accounts["app"] = "another"
        await asyncio.sleep(0.1)
        assert (await client.query("SELECT 1")).error.code == 1045


async def test_a_snapshot_on_a_replica_does_not_give_way() -> None:
    """Its session has no connection to the primary: its first read opened the transaction there."""
    options = {"replicas": 1, "wait_budget": 0.1, "transaction_reads": TransactionReads.SNAPSHOT}
    async with sharing_fixture(**options) as proxy:
        first, second = await proxy.session(), await proxy.session()
        await second.query("CREATE TABLE t (id INT PRIMARY KEY)")
        await second.query("COMMIT")  # so that it may give way
        await proxy.caught_up()
        await first.query("SET autocommit = 0")
        await first.query("COMMIT")
        await second.query("BEGIN")  # so that the first one has no connection to the primary
        await eventually(lambda: proxy.count(RESTING) == 1)
        assert (await first.query("SELECT COUNT(*) FROM t")).value == b"0"
        await asyncio.sleep(0.05)
        await second.query("COMMIT")
        assert (await second.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert (await first.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert proxy.statements("primary", "replica_full") == 1


async def test_a_primary_is_not_silent_that_has_no_room() -> None:
    """Who waits for a connection has asked it nothing yet."""
    async with sharing_fixture(replicas=1, max_server_connections=2, wait_budget=0.1) as proxy:
        direct = await proxy.direct()
        await direct.query("CREATE TABLE t (id INT)")
        rests = await proxy.session()
        await away(proxy, rests)
        writes, transaction = await proxy.session(), await proxy.session()
        gate = proxy.cluster.primary.faults.hold_reply(matching=b"VALUES (2)")
        writes.send(query("INSERT INTO t VALUES (2)"))
        await eventually(lambda: gate.held == 1)
        for sql in ("BEGIN", "INSERT INTO t VALUES (1)"):
            assert (await transaction.query(sql)).ok
        rests.send(query("INSERT INTO t VALUES (3)"))
        await waits(proxy)
        await asyncio.sleep(1.2)  # longer than a primary may say nothing to a login
        assert (await transaction.query("COMMIT")).ok
        gate.open()
        for client in (writes, rests):
            assert (await client.answer()).ok
        assert (await direct.query("SELECT COUNT(*) FROM t")).value == b"3"


async def test_a_login_without_a_primary_finds_its_replica_full() -> None:
    async with any_proxy_fixture(
        1, max_server_connections=1, server_connection_timeout=0.1, connect_timeout=1.0
    ) as proxy:
        primary, replica = proxy.cluster.primary, proxy.cluster.replicas[0]
        reads = await proxy.session()
        gate = replica.faults.hold_reply(matching=b"SELECT 1")
        reads.send(query("SELECT 1"))
        await eventually(lambda: gate.held == 1)
        await primary.stop()
        await eventually(lambda: proxy.count("tidegate_clients_without_primary") == 1)
        client = await proxy.connect()
        assert (await client.log_in())[:3] == b"\xff\x10\x04"  # 1040
        gate.open()
        assert (await reads.answer()).value == b"1"
        await proxy.session()

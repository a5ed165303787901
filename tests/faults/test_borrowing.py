"""Sessions that rest without a connection to the primary, and what can come between."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from mysql_mocker.error import MySQLError
from mysql_mocker.state.faults import Fault
from protocol.constants import Command
from protocol.response import ErrPacket
from protocol.response_stream import SIMPLE
from proxy.client.connection import STREAM_ABOVE
from proxy.client.statements.saved_state import SAVE_STATE_SQL
from proxy.monitor.primary_election import promote
from routing.consistency.decision import Level, TimeoutPolicy
from tests.faults.client import Client, change_user, finish_change, query
from tests.faults.peers import err, rows
from tests.faults.proxy_fixture import ProxyFixture, eventually, statements_of
from tests.faults.proxy_fixture import proxy_fixture as any_proxy_fixture
from tests.faults.test_prepared import execute, prepare

RESTING = "tidegate_clients_resting"
BORROWED = "tidegate_connections_borrowed_total"
KEPT = "tidegate_connections_not_given_back_total"
CREATE = "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, n INT)"
INSERT = "INSERT INTO t (n) VALUES (1)"


def sharing_fixture(**options: Any) -> AbstractAsyncContextManager[ProxyFixture]:
    return any_proxy_fixture(**{"replicas": 0, "connection_sharing": "on", **options})


def rest(proxy: ProxyFixture) -> None:
    """Look at all sessions as often as it takes for them to rest."""
    for _ in range(2):
        for session in list(proxy.shared.sessions):
            session.rest()


async def away(proxy: ProxyFixture, *clients: Client, sql: str = "SELECT 1") -> None:
    """Let sessions rest until all of them have no connection to the primary."""
    for client in clients:
        assert (await client.query(sql)).packets[-1][0] != 0xFF
    rest(proxy)
    await eventually(lambda: proxy.count(RESTING) == len(proxy.shared.sessions))


async def test_a_command_that_comes_while_the_session_takes_leave_is_served() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1 UNION SELECT 2 UNION SELECT 3")
        gate = proxy.cluster.primary.faults.hold_reply(matching=SAVE_STATE_SQL[:30])
        rest(proxy)
        client.send(query("SELECT FOUND_ROWS(), ROW_COUNT()"))
        await asyncio.sleep(0.05)
        gate.open()
        assert (await client.answer()).rows == [[b"3", b"-1"]]
        assert proxy.count(RESTING) == proxy.count(BORROWED) == 0


async def test_so_is_a_long_one() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1 UNION SELECT 2")
        gate = proxy.cluster.primary.faults.hold_reply(matching=SAVE_STATE_SQL[:30])
        rest(proxy)
        long = "SELECT FOUND_ROWS(), LENGTH('" + "x" * (2 * STREAM_ABOVE) + "')"
        client.send(query(long))
        await asyncio.sleep(0.05)
        gate.open()
        assert (await client.answer()).rows == [[b"2", b"%d" % (2 * STREAM_ABOVE)]]
        assert proxy.count(RESTING) == 0


async def test_a_session_that_was_woken_for_a_kill_does_not_rest_at_once() -> None:
    """Else the KILL, which goes to the primary next, finds no thread: no command has come."""
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await away(proxy, client)
        (session,) = proxy.shared.sessions
        assert await session.wake() is None
        session.rest()  # a look that comes between
        await asyncio.sleep(0.05)
        assert not session.is_away
        assert session.thread_of("app")


async def test_a_long_command_borrows_a_connection() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await away(proxy, client)
        long = "SELECT LENGTH('" + "x" * (3 * STREAM_ABOVE) + "')"
        assert (await client.query(long)).value == b"%d" % (3 * STREAM_ABOVE)
        assert (await client.query("SELECT 5")).value == b"5"
        assert proxy.count(BORROWED) == 1


async def test_a_server_that_ends_the_session_meanwhile_ends_it() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        proxy.cluster.primary.faults.drop_connection_after(0, matching=SAVE_STATE_SQL[:30])
        rest(proxy)
        assert await client.rest() == b""
        assert proxy.count(RESTING) == 0


@pytest.mark.parametrize("unasked", [True, False], ids=["unasked", "in place of an answer"])
@pytest.mark.parametrize("holds", [False, True], ids=["idle", "with a command"])
async def test_what_a_server_says_as_it_ends_the_session_meanwhile_is_told(
    holds: bool, unasked: bool
) -> None:
    """The client takes an ERR for the answer to its command, or for one out of turn."""
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        # A server's own ERR has the number 0: behind an answer, or before it reads a question.
        closing = err(4031, "inactive", sequence_id=0)
        raw = (rows([b"1"]) if unasked else b"") + closing
        gate = proxy.cluster.primary.faults.hold_reply(matching=SAVE_STATE_SQL[:30], raw=raw)
        rest(proxy)
        if holds:
            client.send(query("SELECT 2"))
            await asyncio.sleep(0.05)
        gate.open()
        error = await client.last_error()
        assert (error.code, client.sequence_id) == (4031, 1 if holds else 0)
        assert proxy.count(RESTING) == 0


@pytest.mark.parametrize("commands", [0, 1])
async def test_a_client_that_leaves_meanwhile_leaves_nothing(commands: int) -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        gate = proxy.cluster.primary.faults.hold_reply(matching=SAVE_STATE_SQL[:30])
        rest(proxy)
        if commands:
            client.send(query("SELECT 1"))
            await asyncio.sleep(0.05)
        client.abort()
        await eventually(lambda: not proxy.shared.sessions)
        gate.open()
        await eventually(lambda: proxy.cluster.primary.connections == 0)


async def test_a_server_that_does_not_say_what_the_session_has_keeps_it() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query("SELECT 1")).value == b"1"
        proxy.cluster.primary.faults.raw_reply(err(1205), matching=SAVE_STATE_SQL[:30])
        rest(proxy)
        assert (await client.query("SELECT 2")).value == b"2"
        rest(proxy)
        assert proxy.count(RESTING) == 0
        assert proxy.count(KEPT, "unknown") == 1


async def test_who_is_refused_is_told_so_and_nothing_ran() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await away(proxy, client)
        proxy.cluster.primary.accounts["app"] = "another"
        error = (await client.query(INSERT)).error
        assert (error.code, error.sqlstate) == (1045, "28000")
        assert await client.rest() == b""
        assert INSERT not in statements_of(proxy.cluster.primary)
        assert proxy.count(RESTING) == 0


async def test_where_nobody_answers_nothing_ran() -> None:
    async with sharing_fixture(connect_timeout=0.5) as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await away(proxy, client)
        await proxy.cluster.primary.stop()
        for _ in range(2):
            error = (await client.query(INSERT)).error
            assert (error.code, error.sqlstate) == (1290, "HY000")
        await proxy.cluster.primary.start()
        primary = proxy.shared.topology.primary
        await eventually(lambda: not primary.is_gone(proxy.shared.now()))
        assert (await client.query(INSERT)).ok
        assert statements_of(proxy.cluster.primary).count(INSERT) == 1


async def test_who_is_away_goes_on_with_the_next_primary() -> None:
    async with sharing_fixture(replicas=1) as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await proxy.caught_up()
        await away(proxy, client)
        promote(proxy.shared, proxy.shared.topology.replicas[0])
        await client.query(INSERT)
        assert INSERT not in statements_of(proxy.cluster.primary)
        assert INSERT in statements_of(proxy.cluster.replicas[0])


async def test_a_write_that_broke_behind_a_login_is_not_sent_again() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await away(proxy, client)
        proxy.cluster.primary.faults.drop_connection_after(0, matching=INSERT.encode())
        client.send(query(INSERT))
        assert (await client.last_error()).code == 2013
        assert statements_of(proxy.cluster.primary).count(INSERT) == 1
        assert proxy.statements("primary", "lost") == 1


async def test_who_is_away_when_another_server_becomes_the_primary_is_told_at_once() -> None:
    async with sharing_fixture(without_primary="refuse", replicas=1) as proxy:
        client = await proxy.session()
        await away(proxy, client)
        promote(proxy.shared, proxy.shared.topology.replicas[0])
        error = await client.read_error()
        assert error.code == 1053
        assert "another server has become the primary" in error.message
        assert await client.rest() == b""


async def test_a_promotion_while_a_connection_is_borrowed_runs_nothing() -> None:
    async with sharing_fixture(without_primary="refuse", replicas=1) as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await proxy.caught_up()
        await away(proxy, client)
        primary, replica = proxy.cluster.primary, proxy.cluster.replicas[0]
        gate = primary.faults.hold_reply(matching=b"SET SESSION session_track_schema")
        client.send(query(INSERT))
        await asyncio.sleep(0.05)
        promote(proxy.shared, proxy.shared.topology.replicas[0])
        gate.open()
        assert (await client.read_error()).code in (1053, 2013)
        assert await client.rest() == b""
        assert INSERT not in statements_of(primary) + statements_of(replica)


@pytest.mark.parametrize(
    ("packet", "text"),
    [
        (query(INSERT), INSERT),
        (query("BEGIN"), "BEGIN"),
        (query("SELECT 78"), "SELECT 78"),
        (bytes([Command.COM_INIT_DB]) + b"second", ""),
    ],
    ids=["a write", "a transaction", "a read", "no statement"],
)
async def test_what_waits_for_a_connection_goes_to_the_next_primary(
    packet: bytes, text: str
) -> None:
    """It was decided on for a primary that is another server's replica when it can be sent."""
    async with sharing_fixture(replicas=1, consistency=Level.STRONG) as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await proxy.caught_up()
        await away(proxy, client)
        primary, replica = proxy.cluster.primary, proxy.cluster.replicas[0]
        before = len(statements_of(replica))
        gate = primary.faults.hold_reply(matching=b"SET SESSION session_track_schema")
        client.send(packet)
        await asyncio.sleep(0.05)
        promote(proxy.shared, proxy.shared.topology.replicas[0])
        await replica.unfollow()
        replica.set_variable("read_only", False)
        await primary.stop()
        gate.open()
        answer = await client.read_packet()
        assert answer[0] != 0xFF, answer
        assert text in ["", *statements_of(replica)[before:]]
        assert text not in statements_of(primary)


async def test_a_client_that_leaves_while_it_borrows_leaves_nothing() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await away(proxy, client)
        gate = proxy.cluster.primary.faults.hold_reply(matching=b"SELECT SHA2(")
        client.send(query("SELECT 1"))
        await asyncio.sleep(0.05)
        client.abort()
        await eventually(lambda: not proxy.shared.sessions)
        gate.open()
        assert proxy.count(RESTING) == 0


async def test_what_was_written_on_a_borrowed_connection_is_waited_for() -> None:
    async with sharing_fixture(replicas=1, on_timeout=TimeoutPolicy.ERROR) as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await proxy.caught_up()
        await away(proxy, client)
        gate = proxy.cluster.replicas[0].faults.hold_apply("INSERT")
        assert (await client.query(INSERT)).ok
        client.send(query("SELECT COUNT(*) FROM t"))
        await asyncio.sleep(0.05)
        gate.open()
        assert (await client.answer()).value == b"1"


async def test_what_was_written_before_is_waited_for_while_there_is_no_connection() -> None:
    async with sharing_fixture(replicas=1, on_timeout=TimeoutPolicy.ERROR) as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await proxy.caught_up()
        gate = proxy.cluster.replicas[0].faults.hold_apply("INSERT")
        assert (await client.query(INSERT)).ok
        await away(proxy, client, sql="COMMIT")
        client.send(query("SELECT COUNT(*) FROM t"))
        await asyncio.sleep(0.05)
        gate.open()
        assert (await client.answer()).value == b"1"


async def test_a_read_that_asks_the_primary_borrows_a_connection_for_that() -> None:
    async with sharing_fixture(replicas=1, consistency=Level.STRONG) as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await proxy.caught_up()
        await away(proxy, client)
        before = proxy.statements("replica")
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert proxy.statements("replica") == before + 1
        assert proxy.count(BORROWED) == 1


async def test_two_that_kill_each_other_do_not_wait_for_each_other() -> None:
    async with sharing_fixture() as proxy:
        first, second = await proxy.session(), await proxy.session()
        await away(proxy, first, second)
        gate = proxy.cluster.primary.faults.hold_reply(matching=b"SELECT SHA2(")
        for killer, victim in ((first, second), (second, first)):
            assert victim.greeting is not None
            killer.send(query(f"KILL {victim.greeting.thread_id}"))
        await asyncio.sleep(0.05)
        gate.open()
        ends = {asyncio.create_task(client.rest()) for client in (first, second)}
        done, others = await asyncio.wait(ends, timeout=20, return_when="FIRST_COMPLETED")
        assert done
        for other in others:
            other.cancel()
        assert proxy.count(RESTING) == 0


async def test_another_user_may_log_in_while_there_is_no_connection() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await away(proxy, client)
        client.send(change_user("other"))
        assert (await finish_change(client, "word"))[0] == 0x00
        assert proxy.count(RESTING) == 0
        assert (await client.query("SELECT CURRENT_USER()")).value == b"other@%"
        await away(proxy, client)
        assert (await client.query("SELECT CURRENT_USER()")).value == b"other@%"


async def test_what_is_borrowed_for_the_user_before_is_not_the_next_ones() -> None:
    async with sharing_fixture() as proxy:
        client, killer = await proxy.session(), await proxy.session()
        await away(proxy, client, killer)
        client.send(change_user("other"))
        gate = proxy.cluster.primary.faults.hold_reply(matching=b"SELECT SHA2(")
        assert client.greeting is not None
        killer.send(query(f"KILL QUERY {client.greeting.thread_id}"))
        await asyncio.sleep(0.05)
        assert (await finish_change(client, "word"))[0] == 0x00
        gate.open()
        await killer.answer(SIMPLE)
        assert (await client.query("SELECT CURRENT_USER()")).value == b"other@%"
        assert proxy.count(RESTING) == 0


LAST = {
    "rows": ("SELECT 1 UNION SELECT 2", "SELECT FOUND_ROWS(), LAST_INSERT_ID()", [[b"2", b"0"]], 0),
    "alone": ("SELECT 1 UNION SELECT 2", "SELECT FOUND_ROWS()", [[b"2"]], 0),
    "limit": ("SELECT 1 UNION SELECT 2 LIMIT 1", "SELECT FOUND_ROWS()", [[b"1"]], 1),
}


@pytest.mark.parametrize("case", LAST)
async def test_a_replicas_connection_stays_if_only_that_can_tell_of_the_last_statement(
    case: str,
) -> None:
    sql, question, expected, stays = LAST[case]
    async with sharing_fixture(replicas=1) as proxy:
        client = await proxy.session()
        assert (await client.query(sql)).rows
        assert proxy.statements("replica") == 1
        rest(proxy)
        await eventually(lambda: proxy.count(RESTING) == 1)
        (session,) = proxy.shared.sessions
        assert len(session._servers.replicas) == stays
        assert (await client.query(question)).rows == expected


OPEN = {
    "at READ COMMITTED": ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "BEGIN"),
    "implied": ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET autocommit = 0"),
    "READ ONLY": ("START TRANSACTION READ ONLY",),
}


@pytest.mark.parametrize("case", OPEN)
async def test_a_transaction_that_only_a_replica_has_seen_keeps_the_connection(case: str) -> None:
    async with sharing_fixture(replicas=1) as proxy:
        client = await proxy.session()
        assert (await client.query(CREATE)).ok
        await proxy.caught_up()
        for sql in OPEN[case]:
            assert (await client.query(sql)).ok
        before = proxy.statements("replica")
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert proxy.statements("replica") == before + 1
        rest(proxy)
        assert proxy.count(KEPT, "transaction") == 1
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert proxy.count(RESTING) == proxy.count(BORROWED) == 0


async def test_a_reset_borrows_a_connection() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query("SET time_zone = '+03:00'")).ok
        await away(proxy, client)
        assert (await client.query("SELECT @@time_zone")).value == b"+03:00"
        await away(proxy, client)
        assert (await client.command(bytes([Command.COM_RESET_CONNECTION]), SIMPLE)).ok
        assert (await client.query("SELECT @@time_zone")).value == b"SYSTEM"


async def test_without_the_option_nobody_rests() -> None:
    async with sharing_fixture(connection_sharing="off") as proxy:
        client = await proxy.session()
        assert (await client.query("SELECT 1")).value == b"1"
        rest(proxy)
        assert (await client.query("SELECT 1")).value == b"1"
        assert not [
            text
            for text in statements_of(proxy.cluster.primary)
            if text.startswith(SAVE_STATE_SQL[:30].decode())
        ]


async def test_an_id_that_the_client_was_not_told_is_written_nowhere() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query("CREATE TABLE owners (id INT)")).ok
        proxy.cluster.primary.faults.raw_reply(
            err(1227, "it may not"), matching=b"SET @@SESSION.pseudo_thread_id", times=None
        )
        await away(proxy, client)
        assert (await client.query("UPDATE owners SET id = 1")).ok  # borrows, and is plain
        assert (await client.query("INSERT INTO owners VALUES (5)")).ok
        error = (await client.query("INSERT INTO owners VALUES (CONNECTION_ID())")).error
        assert error.code == 1235
        assert (await client.query("SELECT COUNT(*) FROM owners")).value == b"1"


def look(proxy: ProxyFixture) -> None:
    """Look at all sessions once."""
    for session in list(proxy.shared.sessions):
        session.rest()


async def test_who_reads_on_replicas_is_not_idle() -> None:
    async with sharing_fixture(replicas=1) as proxy:
        direct = await proxy.direct()
        assert (await direct.query("SET GLOBAL wait_timeout = 1")).ok
        client = await proxy.session()
        await away(proxy, client)
        for number in range(15):
            assert (await client.query(f"SELECT {number}")).value == b"%d" % number
            look(proxy)
            await asyncio.sleep(0.1)
        assert proxy.count(RESTING) == 1
        ended = asyncio.ensure_future(client.read_packet())
        while not ended.done():
            look(proxy)
            await asyncio.sleep(0.1)
        assert ErrPacket.parse(ended.result()).code == 4031


async def test_who_is_away_gives_replicas_back_again() -> None:
    async with sharing_fixture(replicas=1) as proxy:
        client = await proxy.session()
        await away(proxy, client)
        for _ in range(2):
            assert (await client.query("SELECT 1")).value == b"1"
            assert proxy.count("tidegate_server_connections") == 1
            rest(proxy)
            await eventually(lambda: proxy.count("tidegate_server_connections") == 0)


async def test_a_full_server_ends_nobody() -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query("CREATE TABLE t (id INT)")).ok
        await away(proxy, client)
        proxy.shared.pool.drop_all(proxy.shared.topology.primary, "age")
        full = MySQLError(1040, "08004", "Too many connections")
        faults = proxy.cluster.primary.faults
        for _ in range(6):  # as often as a login tries
            faults.arm(Fault(b"", None, login=True, error=full))
        assert (await client.query("INSERT INTO t VALUES (1)")).error.code == 1040
        faults.clear()
        assert (await client.query("INSERT INTO t VALUES (2)")).ok
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"1"


@pytest.mark.parametrize("before", ["DO 1", "DO CONNECTION_ID()"], ids=["", "which is kept"])
@pytest.mark.parametrize("command", ["change of user", "reset"])
async def test_the_id_is_the_clients_behind_a_new_beginning(command: str, before: str) -> None:
    async with sharing_fixture() as proxy:
        client = await proxy.session()
        await away(proxy, client)
        assert (await client.query(before)).ok
        if command == "reset":
            await client.command(bytes((Command.COM_RESET_CONNECTION,)), SIMPLE)
        else:
            client.send(change_user("other"))
            assert (await finish_change(client, "word"))[0] == 0x00
        assert client.greeting is not None
        client_id = b"%d" % client.greeting.thread_id
        assert (await client.query("SELECT CONNECTION_ID()")).value == client_id


async def test_a_promotion_amid_a_read_is_told_as_its_answer() -> None:
    async with sharing_fixture(without_primary="refuse", replicas=2) as proxy:
        client = await proxy.session()
        await away(proxy, client)
        gates = [
            replica.faults.hold_reply(matching=b"SELECT 77") for replica in proxy.cluster.replicas
        ]
        client.send(query("SELECT 77"))
        await eventually(
            lambda: any("SELECT 77" in statements_of(server) for server in proxy.cluster.replicas)
        )
        promote(proxy.shared, proxy.shared.topology.replicas[1])
        assert ErrPacket.parse(await client.read_packet()).code == 1053
        assert client.sequence_id == 1
        for gate in gates:
            gate.open()


async def test_who_is_away_keeps_a_replica_with_an_open_cursor() -> None:
    async with sharing_fixture(replicas=1) as proxy:
        client = await proxy.session()
        assert (await client.query("CREATE TABLE owners (id INT)")).ok
        assert (await client.query("INSERT INTO owners VALUES (1), (2)")).ok
        await proxy.caught_up()
        await away(proxy, client)
        statement = await prepare(client, "SELECT id FROM owners")
        await execute(client, statement)
        assert (await client.query("SELECT 1")).value == b"1"
        (session,) = proxy.shared.sessions
        (replica,) = session._servers.replicas
        cursors = session._session_context.prepared._cursors
        cursors[statement] = replica  # the mocker has no cursors
        session.give_way(replica.server)
        assert list(session._servers.replicas) == [replica]
        cursors.clear()
        session.give_way(replica.server)
        assert not list(session._servers.replicas)

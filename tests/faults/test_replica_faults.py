"""A replica that breaks, lies or is late: the read runs on the primary, and nobody is stuck."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mysql_mocker.server.listening import Listening
from mysql_mocker.server.server import Server
from protocol.packet import frame
from routing.consistency.decision import TimeoutPolicy
from tests.faults.client import Client, query
from tests.faults.peers import GREETING, OK, Script, err, identity, peer, read_packet, rows, says
from tests.faults.proxy_fixture import (
    ACCOUNTS,
    ProxyFixture,
    before,
    eventually,
    proxy_fixture,
    statements_of,
)


@asynccontextmanager
async def behind(**options: Any) -> AsyncIterator[tuple[ProxyFixture, Client]]:
    """A session whose next read has to wait: its replica is connected and does not apply."""
    async with proxy_fixture(**{"wait_budget": 0.2, **options}) as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await proxy.caught_up()
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        for replica in proxy.cluster.replicas:
            replica.applying = False
        await client.query("INSERT INTO t VALUES (1)")
        yield proxy, client


async def expect_from_primary(proxy: ProxyFixture, client: Client, reason: str) -> None:
    assert (await client.query("SELECT id FROM t")).rows == [[b"1"]]
    assert proxy.statements("primary", reason, "ok") == 1
    assert proxy.count("tidegate_fallbacks_total", reason) == 1


async def expect_on_replica(proxy: ProxyFixture, client: Client) -> None:
    """The session reads from the replica again."""
    for replica in proxy.cluster.replicas:
        replica.applying = True
    await proxy.caught_up()
    (session,) = proxy.shared.sessions
    for server in proxy.shared.topology.replicas:
        server.caught_up()
        server.set_reachable()
    await eventually(lambda: not any(connection.busy for connection in session._servers.replicas))
    count = proxy.statements("replica", "ok")
    assert (await client.query("SELECT id FROM t")).rows == [[b"1"]]
    assert proxy.statements("replica", "ok") == count + 1


# The answer to the WAIT.


async def test_the_wait_runs_out() -> None:
    async with behind() as (proxy, client):
        await expect_from_primary(proxy, client, "wait_timeout")
        await expect_on_replica(proxy, client)


WAITS = {
    "an error": err(1772, "Malformed GTID set specification"),
    "an error behind the definitions": rows()[:-11] + err(1105, "Unknown error", 3),
    "NULL": rows([None, b"1"], columns=2),
    "2": rows([b"2", b"1"], columns=2),
    "00": rows([b"00", b"1"], columns=2),
    "an empty text": rows([b"", b"1"], columns=2),
    "no row": rows(columns=2),
    "two rows, both well": rows([b"0", b"1"], [b"0", b"1"], columns=2),
    "0 alone": rows([b"0"]),
    "0, and no word of the set": rows([b"0", None], columns=2),
    "0, and that the set is not there": rows([b"0", b"0"], columns=2),
    "0, and 1 in other characters": rows([b"0", b"\0001"], columns=2),
    "one value too many": rows([b"0", b"1", b"1"], columns=3),
    "an OK": frame(OK, 1),
}


@pytest.mark.parametrize("case", WAITS)
async def test_a_wait_that_says_anything_but_0_or_1_proves_nothing(case: str) -> None:
    async with behind() as (proxy, client):
        proxy.cluster.replicas[0].faults.raw_reply(WAITS[case], matching=b"WAIT_FOR")
        await expect_from_primary(proxy, client, "replica_refused")
        (server,) = proxy.shared.topology.replicas
        (session,) = proxy.shared.sessions
        assert not session.state.required <= server.applied
        await expect_on_replica(proxy, client)


@pytest.mark.parametrize(
    "broken", [b"", b"\0\0\0\1", b"\x01\0\0", rows([b"0"])[:-3], frame(b"\xfb/etc/passwd", 1)]
)
async def test_a_replica_that_breaks_instead_of_answering_the_wait(broken: bytes) -> None:
    async with behind() as (proxy, client):
        faults = proxy.cluster.replicas[0].faults
        faults.raw_reply(broken, matching=b"WAIT_FOR")
        faults.drop_connection_after(0, matching=b"SELECT id")
        await expect_from_primary(proxy, client, "replica_lost")
        await expect_on_replica(proxy, client)


async def test_a_replica_that_answers_0_and_breaks_before_the_result() -> None:
    async with behind() as (proxy, client):
        replica = proxy.cluster.replicas[0]
        replica.applying = True
        await proxy.caught_up()
        replica.faults.drop_connection_after(0, matching=b"SELECT id")
        await expect_from_primary(proxy, client, "replica_lost")
        assert any("WAIT_FOR" in text for text in statements_of(replica))
        await expect_on_replica(proxy, client)


async def test_a_replica_that_never_answers_the_wait() -> None:
    async with behind(connect_timeout=0.3, wait_budget=0.1) as (proxy, client):
        replica = proxy.cluster.replicas[0]
        replica.faults.delay_reply(30, matching=b"WAIT_FOR")
        await expect_from_primary(proxy, client, "replica_lost")
        (server,) = proxy.shared.topology.replicas
        assert server.down_until > 0
        replica.faults.clear()
        assert (await client.ping()).ok
        await replica.stop()


async def test_an_answered_wait_leaves_no_deadline() -> None:
    async with behind(connect_timeout=0.2, wait_budget=0.2) as (proxy, client):
        await expect_from_primary(proxy, client, "wait_timeout")
        await asyncio.sleep(0.6)
        await expect_on_replica(proxy, client)
        assert proxy.count("tidegate_fallbacks_total") == 1


async def test_on_timeout_error() -> None:
    async with behind(on_timeout=TimeoutPolicy.ERROR) as (proxy, client):
        error = (await client.query("SELECT id FROM t")).error
        assert error.code == 3024
        assert "200 ms" in error.message
        assert (await client.query("INSERT INTO t VALUES (2)")).ok
        assert not any("SELECT id" in text for text in statements_of(proxy.cluster.primary))


async def test_on_timeout_error_with_commands_right_behind() -> None:
    async with behind(on_timeout=TimeoutPolicy.ERROR) as (proxy, client):
        client.send_bytes(frame(query("SELECT id FROM t"), 0) * 2 + frame(b"\x0e", 0))
        assert (await client.answer()).error.code == 3024
        # The replica still drains what came too late; the primary always has the answer.
        assert (await client.answer()).value == b"1"
        assert (await client.answer()).ok
        assert (
            len([text for text in statements_of(proxy.cluster.primary) if "SELECT id" in text]) == 1
        )


async def test_on_timeout_stale() -> None:
    async with behind(on_timeout=TimeoutPolicy.STALE) as (proxy, client):
        assert (await client.query("SELECT id FROM t")).rows == []
        assert proxy.count("tidegate_stale_reads_total") == 1
        assert proxy.statements("replica", "wait_timeout", "none") == 1


# A result that comes too late.


async def test_a_read_is_not_sent_twice_while_a_late_answer_drains() -> None:
    async with behind() as (proxy, client):
        primary, replica = proxy.cluster.primary, proxy.cluster.replicas[0]
        replica.faults.delay_reply(0.5, matching=b"SELECT id")
        await expect_from_primary(proxy, client, "wait_timeout")
        (session,) = proxy.shared.sessions
        (server,) = proxy.shared.topology.replicas
        server.caught_up()
        replica.faults.clear()
        assert any(connection.busy for connection in session._servers.replicas)
        assert (await client.query("SELECT id + 1 FROM t")).value == b"2"
        assert statements_of(primary).count("SELECT id + 1 FROM t") == 1
        assert "SELECT id + 1 FROM t" not in statements_of(replica)
        assert proxy.statements("primary", "replica_behind") == 1
        assert any(connection.busy for connection in session._servers.replicas)
        await expect_on_replica(proxy, client)


async def test_a_late_result_beyond_the_limit_ends_the_replicas_connection() -> None:
    async with behind() as (proxy, client):
        replica = proxy.cluster.replicas[0]
        big = frame(b"\xfd\x00\x00\x10" + bytes(1 << 20), 3) * 3
        replica.faults.raw_reply(rows()[:-11] + big, matching=b"SELECT id")
        await expect_from_primary(proxy, client, "wait_timeout")
        (session,) = proxy.shared.sessions
        await eventually(lambda: not session._servers.replicas)
        await expect_on_replica(proxy, client)


# The result.


@pytest.mark.parametrize("cut", [0, 1, 4])
async def test_a_replica_breaks_before_the_first_byte_of_the_result(cut: int) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        proxy.cluster.replicas[0].faults.drop_connection_after(cut, matching=b"SELECT 7")
        assert (await client.query("SELECT 7")).value == b"7"
        assert proxy.statements("primary", "replica_lost") == 1
        assert (await client.query("SELECT 8")).value == b"8"
        assert proxy.statements("replica", "read") == 2


async def test_a_replica_breaks_within_the_result() -> None:
    async with proxy_fixture() as proxy:
        client, other = await proxy.session(), await proxy.session()
        await client.query("SELECT 1")
        proxy.cluster.replicas[0].faults.drop_connection_after(1000, matching=b"REPEAT")
        client.send(query("SELECT REPEAT('x', 100000)"))
        assert 0 < len(await client.rest()) <= 1000
        assert not any("REPEAT" in text for text in statements_of(proxy.cluster.primary))
        assert proxy.statements("replica", "lost") == 1
        assert (await other.query("SELECT 8")).value == b"8"


BROKEN_RESULTS = {
    "an empty packet": b"\0\0\0\1",
    "a local file": frame(b"\xfb/etc/passwd", 1),
    "definitions that end early": frame(b"\x02", 1) + frame(b"\xfe\0\0\2\0\0\0", 2),
    "an ERR packet without a code": b"\x01\0\0\1\xff",
}


@pytest.mark.parametrize("case", BROKEN_RESULTS)
async def test_a_replica_breaks_the_protocol(case: str) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        proxy.cluster.replicas[0].faults.raw_reply(BROKEN_RESULTS[case], matching=b"SELECT 7")
        assert (await client.query("SELECT 7")).value == b"7"
        assert proxy.statements("primary", "replica_lost") == 1
        assert (await client.query("SELECT 8")).value == b"8"


@pytest.mark.parametrize("extra", [b"\0", b"garbage", err(4031, "idle", 0), OK])
async def test_a_replica_says_more_than_the_answer(extra: bytes) -> None:
    """The answer is good; the connection is not used again, and the client does not wait."""
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        reply = rows([b"7"]) + extra
        proxy.cluster.replicas[0].faults.raw_reply(reply, matching=b"SELECT 7")
        client.send_bytes(frame(query("SELECT 7"), 0) + frame(query("SELECT 8"), 0))
        assert (await client.answer()).value == b"7"
        assert (await client.answer()).value == b"8"
        await eventually(lambda: proxy.cluster.replicas[0].connections == 1)


@pytest.mark.parametrize("code", [1290, 1792, 1836])
async def test_a_replica_may_not_run_it(code: int) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        proxy.cluster.replicas[0].faults.raw_reply(err(code), matching=b"SELECT 7")
        assert (await client.query("SELECT 7")).value == b"7"
        assert proxy.statements("primary", "replica_refused") == 1
        assert (await client.query("SELECT 8 AS eight")).value == b"8"
        assert proxy.statements("replica", "read") == 2


@pytest.mark.parametrize("code", [1053, 3032])
async def test_a_replica_goes_away_with_a_word(code: int) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        proxy.cluster.replicas[0].faults.raw_reply(err(code), matching=b"SELECT 7")
        assert (await client.query("SELECT 7")).value == b"7"
        assert proxy.statements("primary", "replica_lost") == 1
        (session,) = proxy.shared.sessions
        assert not session._servers.replicas


async def test_a_replicas_other_errors_are_the_clients() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        error = (await client.query("SELECT * FROM nowhere")).error
        assert error.code == 1146
        assert proxy.statements("replica", "error") == 1
        assert proxy.statements("primary") == 0


async def test_an_error_that_comes_in_parts() -> None:
    """Whether it counts is known only when all of it is there."""
    gate = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in (GREETING, frame(OK, 2), identity()):
            writer.write(part)
            await read_packet(reader)
        writer.write(frame(OK, 1))
        await read_packet(reader)  # the schema
        writer.write(frame(OK, 1))
        await read_packet(reader)
        refusal = err(1792, "Cannot execute statement in a READ ONLY transaction.")
        for k in range(len(refusal)):
            writer.write(refusal[k : k + 1])
            await writer.drain()
            await asyncio.sleep(0.002)
        await gate.wait()

    async with (
        proxy_fixture(replicas=0) as real,
        peer(script) as replica,
    ):
        async with before(real.cluster.primary.address, [replica.address]) as proxy:
            client = await proxy.session()
            assert (await client.query("SELECT 7")).value == b"7"
            assert proxy.statements("primary", "replica_refused") == 1
        gate.set()


# An idle replica.


async def test_an_idle_replica_leaves_and_nobody_notices() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        replica = proxy.cluster.replicas[0]
        await replica.restart()
        assert (await client.query("SELECT 2")).value == b"2"
        await eventually(lambda: proxy.shared.topology.replicas[0].down_until == 0)
        assert (await client.query("SELECT 3")).value == b"3"
        assert proxy.statements("replica", "ok") >= 2


async def test_a_replica_that_lost_its_gtids_is_not_believed() -> None:
    """What an earlier incarnation had applied proves nothing about this one."""
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await client.query("INSERT INTO t VALUES (1)")
        await proxy.caught_up()
        assert (await client.query("SELECT id FROM t")).value == b"1"
        (server,) = proxy.shared.topology.replicas
        old_applied, old_epoch = server.applied, server.epoch
        assert old_applied
        await proxy.cluster.replicas[0].stop()
        gone = proxy.cluster.replicas[0].port
        # Another server takes the address: empty, and not replicating.
        empty = Server(ACCOUNTS, 9, listening=Listening(port=gone))
        empty.create_schema("test")
        await empty.start()
        try:
            for _ in range(2):
                assert (await client.query("SELECT id FROM t")).value == b"1"
            assert server.epoch > old_epoch
            assert not old_applied <= server.applied
        finally:
            await empty.close()


# A replica that cannot be reached, or does not let in.


async def test_a_silent_replica_is_not_tried_by_every_session() -> None:
    async with (
        proxy_fixture(replicas=0) as real,
        peer(says(b"", then_waits=True)) as silent,
        before(real.cluster.primary.address, [silent.address], connect_timeout=0.3) as proxy,
    ):
        for k in range(20):
            client = await proxy.session()
            for _ in range(3):
                assert (await client.query(f"SELECT {k}")).value == b"%d" % k
        assert proxy.statements("primary", "ok") == 60
        assert silent.accepted < 10
        assert proxy.statements("primary", "no_replica") > 40


async def test_a_replica_that_refuses_a_user_serves_the_others() -> None:
    async with proxy_fixture() as proxy:
        del proxy.cluster.replicas[0].accounts["other"]
        refused = await proxy.session(user="other", password="word")
        for _ in range(3):
            assert (await refused.query("SELECT 1")).value == b"1"
        assert proxy.count("tidegate_fallbacks_total", "replica_refused") == 1
        assert proxy.count("tidegate_server_connect_failures_total", "refused") == 1
        client = await proxy.session()
        assert (await client.query("SELECT 2")).value == b"2"
        assert proxy.statements("replica", "ok") == 1


async def test_the_next_replica_is_taken_where_one_fails() -> None:
    async with proxy_fixture(replicas=3) as proxy:
        await proxy.cluster.replicas[0].stop()
        await proxy.cluster.replicas[1].stop()
        for _ in range(4):
            client = await proxy.session()
            assert (await client.query("SELECT 1")).value == b"1"
        assert proxy.statements("replica", "ok") == 4


async def test_a_primary_without_replicas() -> None:
    async with proxy_fixture(replicas=0) as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert proxy.statements("primary", "no_replica", "ok") == 1


# What a replica must be told beforehand.


async def test_a_replica_that_does_not_take_a_variable() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        await client.query("SET time_zone = '+05:00'")
        replica = proxy.cluster.replicas[0]
        replica.faults.raw_reply(err(1298, "Unknown time zone"), matching=b"@@SESSION.time_zone")
        assert (await client.query("SELECT @@time_zone")).value == b"+05:00"
        assert (await client.query("SELECT 2")).value == b"2"
        assert proxy.statements("primary", "replica_refused") == 1
        opened = proxy.count("tidegate_server_connections_opened_total")
        assert (await client.query("SELECT 3")).value == b"3"
        assert proxy.statements("primary", "replica_refused") == 2
        assert proxy.count("tidegate_server_connections_opened_total") == opened
        assert proxy.count("tidegate_fallbacks_total", "replica_refused") == 1
        shown = await client.query("SHOW TIDEGATE SESSION")
        (refused,) = [row[1] for row in shown.rows if row[0] == b"refused_by"]
        assert refused is not None
        assert b"Unknown time zone" in refused
        await client.query("SET time_zone = '+06:00'")
        assert (await client.query("SELECT 4")).value == b"4"
        assert proxy.statements("replica", "ok") == 2


async def test_a_schema_that_a_late_replica_has_not_yet() -> None:
    """When the wait ran out, nobody waits for the replica; still it did not choose the schema."""
    async with behind() as (proxy, client):
        replica = proxy.cluster.replicas[0]
        await client.query("CREATE TABLE second.t (id INT)")
        await client.query("CREATE DATABASE third")
        await client.query("CREATE TABLE third.t (id INT)")
        await client.query("INSERT INTO third.t VALUES (3)")
        await client.query("USE third")
        assert (await client.query("SELECT id FROM t")).rows == [[b"3"]]
        assert proxy.count("tidegate_fallbacks_total", "wait_timeout") == 1
        await eventually(lambda: "SELECT id FROM t" in statements_of(replica))
        replica.applying = True
        await proxy.caught_up()
        (server,) = proxy.shared.topology.replicas
        server.caught_up()
        await asyncio.sleep(0.05)
        assert (await client.query("SELECT id FROM t")).rows == [[b"3"]]
        assert proxy.statements("replica", "read") == 2


async def test_a_replica_is_as_reset_as_the_session() -> None:
    """Also one that is connected to after the reset: it is told what the session begins with."""
    async with proxy_fixture(replicas=1) as proxy:
        client = await proxy.session()
        await client.query("SET time_zone = '+05:00'")
        assert (await client.command(b"\x1f")).ok
        replica = proxy.cluster.replicas[0]
        replica.set_variable("time_zone", "+09:00")
        assert (await client.query("SELECT 1")).value == b"1"
        texts = [text for _, text in replica.statements if "time_zone=" in text]
        assert texts == ["SET @@SESSION.time_zone=_latin1'SYSTEM'"]


async def test_show_warnings_follows_the_read() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query("SELECT * FROM nowhere")).error.code == 1146
        assert (await client.query("SHOW WARNINGS")).rows[0][1] == b"1146"
        assert proxy.statements("replica", "diagnostic") == 1
        await proxy.cluster.replicas[0].restart()
        await asyncio.sleep(0.05)
        # The primary is made to look as if it had run the statement.
        assert (await client.query("SHOW WARNINGS")).rows[0][1] == b"1146"
        assert proxy.statements("primary", "diagnostic") == 1


async def test_show_warnings_follows_the_read_past_commands_without_a_statement() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE DATABASE app")
        assert (await client.query("SELECT * FROM nowhere")).error.code == 1146
        for command in (b"\x0e", b"\x02app"):  # COM_PING, COM_INIT_DB
            assert (await client.command(command)).ok
            assert (await client.query("SHOW WARNINGS")).rows[0][1] == b"1146"
        # COM_INIT_DB may add an error of its own, so the primary was given the read's before.
        assert proxy.statements("replica", "diagnostic") == 1
        assert (await client.command(b"\x02nowhere")).error.code == 1049
        await client.query("SHOW WARNINGS")
        assert proxy.statements("primary", "diagnostic") == 2


# The replica breaks in the middle of its login, when a client waits for its read.


def breaks_after(packets: int) -> Script:
    """Logs in, answers so many packets, and resets the connection."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = [GREETING, frame(OK, 2), identity(), frame(OK, 1)][:packets]
        for part in parts:
            writer.write(part)
            await read_packet(reader)
        writer.transport.abort()

    return script


@pytest.mark.parametrize("packets", range(5))
async def test_a_replica_resets_the_connection(packets: int) -> None:
    async with (
        proxy_fixture(replicas=0) as real,
        peer(breaks_after(packets)) as replica,
    ):
        async with before(real.cluster.primary.address, [replica.address]) as proxy:
            client = await proxy.session()
            assert (await client.query("SELECT 7")).value == b"7"
            assert proxy.statements("primary", "ok") == 1
        await eventually(lambda: replica.connected == 0)


async def test_a_kill_reaches_the_replica_that_runs_the_read() -> None:
    async with behind(wait_budget=30) as (proxy, client):
        replica = proxy.cluster.replicas[0]
        client.send(query("SELECT id FROM t"))
        await eventually(lambda: any("WAIT_FOR" in text for text in statements_of(replica)))
        (session,) = proxy.shared.sessions
        assert session._servers.active_replica is not None
        killer = await proxy.session()
        assert (await killer.query(f"KILL QUERY {session.connection_id}")).ok
        # As by a server: the statement is ended, although it was the WAIT that the KILL met.
        assert (await client.answer()).error.code == 1317
        # The server has gone on with the statement behind the WAIT, which is ended, too.
        await eventually(lambda: any("KILL CONNECTION" in text for text in statements_of(replica)))
        assert (await client.ping()).ok


async def test_a_wait_that_somebody_kills_on_the_replica_proves_nothing() -> None:
    """Nobody has ended the statement, so it runs on the primary."""
    async with behind(wait_budget=30) as (proxy, client):
        replica = proxy.cluster.replicas[0]
        interrupted = err(1317, "Query execution was interrupted")
        replica.faults.raw_reply(interrupted, matching=b"WAIT_FOR")
        assert (await client.query("SELECT id FROM t")).rows == [[b"1"]]
        assert proxy.statements("primary", "replica_refused", "ok") == 1

"""A primary that breaks, lies or goes away: the session ends with a reason, others go on."""

import asyncio
import socket
from typing import Any

import pytest

from protocol.constants import Capability
from protocol.gtid import GtidSet
from protocol.packet import frame
from protocol.response import ErrPacket, OkPacket
from protocol.response_stream import PREPARED
from protocol.session_track import entry, gtids_entry, state_change_entry
from proxy.server.gtid_question import PROBE_SQL
from tests.faults.client import MODERN, Client, query
from tests.faults.peers import GREETING, OK, Script, err, identity, peer, read_packet, rows
from tests.faults.proxy_fixture import before, eventually, proxy_fixture, statements_of
from tests.faults.table_fixture import COUNT, count, table_fixture

UUID = "11111111-1111-1111-1111-111111111111"


def ok_with(session_state: bytes) -> bytes:
    """An OK packet with these trackers, framed."""
    packet = OkPacket(status=0x4002, session_state=session_state)
    return frame(packet.serialise(Capability.CLIENT_SESSION_TRACK), 1)


async def expect_lost(client: Client) -> None:
    """As where a server dies: its client's own library says that the connection is lost."""
    assert await client.rest() == b""


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has it")
async def test_the_primary_may_take_a_local_file_as_slowly_as_it_likes() -> None:
    """It may wait for a lock; TCP would take that for a server that has vanished."""
    async with proxy_fixture() as proxy:
        client = await proxy.session(capabilities=MODERN | Capability.CLIENT_LOCAL_FILES)
        (session,) = proxy.shared.sessions
        assert session._servers.primary is not None
        transport: Any = session._servers.primary._transport
        end = transport.get_extra_info("socket")
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 0
        proxy.cluster.primary.faults.raw_reply(frame(b"\xfbfile", 1), matching=b"LOAD")
        client.send(query("LOAD DATA LOCAL INFILE 'file' INTO TABLE t"))
        assert await client.read_packet() == b"\xfbfile"
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0


@pytest.mark.parametrize("bytes_sent", [0, 1, 4, 5])
@pytest.mark.parametrize("statement", ["INSERT INTO t VALUES (1)", "SELECT * FROM t FOR UPDATE"])
async def test_the_primary_breaks_before_anything_can_be_passed_on(
    bytes_sent: int, statement: str
) -> None:
    async with proxy_fixture() as proxy:
        primary = proxy.cluster.primary
        client, other = await proxy.session(), await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        primary.faults.drop_connection_after(bytes_sent, matching=statement.encode())
        client.send(query(statement))
        if bytes_sent == 5 and statement.startswith("SELECT"):
            await client.rest()  # the count of columns had been passed on
        else:
            await expect_lost(client)
        assert statements_of(primary).count(statement) == 1
        assert (await other.query("SELECT 1")).value == b"1"
        assert proxy.statements("primary", "lost") == 1
        await eventually(lambda: len(proxy.shared.sessions) == 1)


@pytest.mark.parametrize("bytes_sent", [30, 60, 200_000])
async def test_the_primary_breaks_within_a_result(bytes_sent: int) -> None:
    """What was passed on cannot be taken back: the end of the connection is all that is left."""
    async with proxy_fixture(replicas=0) as proxy:
        client = await proxy.session()
        proxy.cluster.primary.faults.drop_connection_after(bytes_sent, matching=b"REPEAT")
        client.send(query("SELECT REPEAT('x', 1000000)"))
        received = await client.rest()
        assert 0 < len(received) <= bytes_sent
        assert b"Lost connection" not in received
        assert len(statements_of(proxy.cluster.primary)) == 1
        assert proxy.statements("primary", "lost") == 1


class Unread(asyncio.Transport):
    """A client's connection that does not end, since the client has not read all of it yet."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._real.write(data)

    def get_write_buffer_size(self) -> int:
        return 1

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self._real.abort()


async def test_what_a_replica_answers_after_the_primary_was_lost_is_not_counted() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        (session,) = proxy.shared.sessions
        replica = proxy.cluster.replicas[0]
        gate = replica.faults.hold_reply(matching=COUNT.encode())
        client.send(query(COUNT))
        await eventually(lambda: gate.held)
        (connection,) = session._servers.replicas
        session._client._transport = Unread(session._client._transport)
        session._servers.primary.give_up("test")
        await eventually(lambda: session._client.closed)
        assert proxy.statements("replica", "lost") == 1
        gate.open()
        await eventually(lambda: connection.is_free)
        assert proxy.statements("replica", "ok") == 1  # the first one
        session._client._transport.abort()


async def test_a_replica_that_is_connected_to_after_the_primary_was_lost_serves_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        (session,) = proxy.shared.sessions
        gate = proxy.cluster.replicas[0].faults.hold_reply(matching=b"gtid_owned")
        client.send(query(COUNT))
        await eventually(lambda: gate.held)
        session._client._transport = Unread(session._client._transport)
        session._servers.primary.give_up("test")
        await eventually(lambda: session._client.closed)
        gate.open()
        await eventually(lambda: session._task is None)
        session._client._transport.abort()
        await eventually(lambda: not proxy.shared.sessions)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


BROKEN_ANSWERS = {
    "an empty packet": b"\0\0\0\1",
    "an ERR packet without a code": b"\x01\0\0\1\xff",
    "an OK packet that is cut": frame(b"\x00\x01", 1),
    "an OK packet with a length beyond its end": frame(b"\x00\xfe\xff", 1),
    "no such count of columns": frame(b"\xfc\xff", 1),
    "an EOF packet instead of definitions": frame(b"\x01", 1) + frame(b"\xfe\0\0\2\0\0\0", 2),
    "trackers with a length beyond their end": ok_with(b"\x03\x7f\x00"),
    "a tracker that holds no GTIDs": ok_with(entry(3, b"\x00\x05no-id")),
    "a state change that is neither": ok_with(entry(2, b"7")),
}


@pytest.mark.parametrize("case", BROKEN_ANSWERS)
async def test_the_primary_answers_what_is_no_answer(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxy_fixture() as proxy:
        client, other = await proxy.session(), await proxy.session()
        proxy.cluster.primary.faults.raw_reply(BROKEN_ANSWERS[case], matching=b"UPDATE")
        client.send(query("UPDATE t SET id = 2"))
        await client.rest()
        assert "a client lost its connection: it broke the protocol" in caplog.text
        assert (await other.query("SELECT 1")).value == b"1"
        await eventually(lambda: proxy.cluster.primary.connections == 1)


async def test_the_primary_breaks_the_protocol_within_a_result() -> None:
    async with proxy_fixture(replicas=0) as proxy:
        client = await proxy.session()
        row = frame(b"\xfd\xf0\xff\x00" + bytes(0xFFF0), 9)
        broken = rows()[:-11] + row * 100 + b"\0\0\0\4"
        proxy.cluster.primary.faults.raw_reply(broken, matching=b"SELECT")
        client.send(query("SELECT 1"))
        received = await client.rest()
        assert 0 < len(received) < len(broken)
        assert b"Lost connection" not in received
        await eventually(lambda: proxy.cluster.primary.connections == 0)


async def test_an_unknown_tracker_costs_nothing() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        state = entry(99, b"whatever") + gtids_entry(GtidSet.parse(f"{UUID}:1-3"))
        proxy.cluster.primary.faults.raw_reply(ok_with(state), matching=b"UPDATE")
        answer = await client.query("UPDATE t SET id = 2")
        # The client asked for no tracker, and sees none.
        assert answer.packets == [OK]
        (session,) = proxy.shared.sessions
        assert session.state.required == GtidSet.parse(f"{UUID}:1-3")


async def test_gtids_that_cannot_be_read_are_asked_for() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await client.query("SELECT 1")
        proxy.cluster.primary.faults.raw_reply(ok_with(entry(3, b"\x07\x01x")), matching=b"UPDATE")
        await client.query("UPDATE t SET id = 2")
        assert proxy.count("tidegate_unknown_gtid_encodings_total") == 1
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert proxy.statements("primary", "unknown_required") == 1
        assert PROBE_SQL.decode() in statements_of(proxy.cluster.primary)
        await proxy.caught_up()
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert proxy.statements("replica", "read") == 2


PROBES = {
    "an error": err(1105),
    "NULL": rows([None, None, None], columns=3),
    "no row": rows(columns=3),
    "no GTID set": rows([b"", b"11111111-1111-1111-1111-111111111111:5-3", b"ON"], columns=3),
    "nothing owned": rows([b"11111111-1111-1111-1111-111111111111:5", b"", b"ON"], columns=3),
    "an OK": frame(OK, 1),
}


@pytest.mark.parametrize("case", PROBES)
async def test_a_probe_that_fails_leaves_the_required_set_unknown(case: str) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        assert (await client.query("CREATE TABLE t (id INT)")).error.code == 1050
        proxy.cluster.primary.faults.raw_reply(PROBES[case], matching=PROBE_SQL)
        for _ in range(2):
            assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert proxy.statements("primary", "unknown_required") == 2
        await proxy.caught_up()
        await client.query("SELECT COUNT(*) FROM t")
        assert proxy.statements("replica", "read") == 1


async def test_a_probe_does_not_hide_the_warnings_of_what_failed() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        assert (await client.query("CREATE TABLE t (id INT)")).error.code == 1050
        (warning,) = (await client.query("SHOW WARNINGS")).rows
        assert warning[1] == b"1050"


# The settings that consistency needs.


@pytest.mark.parametrize("statement", ["reset", "SET session_track_gtids = OFF"])
async def test_the_primary_does_not_take_its_settings_again(statement: str) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        refusal = err(1105, "not today")
        proxy.cluster.primary.faults.raw_reply(
            refusal, matching=b"SET SESSION session_track_schema"
        )
        client.send(b"\x1f" if statement == "reset" else query(statement))
        assert (await client.answer()).ok
        client.send(query("INSERT INTO t VALUES (1)"))
        error = await client.last_error()
        assert error.code == 1053
        assert "not today" in error.message
        await eventually(lambda: proxy.cluster.primary.connections == 0)


@pytest.mark.parametrize("cut", [0, 3])
async def test_the_primary_breaks_while_it_takes_its_settings_again(cut: int) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        proxy.cluster.primary.faults.drop_connection_after(
            cut, matching=b"SET SESSION session_track_schema"
        )
        client.send_bytes(frame(b"\x1f", 0) + frame(query("INSERT INTO t VALUES (1)"), 0))
        assert (await client.answer()).ok
        await client.rest()
        assert not any("INSERT" in text for text in statements_of(proxy.cluster.primary))


# An idle primary.


def answers_nothing_more(last: bytes, gate: asyncio.Event) -> Script:
    """Logs in; sends `last` when the gate opens, and closes."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in (GREETING, frame(OK, 2), identity()):
            writer.write(part)
            await read_packet(reader)
        writer.write(frame(OK, 1))
        await gate.wait()
        writer.write(last)

    return script


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (err(4031, "The client was disconnected by the server because of inactivity.", 0), 4031),
        (err(1053, "Server shutdown in progress", 0), 1053),
        (b"", None),
        (b"\x07\0\0\0garbage", None),
        (b"half", None),
        (b"\xff\xff\xff\xff", None),
    ],
)
async def test_an_idle_primary_leaves(last: bytes, code: int | None) -> None:
    gate = asyncio.Event()
    async with (
        peer(answers_nothing_more(last, gate)) as server,
        before(server.address) as proxy,
    ):
        client = await proxy.session()
        gate.set()
        if code is None:
            assert await client.rest() == b""
        else:
            error = await client.last_error()
            assert error.code == code
            assert client.sequence_id == 0
        await eventually(lambda: not proxy.shared.sessions and server.connected == 0)


WITHOUT_PRIMARY = pytest.mark.parametrize("without_primary", ["read", "refuse"])


@WITHOUT_PRIMARY
async def test_an_idle_primarys_last_word_does_not_cut_into_a_replicas_answer(
    without_primary: str,
) -> None:
    async with proxy_fixture(without_primary=without_primary) as proxy:
        primary, replica = proxy.cluster.primary, proxy.cluster.replicas[0]
        client = await proxy.session()
        await client.query("SELECT 1")
        replica.faults.delay_reply(0.2, matching=b"SELECT 2")
        client.send(query("SELECT 2"))
        await eventually(lambda: "SELECT 2" in statements_of(replica))
        await primary.stop()
        if without_primary == "read":
            assert (await client.answer()).value == b"2"
            assert (await client.query("SELECT 3")).value == b"3"
            return
        await expect_lost(client)
        assert proxy.statements("lost") == 1
        await eventually(lambda: replica.connections == 0)


@WITHOUT_PRIMARY
async def test_the_primary_leaves_while_a_replica_is_connected_to(without_primary: str) -> None:
    async with proxy_fixture(without_primary=without_primary) as proxy:
        replica = proxy.cluster.replicas[0]
        replica.faults.delay_reply(0.3, matching=b"transaction_read_only")
        client = await proxy.session()
        client.send(query("SELECT 1"))
        await eventually(lambda: replica.connections == 1)
        await proxy.cluster.primary.stop()
        if without_primary == "read":
            assert (await client.answer()).value == b"1"
        else:
            await expect_lost(client)


async def test_the_primary_leaves_while_a_client_uploads() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        client.send_bytes(frame(query(b"SELECT '" + b"x" * (3 << 20)), 0)[: 2 << 20])
        await asyncio.sleep(0.1)
        await proxy.cluster.primary.stop()
        await expect_lost(client)


async def test_the_primary_refuses_a_long_statement_before_it_was_sent() -> None:
    """The answer comes while the client still sends: it is passed on, and nothing hangs."""
    async with proxy_fixture(replicas=0) as proxy:
        client = await proxy.session()
        text = query(b"SELECT LENGTH('" + b"x" * (5 << 20) + b"')")
        primary = next(iter(proxy.shared.sessions))._servers.primary
        assert primary is not None
        client.send_bytes(frame(text, 0)[: 2 << 20])
        # Nothing of the proxy's own is before it.
        await eventually(lambda: primary._current is not None and primary._current.forwarded)
        primary.data_received(err(1153, "Got a packet bigger than 'max_allowed_packet' bytes"))
        error = await client.read_error()
        assert error.code == 1153
        primary.connection_lost(None)
        assert await client.rest() == b""


async def test_the_primary_restarts_and_all_live_on() -> None:
    async with proxy_fixture() as proxy:
        primary = proxy.cluster.primary
        idle, client = await proxy.session(), await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await client.query("INSERT INTO t VALUES (1)")
        await primary.stop()
        late = await proxy.session()
        for session in (idle, client, late):
            assert (await session.query("SELECT 7")).value == b"7"
            assert (await session.query("INSERT INTO t VALUES (2)")).error.code == 1290
            assert (await session.ping()).ok
        assert (await client.query("SELECT id FROM t")).value == b"1"
        await primary.start()
        server = proxy.shared.topology.primary
        await eventually(lambda: not server.is_gone(proxy.shared.now()))
        for session in (idle, client, late):
            assert (await session.query("INSERT INTO t VALUES (3)")).ok
        assert (await late.query("SELECT COUNT(*) FROM t")).value == b"4"
        assert proxy.count("tidegate_clients_without_primary") == 0


async def test_the_primary_restarts() -> None:
    async with proxy_fixture(without_primary="refuse") as proxy:
        primary = proxy.cluster.primary
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await primary.stop()
        assert await client.rest() == b""
        late = await proxy.connect()
        assert ErrPacket.parse(await late.log_in()).code == 2003
        await primary.start()
        again = await proxy.session()
        await again.query("INSERT INTO t VALUES (1)")
        assert (await again.query("SELECT id FROM t")).value == b"1"


async def test_a_write_is_never_sent_twice() -> None:
    async with proxy_fixture() as proxy:
        primary = proxy.cluster.primary
        first = await proxy.session()
        await first.query("CREATE TABLE t (id INT)")
        for cut in (0, 2, 6):
            client = await proxy.session()
            primary.faults.drop_connection_after(cut, matching=b"INSERT")
            client.send(query("INSERT INTO t VALUES (1)"))
            await client.rest()
        assert (await first.query("SELECT COUNT(*) FROM t FOR UPDATE")).value == b"3"
        assert len([text for text in statements_of(primary) if "INSERT" in text]) == 3
        assert proxy.count("tidegate_required_unknown_total", "lost") == 3


async def test_the_server_reads_slower_than_the_client_sends() -> None:
    """The client is made to wait, and no more is kept than the buffers hold."""
    gate = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in (GREETING, frame(OK, 2), identity()):
            writer.write(part)
            await read_packet(reader)
        writer.write(frame(OK, 1))
        await read_packet(reader)
        writer.write(frame(b"\0\1\0\0\0" + bytes(7), 1))
        await gate.wait()
        while await reader.read(1 << 20):
            pass

    async with peer(slow) as server, before(server.address) as proxy:
        client = await proxy.session()
        prepared = await client.command(b"\x16INSERT INTO t VALUES ('')", PREPARED)
        assert prepared.packets[0][0] == 0
        data = frame(b"\x18\x01\0\0\0\0\0" + bytes(100_000), 0)
        for _ in range(400):
            client.send_bytes(data)
        (session,) = proxy.shared.sessions
        sent = -1
        transport = client.writer.transport
        while sent != transport.get_write_buffer_size():
            sent = transport.get_write_buffer_size()
            await asyncio.sleep(0.3)
        assert sent > 10 << 20  # most of 40 MB stayed with the client
        assert session._servers.primary is not None
        assert session._servers.primary._transport is not None
        assert session._servers.primary._transport.get_write_buffer_size() < 4 << 20
        assert len(session._client._buffer) < 4 << 20
        gate.set()
        await eventually(lambda: transport.get_write_buffer_size() == 0)
        client.abort()
        await eventually(lambda: server.connected == 0)


# What a command did before it failed.


def gtid_executed(state: bytes) -> bytes:
    """The answer to a probe, with trackers."""
    result = rows([b"", f"{UUID}:1-9".encode(), b"ON"], columns=3)
    end = OkPacket(status=0x4002, session_state=state, header=0xFE)
    return result[:-11] + frame(end.serialise(Capability.CLIENT_SESSION_TRACK), 5)


async def test_what_a_failed_program_changed_comes_with_the_probe() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        primary = proxy.cluster.primary
        primary.faults.raw_reply(err(1644, "a signal"), matching=b"CALL p()")
        probe = gtid_executed(state_change_entry(True))
        primary.faults.raw_reply(probe, matching=PROBE_SQL)
        assert (await client.query("CALL p()")).error.code == 1644
        for _ in range(3):
            assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert proxy.statements("primary", "read") == 0
        assert proxy.statements("replica") == 0
        (session,) = proxy.shared.sessions
        assert session.state.pins.reasons


@pytest.mark.parametrize(
    "turn_off",
    [
        "SET session_track_gtids = OFF; SELECT * FROM nowhere",
        "SET session_track_gtids = OFF; BEGIN; SELECT * FROM nowhere",
    ],
)
async def test_tracking_that_was_turned_off_before_the_error_is_on_again(turn_off: str) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        assert (await client.query(turn_off)).error.code == 1146
        await client.query("INSERT INTO t VALUES (1)")
        await client.query("COMMIT")
        await client.query("INSERT INTO t VALUES (2)")
        (session,) = proxy.shared.sessions
        assert session.state.pins.reasons
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"2"
        assert proxy.cluster.primary.gtids.executed <= session.state.required
        assert (await client.command(b"\x1f")).ok
        await client.query("INSERT INTO t VALUES (3)")
        assert proxy.cluster.primary.gtids.executed <= session.state.required
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"3"
        assert proxy.statements("replica", "ok") == 1


async def test_readers_alone_find_the_primary_again_without_a_monitor() -> None:
    async with proxy_fixture(without_primary="read", monitor_user=None) as proxy:
        primary = proxy.cluster.primary
        client = await proxy.session()
        await client.query("SELECT 1")
        await primary.stop()
        await eventually(lambda: proxy.count("tidegate_clients_without_primary") == 1)
        assert (await client.query("SELECT 2")).value == b"2"
        await primary.start()
        # Nobody writes, and nobody logs in.
        await eventually(lambda: proxy.shared.sessions.without_primary == 0)
        assert not proxy.shared.topology.primary.is_gone(proxy.shared.now())
        assert (await client.query("SELECT 3")).value == b"3"

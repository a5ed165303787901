"""Clients in the command phase that break the protocol, crowd it, do not read, or leave."""

import asyncio

import pytest

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.response_stream import PREPARED, SIMPLE
from proxy.client import connection as client_connection
from routing.consistency.decision import Scope
from routing.session.diagnostics_area import CLEARING_SQL
from tests.faults.client import BASE, MODERN, change_user, finish_change, query
from tests.faults.peers import GREETING, OK, identity, peer, read_packet, rows
from tests.faults.proxy_fixture import (
    ProxyFixture,
    before,
    eventually,
    proxy_fixture,
    statements_of,
)

# What a server refuses, too.


@pytest.mark.parametrize("command", [0x00, 0x05, 0x06, 0x07, 0x08, 0x0A, 0x0C, 0x1D, 0xFF])
async def test_unknown_commands(command: int) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        error = (await client.command(bytes((command,)) + b"whatever")).error
        assert (error.code, error.sqlstate, error.message) == (1047, "08S01", "Unknown command")
        assert (await client.ping()).ok
        # In front, so that its error is the only one.
        assert statements_of(proxy.cluster.primary) == [CLEARING_SQL.decode()]


async def test_an_empty_packet_is_an_unknown_command() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        client.send_bytes(frame(b"", 0) + frame(b"\x0e", 0))
        assert (await client.answer()).error.code == 1047
        assert (await client.answer()).ok


@pytest.mark.parametrize(
    "command",
    [
        Command.COM_BINLOG_DUMP,
        Command.COM_BINLOG_DUMP_GTID,
        Command.COM_REGISTER_SLAVE,
        Command.COM_CLONE,
        Command.COM_SUBSCRIBE_GROUP_REPLICATION_STREAM,
    ],
)
async def test_commands_for_one_server_are_refused(command: Command) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        error = (await client.command(bytes((command,)) + bytes(20))).error
        assert (error.code, error.sqlstate) == (1235, "42000")
        assert command.name in error.message
        assert error.message.endswith(f"(the primary is {proxy.cluster.primary.address})")
        assert (await client.ping()).ok


BROKEN_COMMANDS = {
    "out of order": (frame(b"\x0e", 1), 1156, "08S01"),
    "out of order, in part": (b"\x05\x00\x00\x09", 1156, "08S01"),
    "more than the limit": (frame(b"\x03" + bytes(0x200000), 0), 1153, "08S01"),
    "a long command that cannot be long": (frame(b"\x0e" + bytes(1 << 20), 0), 1153, "08S01"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN_COMMANDS)
@pytest.mark.parametrize("behind", [b"", frame(b"\x0e", 0)], ids=["first", "behind a ping"])
async def test_a_broken_command_ends_the_connection_and_says_why(case: str, behind: bytes) -> None:
    data, code, sqlstate = BROKEN_COMMANDS[case]
    async with proxy_fixture(max_allowed_packet=0x200000) as proxy:
        other = await proxy.session()
        client = await proxy.session()
        client.send_bytes(behind + data)
        if behind:
            assert (await client.answer()).ok
        error = await client.last_error()
        assert (error.code, error.sqlstate) == (code, sqlstate)
        assert client.sequence_id == 1
        await eventually(lambda: len(proxy.shared.sessions) == 1)
        assert (await other.ping()).ok
        too_long = code == 1153
        assert proxy.count("tidegate_clients_ended_total", "max_allowed_packet") == too_long
        assert proxy.count("tidegate_errors_total", "proxy", "1153") == too_long


async def test_a_packet_above_the_limit_and_below_what_is_passed_on_in_parts() -> None:
    async with proxy_fixture(max_allowed_packet=4096) as proxy:
        client = await proxy.session()
        text = b"SELECT '" + b"x" * 4086 + b"'"
        assert (await client.query(text)).value == b"x" * 4086
        client.send(query(text + b" "))
        error = await client.last_error()
        assert error.code == 1153
        assert "4096" in error.message
        assert not statements_of(proxy.cluster.primary)


async def test_a_packet_of_many_frames_above_the_limit() -> None:
    """The primary must not run what the client could not say to its end."""
    async with proxy_fixture(kept_connections=0, max_allowed_packet=17 << 20) as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        client.send_bytes(b"\xff\xff\xff\x00" + b"\x03INSERT INTO t VALUES (1) -- ")
        client.send_bytes(b"x" * (0xFFFFFF - 29))
        client.send_bytes(b"\x00\x00\x20\x01" + bytes(2 << 20))
        error = await client.last_error()
        assert error.code == 1153
        assert client.sequence_id == 2
        await eventually(lambda: proxy.cluster.primary.connections == 0)
        assert (await (await proxy.session()).query("SELECT COUNT(*) FROM t")).value == b"0"


async def test_malformed_query_attributes() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session(capabilities=MODERN | Capability.CLIENT_QUERY_ATTRIBUTES)
        for body in (b"", b"\x01", b"\xff\x01", b"\x05\x01", b"\xfe" + b"\xff" * 8 + b"\x01"):
            error = (await client.command(b"\x03" + body)).error
            assert (error.code, error.sqlstate) == (1835, "HY000")
        assert (await client.command(b"\x03\x00\x01SELECT 1")).value == b"1"


async def test_statements_that_are_no_text() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        for body in (b"", b"\0", b"\xff\xfe\xfd", b"'", b"/*", b"\x80" * 100, b";" * 100):
            assert (await client.command(b"\x03" + body)).error.code
        assert (await client.query("SELECT 1")).value == b"1"


# Bytes in any portions.


async def test_commands_in_single_bytes() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        for command in (frame(query("INSERT INTO t VALUES (7)"), 0), frame(b"\x0e", 0)):
            for k in range(len(command)):
                client.send_bytes(command[k : k + 1])
                await asyncio.sleep(0)
            assert (await client.answer()).ok
        assert (await client.query("SELECT id FROM t")).rows == [[b"7"]]


async def test_thousands_of_commands_in_one_segment() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        close = frame(b"\x19\x01\x00\x00\x00", 0)
        commands = []
        for k in range(200):
            commands.append(close * 3 + frame(b"\x0e", 0) + frame(query(f"SELECT {k}"), 0))
        client.send_bytes(b"".join(commands))
        for k in range(200):
            assert (await client.answer()).ok
            assert (await client.answer()).value == b"%d" % k
        client.send_bytes(close * 3_000)
        assert (await client.ping()).ok


async def test_refusals_are_answered_in_order_with_the_rest() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        client.send_bytes((frame(b"\x05", 0) + frame(b"\x0e", 0) + frame(b"\x12", 0)) * 200)
        for _ in range(200):
            assert (await client.answer()).error.code == 1047
            assert (await client.answer()).ok
            assert (await client.answer()).error.code == 1235


async def test_a_command_behind_one_that_waits_for_the_replica() -> None:
    async with proxy_fixture(wait_budget=20) as proxy:
        client = await proxy.session()
        replica = proxy.cluster.replicas[0]
        await client.query("CREATE TABLE t (id INT)")
        await client.query("SELECT 1")
        replica.applying = False
        await client.query("INSERT INTO t VALUES (1)")
        client.send_bytes(frame(query("SELECT id FROM t"), 0) * 3 + frame(b"\x0e", 0))
        await eventually(lambda: any("WAIT_FOR" in text for _, text in replica.statements))
        replica.applying = True
        for _ in range(3):
            assert (await client.answer()).value == b"1"
        assert (await client.answer()).ok


@pytest.mark.parametrize("extra", range(6))
async def test_a_buffer_that_is_as_long_as_it_gets(extra: int) -> None:
    """A packet of exactly STREAM_ABOVE bytes behind a command, cut near its end."""
    async with proxy_fixture(replicas=0) as proxy:
        client = await proxy.session()
        proxy.cluster.primary.faults.delay_reply(0.1, times=1)
        head = b"SELECT LENGTH('"
        length = client_connection.STREAM_ABOVE
        text = head + b"x" * (length - 1 - len(head) - 2) + b"')"
        packets = frame(b"\x0e", 0) + frame(query(text), 0)
        assert len(packets) == 5 + length + 4
        client.send_bytes(packets[: len(packets) - extra])
        assert (await client.answer()).ok
        client.send_bytes(packets[len(packets) - extra :] if extra else b"")
        assert (await client.answer()).value == b"%d" % (length - 18)


@pytest.mark.parametrize("above", [0, 1, 4, 5, 4096])
async def test_packets_around_the_length_that_is_passed_on_in_parts(above: int) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        size = client_connection.STREAM_ABOVE + above - 20
        answer = await client.query(b"SELECT LENGTH('" + b"x" * size + b"')")
        assert answer.value == b"%d" % size
        assert (await client.query("SELECT 2")).value == b"2"


async def test_a_packet_of_sixteen_mib_and_commands_right_behind_it() -> None:
    async with proxy_fixture(replicas=0) as proxy:
        client = await proxy.session()
        head = b"SELECT LENGTH('"
        size = 0xFFFFFF - len(head) - 3  # the payload fills one frame; an empty one follows
        packet = frame(query(head + b"x" * size + b"')"), 0)
        assert packet.endswith(b"\0\0\0\1")
        client.send_bytes(packet + frame(b"\x0e", 0) + frame(query("SELECT 3"), 0))
        assert (await client.answer(first=2)).value == b"%d" % size
        assert (await client.answer()).ok
        assert (await client.answer()).value == b"3"


async def test_long_data_in_parts_then_the_rest() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.command(b"\x16SELECT LENGTH(?)", PREPARED)
        chunk = b"\x18\x01\x00\x00\x00\x00\x00" + b"y" * (3 << 20)
        execute = b"\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\xfe\x00"
        client.send_bytes(frame(chunk, 0) * 2 + frame(b"\x0e", 0))
        assert (await client.answer()).ok
        client.send(execute)
        packets = (await client.answer(text=False)).packets
        assert packets[-2][-8:] == (6 << 20).to_bytes(8, "little")
        assert (await client.query("SELECT 2")).value == b"2"


# Clients that do not read.


async def test_a_client_that_does_not_read_its_result() -> None:
    """What it was not given stays with the server; others are served meanwhile."""
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for part in (GREETING, frame(OK, 2), identity(), frame(OK, 1)):
            writer.write(part)
            await read_packet(reader)
        result = rows()
        writer.write(result[: -(4 + 7)])  # count and definition, no end
        packet = frame(b"\xfd\xf0\xff\x00" + b"x" * 0xFFF0, 9)
        while True:
            writer.write(packet)
            await writer.drain()
            sent += len(packet)

    async with peer(endless) as server, before(server.address) as proxy:
        clients = [await proxy.session() for _ in range(3)]
        for client in clients:
            client.send(query("SELECT everything"))

        async def until_it_stops() -> None:
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.3)

        await until_it_stops()
        # Socket buffers of the kernel and the high-water marks of three connections.
        assert sent < 60 << 20
        for session in proxy.shared.sessions:
            transport = session._client._transport
            assert transport is not None
            assert transport.get_write_buffer_size() < 2 << 20
        stopped_at = sent
        while sent < stopped_at + (10 << 20):
            await clients[0].reader.read(1 << 20)
        for client in clients:
            client.abort()
        await eventually(lambda: server.connected == 0)


async def test_a_client_that_never_reads_is_let_go_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_connection, "_LINGER_S", 0.2)
    async with proxy_fixture(replicas=0) as proxy:
        client = await proxy.session()
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]
        text = b"SELECT REPEAT('x', 1000000)"
        client.send_bytes(frame(query(text), 0) * 100 + frame(b"\x01", 0))
        await eventually(lambda: not proxy.shared.sessions or _full(proxy))
        # The session ends; what the client was sent still waits for it.
        for session in proxy.shared.sessions:
            session._client.close()
        await eventually(lambda: not proxy.shared.sessions)


def _full(proxy: ProxyFixture) -> bool:
    (session,) = proxy.shared.sessions
    return session._servers._paused


# Clients that leave.


async def test_quit() -> None:
    async with proxy_fixture(kept_connections=0) as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        client.send(b"\x01")
        assert await client.rest() == b""
        await eventually(lambda: not proxy.shared.sessions)
        for server in proxy.cluster.servers:
            await eventually(lambda server=server: server.connections == 0)  # type: ignore[misc]


async def test_a_client_leaves_while_its_read_waits() -> None:
    """The replica must not go on waiting for nobody."""
    async with proxy_fixture(wait_budget=30) as proxy:
        replica = proxy.cluster.replicas[0]
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await client.query("SELECT 1")
        replica.applying = False
        await client.query("INSERT INTO t VALUES (1)")
        client.send(query("SELECT id FROM t"))
        await eventually(lambda: any("WAIT_FOR" in text for _, text in replica.statements))
        client.abort()
        await eventually(lambda: proxy.count("tidegate_waits_killed_total") == 1)
        await eventually(lambda: any("KILL" in text for _, text in replica.statements))
        await eventually(lambda: replica.connections == 0)
        assert proxy.cluster.primary.connections == 0


async def test_a_client_leaves_while_a_replica_is_connected_to() -> None:
    async with proxy_fixture(kept_connections=0) as proxy:
        replica = proxy.cluster.replicas[0]
        replica.faults.delay_reply(20, matching=b"transaction_read_only")
        client = await proxy.session()
        client.send(query("SELECT 1"))
        await eventually(lambda: replica.connections == 1)
        client.abort()
        await eventually(lambda: not proxy.shared.sessions)
        await eventually(lambda: proxy.cluster.primary.connections == 0)
        # The mocker sees the end behind its delay; the proxy's side is closed.
        assert proxy.count("tidegate_server_connections") == 0
        replica.faults.clear()
        await replica.stop()


@pytest.mark.parametrize("sent", [0, 100, 1 << 20, 3 << 20])
async def test_a_client_leaves_in_the_middle_of_a_packet(sent: int) -> None:
    async with proxy_fixture(kept_connections=0) as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        text = b"INSERT INTO t VALUES (1) /*" + b"x" * (4 << 20) + b"*/"
        client.send_bytes(frame(query(text), 0)[: 20 + sent])
        await asyncio.sleep(0.05)
        client.abort()
        await eventually(lambda: proxy.cluster.primary.connections == 0)
        other = await proxy.session()
        assert (await other.query("SELECT COUNT(*) FROM t")).value == b"0"


async def test_a_client_leaves_in_the_middle_of_its_result() -> None:
    async with proxy_fixture(kept_connections=0) as proxy:
        for _ in range(3):
            client = await proxy.session()
            client.send(query("SELECT REPEAT('x', 4000000)") * 1)
            await client.reader.readexactly(1000)
            client.abort()
        await eventually(lambda: not proxy.shared.sessions)
        for server in proxy.cluster.servers:
            await eventually(lambda server=server: server.connections == 0)  # type: ignore[misc]


async def test_a_client_leaves_in_a_transaction_and_it_rolls_back() -> None:
    async with proxy_fixture(kept_connections=0) as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await client.query("BEGIN")
        await client.query("INSERT INTO t VALUES (1)")
        client.abort()
        await eventually(lambda: proxy.cluster.primary.connections == 0)
        other = await proxy.session()
        assert (await other.query("SELECT COUNT(*) FROM t")).value == b"0"


async def test_who_comes_back_sees_the_write_that_was_not_answered() -> None:
    """Its scope asks the primary once the client has left, and again when the write has ended."""
    async with proxy_fixture(scope=Scope.USER, kept_connections=0) as proxy:
        primary, replica = proxy.cluster.primary, proxy.cluster.replicas[0]
        client, other = await proxy.session(), await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        assert (await other.query("SELECT COUNT(*) FROM t")).value == b"0"
        replica.applying = False
        gate = primary.faults.hold_reply(matching=b"INSERT")
        client.send(query("INSERT INTO t VALUES (1)"))
        await eventually(lambda: any("INSERT" in text for _, text in primary.statements))
        client.abort()
        count = "tidegate_required_unknown_total"
        await eventually(lambda: proxy.count(count, "abandoned") == 1)
        assert (await other.query("SELECT COUNT(*) FROM t")).value == b"1"
        gate.open()
        await eventually(lambda: proxy.count(count, "abandoned") == 2)
        await eventually(lambda: primary.connections == 1)


async def test_nobody_reads_all_that_a_write_shows_to_a_client_that_has_left() -> None:
    async with proxy_fixture(kept_connections=0) as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        text = "INSERT INTO t VALUES (1)" + "; SELECT REPEAT('x', 4000000)" * 9
        client.send(query(text))
        await client.reader.readexactly(1000)
        client.abort()
        count = "tidegate_required_unknown_total"
        await eventually(lambda: proxy.count(count, "abandoned") == 2)
        await eventually(lambda: proxy.cluster.primary.connections == 0)


# COM_CHANGE_USER is a login in the middle of a session.


async def test_change_user() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await client.query("SELECT 1")
        client.send(change_user("other"))
        assert (await finish_change(client, "word"))[0] == 0x00
        assert (await client.query("SELECT CURRENT_USER()")).value == b"other@%"
        assert (await client.query("SELECT 5")).value == b"5"
        assert proxy.cluster.primary.connections == 1


@pytest.mark.parametrize(
    ("user", "password", "database", "code"),
    [
        ("other", "wrong", "test", 1045),
        ("nobody", "word", "test", 1045),
        ("other", "word", "no", 1049),
    ],
)
async def test_change_user_that_fails_ends_the_session(
    user: str, password: str, database: str, code: int
) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("SELECT 1")
        client.send(change_user(user, database))
        assert ErrPacket.parse(await finish_change(client, password)).code == code
        assert await client.rest() == b""
        await eventually(lambda: not proxy.shared.sessions)


@pytest.mark.parametrize("case", ["garbage", "short", "leaves", "silent", "primary gone"])
async def test_change_user_that_breaks_the_dialogue(case: str) -> None:
    # On a busy machine a login takes its time, too.
    handshake_timeout = 2.0 if case == "silent" else 60.0
    async with proxy_fixture(kept_connections=0, handshake_timeout=handshake_timeout) as proxy:
        client = await proxy.session()
        if case == "short":
            client.send(b"\x11other")
            assert (await client.last_error()).code == 1043
        else:
            client.send(change_user("other"))
            await client.read_packet()
            if case == "garbage":
                client.send(b"no scramble", 2)
                assert (await client.last_error()).code == 1043
            if case == "silent":
                assert (await client.last_error()).code == 1159
            if case == "leaves":
                client.abort()
            if case == "primary gone":
                await proxy.cluster.primary.stop()
                await client.rest()
        await eventually(lambda: not proxy.shared.sessions)
        if case != "primary gone":
            await eventually(lambda: proxy.cluster.primary.connections == 0)


async def test_change_user_with_the_next_command_behind_its_last_packet() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        client.send(change_user("empty"))
        await client.read_packet()
        client.send_bytes(frame(b"", 2) + frame(query("SELECT 8"), 0))
        assert (await client.read_packet())[0] == 0x00
        assert (await client.answer()).value == b"8"


# Clients without CLIENT_DEPRECATE_EOF and CLIENT_SESSION_TRACK see nothing of what the proxy has.


async def test_an_old_client() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session(capabilities=BASE)
        assert (await client.query("CREATE TABLE t (id INT)")).packets == [OK]
        answer = await client.query("SELECT 1 UNION SELECT 2")
        assert [len(p) for p in answer.packets if p[:1] == b"\xfe"] == [5, 5]
        prepared = await client.command(b"\x16SELECT ?, ?", PREPARED)
        assert prepared.packets[3][:1] == b"\xfe"
        assert (await client.command(b"\x1b\x00\x00", SIMPLE)).packets[0][:1] == b"\xfe"

"""Whatever bytes a client or a server sends, in whatever portions: an answer or a clean end.

The objects are the proxy's own; only the transports stand in for sockets. Nothing may raise,
nothing may wait for ever, and no other session may notice.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol.authentication import CACHING_SHA2
from protocol.constants import Capability
from protocol.gtid import EMPTY, GtidSet
from protocol.handshake import HandshakeResponse41
from protocol.packet import frame
from protocol.response import ErrPacket, OkPacket
from protocol.session_track import gtids_entry, schema_entry, state_change_entry
from proxy.address import Address
from proxy.channel import PacketChannel
from proxy.client.connection import ClientConnection
from proxy.client.listener import Listener
from proxy.client.session import ClientSession
from proxy.client.session_rules import SessionRules
from proxy.config import Config
from proxy.live_config import LiveConfig
from proxy.observe.metrics import Metrics
from proxy.serve import build as build_shared
from proxy.server.account import Requirement
from proxy.server.connect import greeting as server_greeting
from proxy.server.connect.opening import open_connection
from proxy.server.connection import ServerConnection
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from proxy.server.login import Login
from proxy.shared.shared import Shared
from proxy.tls.materials import Materials, build, make_key_ring
from routing.consistency.decision import Reason
from routing.request.stage import JOINED
from routing.servers.topology import Server
from routing.session.session import Session
from tests.faults.peers import GREETING, OK, err, identity, rows
from tests.support.identity import IDENTITY
from tests.support.packet_reader import PacketReader
from tests.support.transports import FakeTransport

UUID = "11111111-1111-1111-1111-111111111111"
CLIENT = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_MULTI_STATEMENTS
    | Capability.CLIENT_MULTI_RESULTS
)
MODERN = Capability.CLIENT_SESSION_TRACK | Capability.CLIENT_DEPRECATE_EOF
SHORTEST = {0x18: 7, 0x19: 5}
"""COM_STMT_SEND_LONG_DATA and COM_STMT_CLOSE; what is shorter gets an error."""
STEPS = 5_000
"""More rounds than any exchange of these tests can need."""

CONFIG = Config(
    Address("127.0.0.1", 1),
    (Address("127.0.0.1", 2),),
    client_tls="disabled",
    server_tls="disabled",
    max_allowed_packet=1 << 17,
    view_age=0.0,
)


@pytest.fixture(scope="module")
def materials() -> Materials:
    return build(CONFIG, make_key_ring(CONFIG))


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


# Servers.


def ok(session_state: bytes | None = None, header: int = 0) -> bytes:
    status = 2 if session_state is None else 0x4002
    packet = OkPacket(status=status, session_state=session_state, header=header)
    return frame(packet.serialise(MODERN), 1)


class FakeServer:
    """Answers as a server does; `spoil` may change what it says."""

    def __init__(
        self,
        transport: FakeTransport,
        spoil: Callable[[bytes], bytes | None],
        deprecate_eof: bool = True,
    ) -> None:
        self.transport = transport
        self._deprecate_eof = deprecate_eof
        self.statements: list[bytes] = []
        self._spoil = spoil
        self._received = b""
        self._number = 0

    def serve(self, size: int) -> bool:
        """Answer what came; whether there was anything to do."""
        data = self.transport.take()
        self._received += data
        worked = bool(data)
        while len(self._received) >= 4:
            # A command begins with 0; what the server was understood to ask for goes on from that.
            reader = PacketReader(1 << 24, self._received[3])
            reader.receive_data(self._received)
            payload = reader.next_packet()
            if payload is None:
                break
            self._received = reader.take_rest()
            worked = True
            answer = self._spoil(self._answer(payload))
            if answer is None:
                self.transport.lose()
                return True
            self.transport.feed(answer, size)
        if self.transport.waiting:
            self.transport.deliver(size)
        return worked

    def _answer(self, payload: bytes) -> bytes:
        command = payload[0] if payload else 0
        sql = payload[1:]
        if command == 0x03:
            self.statements.append(sql)
            return self._query(sql)
        if len(payload) < SHORTEST.get(command, 0):
            return err(1835)  # though these have no answer otherwise
        if command in (0x01, 0x18, 0x19):
            return b""
        if command == 0x16:
            return frame(b"\0\1\0\0\0" + bytes(7), 1)
        if command == 0x09:
            return frame(b"Uptime: 5", 1)
        if command in (0x04, 0x0D, 0x1B, 0x1C):
            return ok(header=0xFE) if self._deprecate_eof else frame(b"\xfe\0\0\2\0", 1)
        if command == 0x17:
            return self._rows([b"x"]) if payload[4:5] else err(1243)
        if command == 0x02:
            return ok(schema_entry("test"))
        return ok()

    def _query(self, sql: bytes) -> bytes:
        if b"WAIT_FOR" in sql:
            return self._rows([b"0", b"1"])
        if b"GTID_SUBSET" in sql:
            return self._rows([b"1"])
        if b"@@GLOBAL.gtid_executed" in sql:
            return self._rows([b"", f"{UUID}:1-{self._number + 1}".encode(), b"ON"])
        if sql[:6].upper() == b"SELECT":
            return self._rows([b"1"], [b"2"])
        if sql[:4].upper() == b"CALL":
            return err(1644)
        if sql[:3].upper() == b"SET":
            return ok(state_change_entry(True))
        self._number += 1
        return ok(gtids_entry(GtidSet.parse(f"{UUID}:{self._number}")))

    def _rows(self, *values: list[bytes]) -> bytes:
        return rows(*values, columns=len(values[0]), deprecate_eof=self._deprecate_eof)


def honest(answer: bytes) -> bytes:
    return answer


# A proxy and its sessions.


class World:
    """A victim and a bystander, each with a primary and a replica of its own."""

    def __init__(
        self,
        proxy: Shared,
        spoil_primary: Callable[[bytes], bytes | None] = honest,
        spoil_replica: Callable[[bytes], bytes | None] = honest,
        size: int = 1 << 30,
        capabilities: Capability = CLIENT,
    ) -> None:
        self.proxy = proxy
        proxy.sessions._members.clear()
        proxy.sessions._admissions.clear()
        object.__setattr__(proxy, "start", self.start)
        proxy.catalogues._start = proxy.primary_presence._start = self.start
        primary, replica = proxy.topology.servers
        for server, uuid in ((primary, UUID), (replica, "another")):
            server.__init__(server.name, server.role)  # type: ignore[misc] # all is forgotten
            server.observe(uuid, (0, 0), EMPTY, EMPTY)
        self.size = size
        self._in_doubt = False  # whether the primary is gone
        self._servers: list[FakeServer] = []
        self._waiting: list[ClientSession] = []
        self.victim = self._session(1, spoil_primary, spoil_replica, capabilities)
        self.bystander = self._session(2, honest, honest, CLIENT)

    def _session(
        self,
        session_id: int,
        spoil_primary: Callable[[bytes], bytes | None],
        spoil_replica: Callable[[bytes], bytes | None],
        capabilities: Capability,
    ) -> tuple[ClientSession, FakeTransport]:
        proxy = self.proxy
        connection = ClientConnection(capabilities, CONFIG.max_allowed_packet)
        login = Login("app", b"", capabilities)
        session = ClientSession(
            proxy,
            connection,
            login,
            session_id,
            session_id,
            Session(proxy.config.rules, 0, proxy.scopes, login.username, proxy.topology.term),
            SessionRules(proxy.live, proxy.config.listen, login.username, {}),
        )
        client = FakeTransport(connection)
        connection.attach(client, session)
        primary, replica = proxy.topology.servers
        deprecate_eof = bool(capabilities & Capability.CLIENT_DEPRECATE_EOF)
        server, transport = self._open(primary, capabilities | Capability.CLIENT_SESSION_TRACK)
        session.take_primary(server)
        self._servers.append(FakeServer(transport, spoil_primary, deprecate_eof))
        server, transport = self._open(replica, capabilities)
        server.hand_over(session)
        session._servers.put(server)
        self._servers.append(FakeServer(transport, spoil_replica, deprecate_eof))
        proxy.sessions.add(session, proxy.client_limits.begin())
        return session, client

    def _open(
        self, server: Server, capabilities: Capability
    ) -> tuple[ServerConnection, FakeTransport]:
        transport = FakeTransport()
        channel = PacketChannel(1 << 20)
        channel.adopt(transport, 0, secure=False)
        connection = ServerConnection(server, capabilities, 7, channel)
        connection.epoch = server.epoch
        connection.become_ready(IDENTITY, Requirement.NOTHING)
        return connection, transport

    # What the proxy takes for its tasks.

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> Any:
        """Replicas cannot be connected to again; a change of user ends the session."""
        work.close()
        self._in_doubt = self._in_doubt or name == "ask whether the primary is gone"
        for session in self.proxy.sessions:
            if name.startswith(f"session {session.session_id}: "):
                self._waiting.append(session)
                if "open replica" not in name:
                    session._client.abort()
        return asyncio.Future(loop=cast("Any", _Loop()))

    # The course of things.

    @property
    def servers(self) -> list[FakeServer]:
        """The victim's primary and replica."""
        return self._servers[:2]

    def run(self) -> None:
        """Let everything happen that can."""
        for _ in range(STEPS):
            worked = [server.serve(self.size) for server in self._servers]
            for _, client in (self.victim, self.bystander):
                client.deliver(self.size)
            if self._waiting:
                session = self._waiting.pop()
                self.proxy.topology.replicas[0].down_until = float("inf")
                session._task = None
                if not session._client.closed:
                    failed = Reason.REPLICA_LOST
                    session._perform(session._read.opened(failed, self.proxy.now()))
            elif self._in_doubt:
                self._in_doubt = False
                presence = self.proxy.primary_presence  # it is there: the session was cut off
                askers, presence._askers, presence._asking = presence._askers, [], False
                presence._tell(askers)
            elif not any(worked):
                joined = [
                    session for session in self.proxy.sessions if session._read.stage == JOINED
                ]
                if not joined:
                    return
                joined[0]._out_of_time()  # nobody but the victim waits longer than its budget
        raise AssertionError("it does not come to rest")

    def check_others(self) -> None:
        """The bystander is served as ever, and so is nobody else's connection."""
        _, client = self.bystander
        client.take()
        for command, size in ((b"\x0e", 11), (b"\x03INSERT INTO t VALUES (1)", 0)):
            client.feed(frame(command, 0))
            self.run()
            answer = client.take()
            assert answer[4] == 0x00
            assert len(answer) == size or not size
        client.feed(frame(b"\x03SELECT 1", 0))
        self.run()
        assert client.take() in (rows([b"1"], [b"2"]), with_eof())
        assert not client.closing

    def check_end(self) -> None:
        """When the victim leaves, nothing of it stays."""
        session, client = self.victim
        if session in self.proxy.sessions:
            client.lose()
        assert session not in self.proxy.sessions
        for server in self.servers:
            assert server.transport.closing


class _Loop:
    def get_debug(self) -> bool:
        return False

    def call_soon(self, *_: object, **__: object) -> None: ...


def with_eof() -> bytes:
    """The two rows as a client without CLIENT_DEPRECATE_EOF sees them."""
    packets = rows([b"1"], [b"2"])[:-11]
    definition_end = 5 + 4 + int.from_bytes(packets[5:8], "little")
    eof = b"\xfe\0\0\2\0"
    return (
        packets[:definition_end]
        + frame(eof, 3)
        + frame(b"\x011", 4)
        + frame(b"\x012", 5)
        + frame(eof, 6)
    )


@pytest.fixture(scope="module")
def proxy(runner: asyncio.Runner, materials: Materials) -> Shared:
    async def make() -> Shared:
        return build_shared(LiveConfig(CONFIG, materials), Metrics(), None, 0)

    return runner.run(make())


# Clients.

TEXTS = st.sampled_from(
    [
        b"SELECT 1",
        b"INSERT INTO t VALUES (1)",
        b"SET time_zone = '+01:00'",
        b"SET session_track_gtids = OFF",
        b"CALL p()",
        b"BEGIN",
        b"SHOW WARNINGS",
        b"KILL 2",
        b"KILL QUERY 1",
        b"SELECT '" + b"x" * 2000 + b"'",
        b"SELECT 1; SET @a = 1",
        b"",
    ]
)
COMMANDS = st.one_of(
    TEXTS.map(lambda text: b"\x03" + text),
    TEXTS.map(lambda text: b"\x16" + text),
    st.sampled_from(
        [
            b"\x0e",
            b"\x1f",
            b"\x02test",
            b"\x17\1\0\0\0\0\1\0\0\0",
            b"\x18\1\0\0\0\0\0data",
            b"\x19\1\0\0\0",
            b"\x1b\0\0",
            b"\x1c\1\0\0\0\5\0\0\0",
            b"\x09",
            b"\x04t\0",
            b"\x0d",
            b"\x12",
            b"\x11app\0\0\0",
            b"\x01",
        ]
    ),
    st.binary(min_size=1, max_size=12),
    st.integers(1 << 16, 1 << 17).map(lambda size: b"\x03SELECT '" + b"x" * (size - 10) + b"'"),
)
SIZES = st.sampled_from([1, 2, 3, 5, 7, 64, 1000, 1 << 30])


@st.composite
def spoiled(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of which some are others, missing, or too many."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["set", "insert", "delete", "cut", "repeat"])):
            case "set":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "delete":
                del data[at : at + draw(st.integers(1, 8))]
            case "cut":
                del data[at:]
            case _:
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
    return bytes(data)


def frames(payloads: list[bytes]) -> bytes:
    return b"".join(frame(payload, 0) for payload in payloads)


@given(
    spoiled(st.lists(COMMANDS, max_size=8).map(frames)),
    SIZES,
    st.booleans(),
)
@example(data=b"\x01\0\0\0\x18", size=1, modern=False)
@example(data=b"\x02\0\0\0\x19\1", size=1, modern=True)
def test_any_bytes_of_a_client(proxy: Shared, data: bytes, size: int, modern: bool) -> None:
    world = World(proxy, capabilities=CLIENT | MODERN if modern else CLIENT)
    _session, client = world.victim
    if len(data) > 10_000:
        size = max(size, 1000)
    for position in range(0, len(data), size):
        client.feed(data[position : position + size])
        world.run()
    if not client.closing and at_a_boundary(data):
        answered = len(client.take())
        client.feed(frame(b"\x0e", 0))
        world.run()
        # It is served; unless what came before left nothing to serve it with.
        # It may tell of warnings, as behind an error.
        answer = client.take()
        assert client.closing or answer[-11:-2] == frame(OK, 1)[:-2], (answered, data)
    world.check_others()
    world.check_end()


def at_a_boundary(data: bytes) -> bool:
    """Whether a client that sent this has sent whole packets, all with sequence id 0."""
    position = 0
    while position + 4 <= len(data):
        if data[position + 3] or not any(data[position : position + 3]):
            return False
        position += 4 + int.from_bytes(data[position : position + 3], "little")
    return position == len(data)


@given(st.lists(COMMANDS.filter(lambda c: c[0] not in (0x01, 0x11)), max_size=12), SIZES)
def test_every_command_of_a_sound_client_is_answered(
    proxy: Shared, commands: list[bytes], size: int
) -> None:
    world = World(proxy, size=size)
    _session, client = world.victim
    for command in commands:
        client.take()
        client.feed(frame(command, 0), max(size, len(command) // 50))
        world.run()
        assert not client.closing, bytes(client.written)
        answer = client.take()
        if command[0] in (0x18, 0x19) and len(command) >= SHORTEST[command[0]]:
            assert not answer
        else:
            assert answer[3] == 1
            assert int.from_bytes(answer[:3], "little") <= len(answer) - 4
    world.check_others()
    world.check_end()


# Servers.


@st.composite
def spoilers(draw: st.DrawFn) -> Callable[[bytes], bytes | None]:
    """What becomes of a server's answers: sound, spoiled, something else, or the end."""
    fates = iter(
        draw(
            st.lists(
                st.one_of(
                    st.just("sound"),
                    st.just("end"),
                    st.just("nothing"),
                    st.binary(max_size=30),
                    st.sampled_from(
                        [err(1040), err(4031, "idle", 0), frame(b"\xfb/etc/passwd", 1), ok(), b"\0"]
                    ),
                    st.tuples(st.sampled_from(["set", "cut", "insert"]), st.integers(0, 200)),
                ),
                max_size=8,
            )
        )
    )
    garbage = draw(st.binary(min_size=1, max_size=6))

    def spoil(answer: bytes) -> bytes | None:
        fate = next(fates, "sound")
        if fate == "sound":
            return answer
        if fate == "end":
            return None
        if fate == "nothing":
            return b""
        if isinstance(fate, bytes):
            return fate
        how, at = cast("tuple[str, int]", fate)
        at = min(at, len(answer))
        if how == "cut":
            return answer[:at]
        if how == "insert":
            return answer[:at] + garbage + answer[at:]
        return answer[:at] + garbage + answer[at + len(garbage) :]

    return spoil


@given(
    spoilers(),
    spoilers(),
    st.lists(st.one_of(TEXTS, st.just(b"SELECT 1")), min_size=1, max_size=8),
    SIZES,
    st.booleans(),
)
def test_any_bytes_of_servers(
    proxy: Shared,
    spoil_primary: Callable[[bytes], bytes | None],
    spoil_replica: Callable[[bytes], bytes | None],
    texts: list[bytes],
    size: int,
    modern: bool,
) -> None:
    capabilities = CLIENT | MODERN if modern else CLIENT
    world = World(proxy, spoil_primary, spoil_replica, size, capabilities)
    _session, client = world.victim
    for number, text in enumerate(texts):
        marked = text.replace(b"(1)", b"(%d)" % number)
        client.feed(frame(b"\x03" + marked, 0))
        world.run()
    world.check_others()
    primary, replica = world.servers
    # A write goes to the primary, and once.
    writes = [sql for sql in primary.statements if sql.startswith(b"INSERT")]
    assert len(set(writes)) == len(writes)
    assert not any(sql.startswith(b"INSERT") for sql in replica.statements)
    # A server that says no more has to end some day; then the client is told so, or served.
    if not replica.transport.closing:
        replica.transport.lose()
        world.run()
    if not primary.transport.closing:
        primary.transport.lose()
        world.run()
    assert client.closing
    world.check_others()
    world.check_end()


# Logins.


@given(
    spoiled(
        st.builds(
            lambda response, more: frame(response, 1) + more,
            st.builds(
                HandshakeResponse41,
                capabilities=st.just(CLIENT)
                | st.integers(0, (1 << 32) - 1).map(lambda flags: Capability(flags) | CLIENT),
                max_packet_size=st.just(1 << 24),
                character_set=st.integers(0, 255),
                username=st.text(alphabet="aäö", max_size=5),
                auth_response=st.sampled_from([b"", b"\0", b"s" * 32, b"s" * 20]),
                database=st.none() | st.just("test"),
                auth_plugin=st.sampled_from([None, CACHING_SHA2, "mysql_native_password", "?"]),
                attributes=st.just({"a": "b"}),
                zstd_level=st.just(3),
            ).map(HandshakeResponse41.serialise),
            st.sampled_from([b"", frame(b"\x02", 3), frame(b"x" * 256, 3), frame(b"", 3), b"\xff"]),
        )
    ),
    SIZES,
)
def test_any_bytes_of_a_client_that_logs_in(
    runner: asyncio.Runner, materials: Materials, data: bytes, size: int
) -> None:
    async def story() -> None:
        proxy = build_shared(LiveConfig(CONFIG, materials), Metrics(), None, 0)
        listener = Listener(proxy)
        transport = FakeTransport()
        channel = PacketChannel(1 << 18)
        transport.protocol = channel
        channel.connection_made(transport)
        welcome = asyncio.ensure_future(listener._welcome(channel))
        for position in range(0, len(data), size):
            transport.feed(data[position : position + size])
            for _ in range(3):
                await asyncio.sleep(0)
                transport.deliver()
        for _ in range(20):
            await asyncio.sleep(0)
            transport.deliver()
        if not transport.closing:
            transport.lose()
        await asyncio.wait_for(welcome, 30)
        assert not proxy.sessions
        assert transport.closing
        # Greeting first; whatever is said last is an ERR packet, or a question.
        written = bytes(transport.written)
        reader = PacketReader(1 << 20)
        packets = []
        while written:
            end = 4 + int.from_bytes(written[:3], "little")
            packets.append(written[4:end])
            written = written[end:]
        assert packets[0][0] == 10
        for payload in packets[1:]:
            assert payload[0] in (0x01, 0xFE, 0xFF)
            if payload[0] == 0xFF:
                assert ErrPacket.parse(payload).code in (1043, 1045, 1153, 1156, 1251, 2003, 3923)
        assert not reader.take_rest()

    runner.run(story())


LOGIN = GREETING + frame(OK, 2) + identity() + frame(OK, 1)


@given(spoiled(st.just(LOGIN)), SIZES)
def test_any_bytes_of_a_server_that_is_logged_in_to(
    runner: asyncio.Runner, materials: Materials, data: bytes, size: int
) -> None:
    async def story() -> None:
        proxy = build_shared(LiveConfig(CONFIG, materials), Metrics(), None, 0)
        transport = FakeTransport()

        async def connect(server: Server) -> PacketChannel:
            channel = PacketChannel(server_greeting.LOGIN_PACKET_LIMIT)
            transport.protocol = channel
            channel.connection_made(transport)
            return channel

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server_greeting, "connect", connect)
            login = Login("app", b"secret")
            opening = asyncio.ensure_future(
                open_connection(proxy.topology.primary, login, CONFIG, materials)
            )
            await asyncio.sleep(0)
            for position in range(0, len(data), size):
                transport.feed(data[position : position + size])
                for _ in range(2):
                    await asyncio.sleep(0)
                    transport.deliver()
            for _ in range(40):
                await asyncio.sleep(0)
                transport.deliver()
            if not opening.done():
                transport.lose()
            try:
                connection = await asyncio.wait_for(opening, 30)
            except (ServerUnreachableError, ServerRefusedError):
                assert transport.closing
            else:
                assert connection.thread_id >= 0

    runner.run(story())

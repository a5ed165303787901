"""An asyncio client that sends any bytes and shows every packet."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from protocol.authentication import ClientAuthentication
from protocol.command import ComChangeUser, ComQuery, QueryAttribute, com_query
from protocol.constants import CACHING_SHA2, Capability, Command, FieldType
from protocol.handshake import HandshakeResponse41, HandshakeV10, SSLRequest
from protocol.packet import frame
from protocol.response import ErrPacket, OkPacket
from protocol.response_stream import RESULTS, ResponseStream
from protocol.resultset import parse_text_row
from tests.support.packet_reader import PacketReader

PASSWORD = "secret"

BASE = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_MULTI_STATEMENTS
    | Capability.CLIENT_MULTI_RESULTS
    | Capability.CLIENT_PS_MULTI_RESULTS
)
MODERN = BASE | Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK


@dataclass
class Answer:
    """The answer to one command.

    Attributes:
        packets: payloads, in order.
        rows: of all results, as text.
    """

    packets: list[bytes] = field(default_factory=list)
    rows: list[list[bytes | None]] = field(default_factory=list)

    @property
    def error(self) -> ErrPacket:
        assert self.packets[-1][0] == 0xFF, self.packets[-1]
        return ErrPacket.parse(self.packets[-1])

    @property
    def ok(self) -> OkPacket:
        assert self.packets[-1][0] in (0x00, 0xFE), self.packets[-1]
        return OkPacket.parse(self.packets[-1], MODERN)

    @property
    def value(self) -> bytes | None:
        assert self.packets[-1][0] != 0xFF, self.error
        return self.rows[0][0]


LOST = ErrPacket(2013, "HY000", "Lost connection to MySQL server during query")
"""What clients' libraries make of a connection that ends where an answer should begin."""


class Client:
    """One connection; `log_in` makes it a session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.capabilities = Capability(0)
        self.greeting: HandshakeV10 | None = None
        self.sequence_id = 0
        """Of the last packet that was read."""

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abort()

    def abort(self) -> None:
        """Leave without a word."""
        self.writer.transport.abort()

    # Packets.

    def send_bytes(self, data: bytes) -> None:
        self.writer.write(data)

    def send(self, payload: bytes, sequence_id: int = 0) -> None:
        self.send_bytes(frame(payload, sequence_id))

    async def read_packet(self) -> bytes:
        payload = b""
        while True:
            header = await self.reader.readexactly(4)
            length = int.from_bytes(header[:3], "little")
            self.sequence_id = header[3]
            payload += await self.reader.readexactly(length)
            if length < 0xFFFFFF:
                return payload

    async def read_error(self) -> ErrPacket:
        """The ERR packet that comes next, or what a library says if the connection ends there."""
        try:
            return ErrPacket.parse(await self.read_packet())
        except asyncio.IncompleteReadError as end:
            if end.partial:
                raise
            return LOST

    async def rest(self) -> bytes:
        """What comes before the end of the connection."""
        received = b""
        try:
            while data := await self.reader.read(1 << 16):
                received += data
        except ConnectionError:
            pass  # a peer that still has unread bytes of ours resets the connection
        return received

    async def last_error(self) -> ErrPacket:
        """The ERR packet before the end of the connection, or what a library says of that."""
        reader = PacketReader(1 << 24)
        received = await self.rest()
        if not received:
            return LOST
        self.sequence_id = reader.sequence_id = received[3] if received else 0
        reader.receive_data(received)
        payloads = []
        while (payload := reader.next_packet()) is not None:
            payloads.append(payload)
        assert not reader.take_rest()
        assert len(payloads) == 1, payloads
        return ErrPacket.parse(payloads[0])

    # Login.

    async def greet(self) -> HandshakeV10:
        self.greeting = HandshakeV10.parse(await self.read_packet())
        return self.greeting

    async def start_tls(self) -> None:
        request = SSLRequest(MODERN | Capability.CLIENT_SSL, 1 << 24, 255)
        self.send(request.serialise(), 1)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        await self.writer.start_tls(context)

    async def log_in(
        self,
        user: str = "app",
        password: str = PASSWORD,
        database: str | None = "test",
        capabilities: Capability = MODERN,
        *,
        tls: bool = False,
        attributes: Mapping[str, str] | None = None,
        zstd_level: int = 0,
        scramble_only: bool = False,
    ) -> bytes:
        """Log in; return the packet that ended it, an OK or an ERR.

        With `scramble_only` the password is never told: where it is asked for,
        AuthenticationUnsupportedError is raised.
        """
        greeting = await self.greet()
        sequence_id = 1
        if tls:
            await self.start_tls()
            capabilities |= Capability.CLIENT_SSL
            sequence_id = 2
        if database is not None:
            capabilities |= Capability.CLIENT_CONNECT_WITH_DB
        if attributes:
            capabilities |= Capability.CLIENT_CONNECT_ATTRS
        self.capabilities = capabilities
        authentication = ClientAuthentication(
            password.encode(),
            greeting.auth_plugin,
            greeting.nonce,
            secure=tls,
            allow_public_key_retrieval=not scramble_only,
        )
        response = HandshakeResponse41(
            capabilities=capabilities,
            max_packet_size=1 << 24,
            character_set=255,
            username=user,
            auth_response=authentication.initial_response(),
            database=database,
            auth_plugin=authentication.plugin,
            attributes=attributes or {},
            zstd_level=zstd_level,
        )
        self.send(response.serialise(), sequence_id)
        while True:
            payload = await self.read_packet()
            if payload[0] in (0x00, 0xFF):
                return payload
            reply = authentication.receive(payload)
            if reply is not None:
                self.send(reply, self.sequence_id + 1)

    # Commands.

    async def command(self, payload: bytes, shape: int = RESULTS) -> Answer:
        self.send(payload)
        return await self.answer(shape)

    async def query(self, sql: str | bytes) -> Answer:
        text = sql.encode() if isinstance(sql, str) else sql
        attributes = bool(self.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)
        return await self.command(com_query(text, attributes))

    async def ping(self) -> Answer:
        return await self.command(bytes((Command.COM_PING,)))

    async def answer(self, shape: int = RESULTS, *, first: int = 1, text: bool = True) -> Answer:
        """Read one command's answer; sequence ids must begin with `first` and have no gap.

        Rows are read only where they are `text`.
        """
        stream = ResponseStream(
            deprecate_eof=bool(self.capabilities & Capability.CLIENT_DEPRECATE_EOF),
            session_track=bool(self.capabilities & Capability.CLIENT_SESSION_TRACK),
        )
        stream.begin(shape)
        answer = Answer()
        columns = 0
        rows = 0
        while not stream.done:
            try:
                payload = await self.read_packet()
            except asyncio.IncompleteReadError as end:
                if answer.packets or end.partial:
                    raise
                answer.packets.append(LOST.serialise(Capability.CLIENT_PROTOCOL_41))
                break
            assert self.sequence_id == (len(answer.packets) + first) & 0xFF
            if not columns and shape == RESULTS and payload[0] not in (0x00, 0xFF):
                columns = payload[0]
            stream.feed(frame(payload, self.sequence_id))
            answer.packets.append(payload)
            if stream.rows > rows:
                rows = stream.rows
                if shape == RESULTS and text:
                    answer.rows.append(parse_text_row(payload, columns))
        return answer


def query(sql: str | bytes) -> bytes:
    """A COM_QUERY's payload."""
    return b"\x03" + (sql.encode() if isinstance(sql, str) else sql)


def attributed(sql: str, **attributes: str) -> bytes:
    """A COM_QUERY's payload with query attributes; underscores in their names stand for dots."""
    found = [
        QueryAttribute(name.replace("_", ".", 1), FieldType.MYSQL_TYPE_STRING, value.encode())
        for name, value in attributes.items()
    ]
    return ComQuery(sql.encode(), tuple(found)).serialise(True)


def change_user(
    user: str, database: str = "test", attributes: Mapping[str, str] | None = None
) -> bytes:
    """A COM_CHANGE_USER's payload; `finish_change` follows."""
    command = ComChangeUser(
        username=user,
        auth_response=b"",
        database=database,
        character_set=255,
        auth_plugin=CACHING_SHA2,
        attributes=attributes or {},
    )
    capabilities = MODERN | Capability.CLIENT_CONNECT_ATTRS if attributes else MODERN
    return command.serialise(capabilities)


async def finish_change(
    client: Client, password: str, *, tls: bool = False, scramble_only: bool = False
) -> bytes:
    """Answer the AuthSwitchRequest and what follows; return the end, an OK or an ERR."""
    authentication = ClientAuthentication(
        password.encode(),
        CACHING_SHA2,
        b"",
        secure=tls,
        allow_public_key_retrieval=not scramble_only,
    )
    while True:
        payload = await client.read_packet()
        if payload[0] in (0x00, 0xFF):
            return payload
        reply = authentication.receive(payload)
        if reply is not None:
            client.send(reply, client.sequence_id + 1)

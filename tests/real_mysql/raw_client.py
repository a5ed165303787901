"""A client that shows every byte: logs in with any capabilities, and returns answers as packets."""

import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from protocol.authentication import ClientAuthentication
from protocol.constants import Capability, Command
from protocol.handshake import HandshakeResponse41, HandshakeV10
from protocol.packet import frame
from protocol.prepared_statement import CURSOR_TYPE_READ_ONLY
from protocol.response import ErrPacket
from protocol.response_stream import RESULTS, ResponseStream

BASE = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_LONG_FLAG
    | Capability.CLIENT_MULTI_STATEMENTS
    | Capability.CLIENT_MULTI_RESULTS
    | Capability.CLIENT_PS_MULTI_RESULTS
)

NOTHING = Capability(0)

Packet = tuple[int, bytes]
"""Sequence id and payload."""


class RawClient:
    """One connection, in clear, with these capabilities and those of `BASE`, `without` some."""

    def __init__(
        self,
        address: str,
        user: str,
        password: str,
        capabilities: Capability,
        database: str | None = None,
        without: Capability = NOTHING,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._buffer = b""
        self.greeting = HandshakeV10.parse(self.read()[1])
        self.capabilities = BASE & ~without | capabilities
        if database is not None:
            self.capabilities |= Capability.CLIENT_CONNECT_WITH_DB
        if attributes is not None:
            self.capabilities |= Capability.CLIENT_CONNECT_ATTRS
        authentication = ClientAuthentication(
            password.encode(), self.greeting.auth_plugin, self.greeting.nonce, secure=False
        )
        response = HandshakeResponse41(
            capabilities=self.capabilities,
            max_packet_size=1 << 24,
            character_set=255,
            username=user,
            auth_response=authentication.initial_response(),
            database=database,
            auth_plugin=authentication.plugin,
            attributes=attributes or {},
            zstd_level=0,
        )
        self._socket.sendall(frame(response.serialise(), 1))
        while True:
            sequence_id, payload = self.read()
            if payload[0] in (0x00, 0xFF):
                break
            reply = authentication.receive(payload)
            if reply is not None:
                self._socket.sendall(frame(reply, sequence_id + 1))
        self.login = payload
        if payload[0] == 0xFF:
            raise ConnectionRefusedError(str(ErrPacket.parse(payload)))

    def command(self, command: Command, body: bytes = b"", shape: int = RESULTS) -> list[Packet]:
        """Send a command; return its answer, packet by packet."""
        self._socket.sendall(frame(bytes((command,)) + body, 0))
        asks_cursor = command == Command.COM_STMT_EXECUTE and bool(body[4] & CURSOR_TYPE_READ_ONLY)
        return self.answer(shape, asks_cursor)

    def answer(self, shape: int = RESULTS, asks_cursor: bool = False) -> list[Packet]:
        """The answer to a command that was sent, packet by packet."""
        stream = ResponseStream(
            deprecate_eof=bool(self.capabilities & Capability.CLIENT_DEPRECATE_EOF),
            session_track=bool(self.capabilities & Capability.CLIENT_SESSION_TRACK),
            optional_metadata=bool(
                self.capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
            ),
        )
        stream.begin(shape, asks_cursor=asks_cursor)
        packets = []
        while not stream.done:
            sequence_id, payload = self.read()
            packets.append((sequence_id, payload))
            stream.feed(frame(payload, sequence_id))
        return packets

    def query(self, sql: str) -> list[Packet]:
        """COM_QUERY; without attributes, where those were negotiated."""
        attributes = self.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES
        return self.command(Command.COM_QUERY, (b"\x00\x01" if attributes else b"") + sql.encode())

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def read(self) -> Packet:
        """Return the next frame."""
        header = self._take(4)
        return header[3], self._take(int.from_bytes(header[:3], "little"))

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

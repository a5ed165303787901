"""A connection that shows every frame, and logs in with any capabilities."""

import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from protocol.authentication import ClientAuthentication
from protocol.constants import MAX_PACKET_PAYLOAD, Capability
from protocol.handshake import HandshakeResponse41, HandshakeV10
from protocol.packet import frame
from protocol.response import ERR_HEADER, OK_HEADER, ErrPacket

Packet = tuple[int, bytes]
"""Sequence id and payload."""


class RawConnection:
    """One connection, in clear.

    Attributes:
        greeting: the server's.
        capabilities: those of the login.
        character_set: what it logs in with, a collation's id.
        timeout: the longest that it waits for bytes, seconds.
    """

    character_set = 255
    timeout = 30.0

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=self.timeout)
        self._buffer = b""
        self.sequence_id = 0
        self.greeting = HandshakeV10.parse(self.read()[1])
        self.capabilities = Capability(0)

    def log_in(
        self,
        user: str,
        password: str,
        database: str | None,
        capabilities: Capability,
        attributes: Mapping[str, str] | None = None,
    ) -> bytes:
        """Log in; return the OK packet that ended it.

        Raises:
            ConnectionRefusedError: it ended in an ERR packet.
        """
        self.capabilities = capabilities
        authentication = ClientAuthentication(
            password.encode(), self.greeting.auth_plugin, self.greeting.nonce, secure=False
        )
        reply: bytes | None = HandshakeResponse41(
            capabilities=capabilities,
            max_packet_size=1 << 24,
            character_set=self.character_set,
            username=user,
            auth_response=authentication.initial_response(),
            database=database,
            auth_plugin=authentication.plugin,
            attributes=attributes or {},
            zstd_level=0,
        ).serialise()
        sequence_id = 0
        while True:
            if reply is not None:
                self.send_bytes(frame(reply, sequence_id + 1))
            sequence_id, payload = self.read()
            if payload[0] == ERR_HEADER:
                raise ConnectionRefusedError(str(ErrPacket.parse(payload)))
            if payload[0] == OK_HEADER:
                return payload
            reply = authentication.receive(payload)

    def send_bytes(self, data: bytes) -> None:
        """Send them as they are."""
        self._socket.sendall(data)

    def read(self) -> Packet:
        """The next frame.

        Raises:
            ConnectionResetError: the server has closed the connection.
        """
        header = self._take(4)
        return header[3], self._take(int.from_bytes(header[:3], "little"))

    def read_packet(self) -> bytes:
        """The next packet's payload, of however many frames, whose ids go on without a gap."""
        parts = []
        while not parts or len(parts[-1]) == MAX_PACKET_PAYLOAD:
            sequence_id, part = self.read()
            assert sequence_id == self.sequence_id, (
                f"{sequence_id} where {self.sequence_id} was due"
            )
            self.sequence_id = (sequence_id + 1) & 0xFF
            parts.append(part)
        return b"".join(parts)

    def read_bytes(self) -> bytes:
        """What comes, as it comes.

        Raises:
            ConnectionResetError: the server has closed the connection.
        """
        data, self._buffer = self._buffer, b""
        return data or self._receive()

    def _receive(self) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._buffer += self._receive()
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

"""A replica's connection to a real server: login, the few statements before a dump, its events."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from protocol import wire
from protocol.authentication import ClientAuthentication
from protocol.binlog.dump_request import DumpRequest
from protocol.binlog.event import Event
from protocol.binlog.log_reader import EventParser
from protocol.command import com_query
from protocol.constants import Capability, Command
from protocol.errors import MalformedBinlogError, ProtocolError, ServerErrorCode
from protocol.gtid import GtidSet
from protocol.handshake import HandshakeResponse41, HandshakeV10
from protocol.packet import frame
from protocol.response import ERR_HEADER, OK_HEADER, ErrPacket
from tests.support.packet_reader import PacketReader

_CAPABILITIES: Final = (
    Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
)
_MAX_PAYLOAD: Final = 2**30 + 2**21
_PIECE_BYTES: Final = 1 << 16
_END: Final = 0xFE
_SHUTDOWN: Final = ServerErrorCode.ER_SERVER_SHUTDOWN.code
_CONNECT_SECONDS: Final = 10.0


def register_replica(server_id: int, host: str = "", port: int = 0) -> bytes:
    """COM_REGISTER_SLAVE: how the source lists this reader; without a user and a password."""
    name = wire.encode_text(host)[:255]
    return b"".join((
        bytes((Command.COM_REGISTER_SLAVE,)), server_id.to_bytes(4, "little"),
        bytes((len(name),)), name, b"\0\0", port.to_bytes(2, "little"), bytes(8),
    ))  # fmt: skip


class SourceError(Exception):
    """The source refused something."""


class SourceGoneError(SourceError):
    """The source left; it may come back."""


class SourceConnection:
    """One connection, in the order of its methods: `open`, `prepare`, `events`, `close`."""

    def __init__(self) -> None:
        self._packets = PacketReader(_MAX_PAYLOAD)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, host: str, port: int, user: str, password: str) -> None:
        """Logs in, without TLS.

        Raises:
            OSError, TimeoutError: nobody is there.
            SourceError: it refuses the account.
            ProtocolError: it is no MySQL server.
        """
        async with asyncio.timeout(_CONNECT_SECONDS):
            self._reader, self._writer = await asyncio.open_connection(host, port)
            greeting = HandshakeV10.parse(self._accepted(await self._packet()))
            login = ClientAuthentication(
                password.encode(), greeting.auth_plugin, greeting.nonce, False
            )
            capabilities = _CAPABILITIES & greeting.capabilities
            answer: bytes | None = HandshakeResponse41(
                capabilities=capabilities,
                max_packet_size=_MAX_PAYLOAD,
                character_set=255,
                username=user,
                auth_response=login.initial_response(),
                database=None,
                auth_plugin=login.plugin,
                attributes={},
                zstd_level=0,
            ).serialise()
            while True:
                if answer is not None:
                    await self._send(answer)
                packet = self._accepted(await self._packet())
                if packet[:1] == bytes((OK_HEADER,)):
                    return
                answer = login.receive(packet)

    async def prepare(self, server_id: int, server_uuid: str, heartbeat: float) -> None:
        """Says who reads, and how.

        Raises:
            SourceError: it refuses, or left.
        """
        for sql in (
            f"SET @source_heartbeat_period = {int(heartbeat * 1e9)}",
            "SET @source_binlog_checksum = 'CRC32'",
            f"SET @replica_uuid = '{server_uuid}'",
        ):
            await self._command(com_query(sql.encode(), query_attributes=False))
        await self._command(register_replica(server_id))

    async def events(self, server_id: int, executed: GtidSet) -> AsyncIterator[Event]:
        """What is not in `executed`, for as long as the connection lasts.

        Raises:
            SourceError: it refuses, or left.
            MalformedBinlogError: an event is damaged.
        """
        parser = EventParser(checksum=True)
        self._packets.sequence_id = 0
        await self._send(DumpRequest(server_id, executed).serialise())
        while True:
            packet = self._accepted(await self._packet())
            if packet[:1] == bytes((_END,)):
                raise SourceGoneError("the source ended its log")
            if packet[:1] != bytes((OK_HEADER,)):
                raise MalformedBinlogError(0, "a packet of the stream is no event")
            yield parser.parse(packet[1:], 0)

    def close(self) -> None:
        """Leaves."""
        if self._writer is not None:
            self._writer.close()

    async def _command(self, payload: bytes) -> None:
        self._packets.sequence_id = 0
        await self._send(payload)
        self._accepted(await self._packet())

    async def _send(self, payload: bytes) -> None:
        if self._writer is None:
            raise SourceError("the connection is not open")
        self._writer.write(frame(payload, self._packets.sequence_id))
        self._packets.sequence_id += 1
        await self._writer.drain()

    async def _packet(self) -> bytes:
        while (packet := self._packets.next_packet()) is None:
            data = b"" if self._reader is None else await self._reader.read(_PIECE_BYTES)
            if not data:
                raise SourceGoneError("the source closed the connection")
            self._packets.receive_data(data)
        return packet

    @staticmethod
    def _accepted(packet: bytes) -> bytes:
        if packet[:1] == bytes((ERR_HEADER,)):
            try:
                error = ErrPacket.parse(packet)
            except ProtocolError:
                error = ErrPacket(1105, "HY000", "an error that cannot be read")
            kind = SourceGoneError if error.code == _SHUTDOWN else SourceError
            raise kind(f"the source says: {error.code} {error.message}")
        return packet

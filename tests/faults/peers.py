"""Servers that do not behave: each connection gets what a script says."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from protocol.authentication import CACHING_SHA2
from protocol.constants import Capability, FieldType
from protocol.errors import ServerErrorCode
from protocol.handshake import HandshakeV10
from protocol.packet import frame
from protocol.response import ErrPacket, OkPacket
from protocol.resultset import ColumnDefinition41, text_resultset
from scripts.ports import reserve_port

ALL = ~Capability(0) & ~(
    Capability.CLIENT_SSL
    | Capability.CLIENT_COMPRESS
    | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
    | Capability.MULTI_FACTOR_AUTHENTICATION
)
GREETING = frame(
    HandshakeV10(
        server_version="9.7.4",
        thread_id=7,
        nonce=b"n" * 20,
        capabilities=ALL,
        character_set=255,
        status=2,
        auth_plugin=CACHING_SHA2,
    ).serialise(),
    0,
)
_TRACKING = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SESSION_TRACK
    | Capability.CLIENT_DEPRECATE_EOF
)
OK = OkPacket(status=2).serialise(Capability.CLIENT_PROTOCOL_41)


def rows(
    *rows: Sequence[bytes | None],
    columns: int = 1,
    sequence_id: int = 1,
    deprecate_eof: bool = True,
) -> bytes:
    """A text result set, framed."""
    definition = ColumnDefinition41(
        catalog="def",
        schema="",
        table="",
        org_table="",
        name="c",
        org_name="",
        character_set=255,
        column_length=80,
        type=FieldType.MYSQL_TYPE_VAR_STRING,
        flags=0,
        decimals=0,
    )
    capabilities = _TRACKING if deprecate_eof else Capability.CLIENT_PROTOCOL_41
    return text_resultset([definition] * columns, rows, capabilities, 2, sequence_id=sequence_id)


def identity(
    uuid: bytes = b"11111111-1111-1111-1111-111111111111",
    uptime: bytes = b"5",
    gtids: bytes = b"",
) -> bytes:
    """What a server says when it is asked who it is."""
    # transaction_isolation, read_only, whether it keeps the order of commits, max_allowed_packet,
    # max_user_connections, wait_timeout, init_connect, enable_cascade_triggers, role
    settings = [b"REPEATABLE-READ", b"0", b"1", b"67108864", b"0", b"28800", b"", b"0", b"NONE"]
    sets = [b"", b"", gtids]  # what a session begins with, gtid_owned, gtid_executed
    return rows([uuid, b"ON", b"", b"1", b"utf8mb4", *settings, uptime, *sets], columns=18)


def err(code: ServerErrorCode | int, message: str = "no", sequence_id: int = 1) -> bytes:
    """An ERR packet, framed."""
    number = code if isinstance(code, int) else code.code
    error = ErrPacket(number, "HY000", message)
    return frame(error.serialise(Capability.CLIENT_PROTOCOL_41), sequence_id)


class Peer:
    """A listening server.

    Attributes:
        address: ``127.0.0.1:port``.
        accepted: connections so far.
        connected: connections now.
    """

    def __init__(self, script: "Script") -> None:
        self._script = script
        self.address = ""
        self.accepted = 0
        self.connected = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.connected += 1
        try:
            await self._script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the proxy hung up
        finally:
            self.connected -= 1
            writer.close()


Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def peer(script: Script) -> AsyncIterator[Peer]:
    """A server whose every connection is served by `script`."""
    running = Peer(script)
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
        await server.wait_closed()


def says(*parts: bytes | None, then_waits: bool = False) -> Script:
    """Sends one part after each packet of the proxy's, the first at once, and closes.

    None closes without a word. With `then_waits` the connection stays, until the proxy leaves.
    """

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for index, part in enumerate(parts):
            if index:
                await read_packet(reader)
            if part is None:
                return
            writer.write(part)
        if then_waits:
            while await reader.read(1 << 16):
                pass
        else:
            await writer.drain()

    return script


async def read_packet(reader: asyncio.StreamReader) -> bytes:
    """The payload of one frame."""
    header = await reader.readexactly(4)
    return await reader.readexactly(int.from_bytes(header[:3], "little"))


def unused_address() -> str:
    """An address where nobody listens."""
    return f"127.0.0.1:{reserve_port()}"

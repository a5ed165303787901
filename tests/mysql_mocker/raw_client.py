"""A client that shows a server's packets as they are."""

import contextlib
import socket
from dataclasses import dataclass, field
from typing import Self

from protocol import session_track
from protocol.authentication import ClientAuthentication
from protocol.constants import MAX_PACKET_PAYLOAD, Capability, ServerStatus
from protocol.gtid import GtidSet
from protocol.handshake import HandshakeResponse41, HandshakeV10
from protocol.packet import frame
from protocol.response import EofPacket, ErrPacket, OkPacket
from protocol.resultset import ColumnDefinition41, parse_text_row
from tests.support.packet_reader import PacketReader

TRACKING = Capability.CLIENT_SESSION_TRACK | Capability.CLIENT_DEPRECATE_EOF
LOGIN = (
    Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_MULTI_RESULTS
    | Capability.CLIENT_PLUGIN_AUTH
)
MORE = ServerStatus.SERVER_MORE_RESULTS_EXISTS


@dataclass
class Reply:
    """One result of a command.

    Attributes:
        end: the packet that ended it.
        names: column names; None for a result without columns.
    """

    end: OkPacket | EofPacket | ErrPacket
    names: list[str] | None = None
    rows: list[list[bytes | None]] = field(default_factory=list)

    @property
    def ok(self) -> OkPacket:
        assert isinstance(self.end, OkPacket), self.end
        return self.end

    @property
    def error(self) -> ErrPacket:
        assert isinstance(self.end, ErrPacket), self.end
        return self.end

    @property
    def status(self) -> int:
        return 0 if isinstance(self.end, ErrPacket) else self.end.status

    @property
    def gtids(self) -> GtidSet | None:
        block = self.end.session_state if isinstance(self.end, OkPacket) else None
        return None if block is None else session_track.gtids(block)

    @property
    def changes(self) -> list[object]:
        block = self.end.session_state if isinstance(self.end, OkPacket) else None
        found = [session_track.decode(*entry) for entry in session_track.entries(block or b"")]
        return [change for change in found if change is not None]


class RawClient:
    """A connection on which commands are sent as bytes.

    Args:
        flags: capabilities besides those that every login needs.
    """

    def __init__(
        self,
        port: int,
        user: str = "demo",
        password: str = "demo",  # noqa: S107 - a test's
        database: str | None = "test",
        flags: int = TRACKING | Capability.CLIENT_MULTI_STATEMENTS,
    ) -> None:
        self.address = (port, user, password, database)
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.settimeout(20)
        self._reader = PacketReader(1 << 26)
        greeting = HandshakeV10.parse(self.read_packet())
        self.id = greeting.thread_id
        self.capabilities = (LOGIN | Capability(flags)) & greeting.capabilities
        self._log_in(greeting, user, password.encode(), database)

    def _log_in(
        self, greeting: HandshakeV10, user: str, password: bytes, database: str | None
    ) -> None:
        exchange = ClientAuthentication(password, greeting.auth_plugin, greeting.nonce, False)
        reply: bytes | None = HandshakeResponse41(
            capabilities=self.capabilities,
            max_packet_size=1 << 26,
            character_set=255,
            username=user,
            auth_response=exchange.initial_response(),
            database=database,
            auth_plugin=greeting.auth_plugin,
            attributes={},
            zstd_level=0,
        ).serialise()
        while True:
            if reply is not None:
                self.send(reply, self._reader.sequence_id)
                self._reader.sequence_id += 1
            payload = self.read_packet()
            if payload[0] == 0xFF:
                raise AssertionError(str(ErrPacket.parse(payload)))
            if payload[0] == 0x00:
                return
            reply = exchange.receive(payload)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, payload: bytes, sequence_id: int = 0) -> None:
        self.send_bytes(frame(payload, sequence_id))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read_packet(self) -> bytes:
        while (payload := self._reader.next_packet()) is None:
            self._reader.receive_data(self.read_bytes())
        return payload

    def read_bytes(self) -> bytes:
        """What comes, as it comes."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise EOFError
        return data

    def read_until_the_end(self) -> bytes:
        """All that comes before the connection breaks."""
        received = b""
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                received += self.read_bytes()
        return received

    def read_packet_anew(self) -> bytes:
        """The first packet of an answer."""
        self._reader.sequence_id = 1
        return self.read_packet()

    def command(self, payload: bytes) -> list[Reply]:
        self.send(payload)
        return self.replies(1 + len(payload) // MAX_PACKET_PAYLOAD)

    def query(self, sql: str) -> list[Reply]:
        return self.command(b"\x03" + sql.encode())

    def one(self, sql: str) -> Reply:
        (reply,) = self.query(sql)
        return reply

    def value(self, sql: str) -> str | None:
        """The first value of the first row."""
        reply = self.one(sql)
        assert not isinstance(reply.end, ErrPacket), reply.end
        first = reply.rows[0][0]
        return None if first is None else first.decode()

    def executed(self) -> GtidSet:
        return GtidSet.parse(self.value("SELECT @@GLOBAL.gtid_executed") or "")

    def replies(self, sequence_id: int = 1) -> list[Reply]:
        self._reader.sequence_id = sequence_id
        found = []
        while not found or found[-1].status & MORE:
            found.append(self._reply())
        return found

    def _reply(self) -> Reply:
        first = self.read_packet()
        end = self._end(first)
        if end is not None:
            return Reply(end)
        names = []
        for _ in range(first[0]):
            payload = self.read_packet()
            names.append(ColumnDefinition41.parse(payload).name)
        if not self.capabilities & Capability.CLIENT_DEPRECATE_EOF:
            EofPacket.parse(self.read_packet())
        rows = []
        while (end := self._end(payload := self.read_packet(), rows=True)) is None:
            rows.append(parse_text_row(payload, len(names)))
        return Reply(end, names, rows)

    def _end(self, payload: bytes, rows: bool = False) -> OkPacket | EofPacket | ErrPacket | None:
        if payload[0] == 0xFF:
            return ErrPacket.parse(payload)
        if payload[0] == 0xFE and len(payload) == 5:
            return EofPacket.parse(payload)
        after_rows = payload[0] == 0xFE and len(payload) < MAX_PACKET_PAYLOAD
        if after_rows or (payload[0] == 0 and not rows):
            return OkPacket.parse(payload, self.capabilities)
        return None

"""A client that shows a server's packets as they are."""

import contextlib
from dataclasses import dataclass, field

from protocol import session_track
from protocol.command import com_query
from protocol.constants import MAX_PACKET_PAYLOAD, Capability, ServerStatus
from protocol.gtid import GtidSet
from protocol.packet import frame
from protocol.response import EOF_HEADER, ERR_HEADER, OK_HEADER, EofPacket, ErrPacket, OkPacket
from protocol.resultset import ColumnDefinition41, parse_text_row
from tests.support.raw_connection import RawConnection

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
    def changes(self) -> list[object]:
        block = self.end.session_state if isinstance(self.end, OkPacket) else None
        found = [session_track.decode(*entry) for entry in session_track.entries(block or b"")]
        return [change for change in found if change is not None]

    @property
    def gtids(self) -> GtidSet | None:
        block = self.end.session_state if isinstance(self.end, OkPacket) else None
        return None if block is None else session_track.gtids(block)


class RawClient(RawConnection):
    """A connection on which commands are sent as bytes, and their answers read as results.

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
        super().__init__("127.0.0.1", port)
        self.address = (port, user, password, database)
        self.id = self.greeting.thread_id
        offered = self.greeting.capabilities
        self.log_in(user, password, database, (LOGIN | Capability(flags)) & offered)

    def send(self, payload: bytes, sequence_id: int = 0) -> None:
        self.send_bytes(frame(payload, sequence_id))

    def read_until_the_end(self) -> bytes:
        """All that comes before the connection breaks."""
        received = b""
        with contextlib.suppress(ConnectionError):
            while True:
                received += self.read_bytes()
        return received

    def read_packet_anew(self) -> bytes:
        """The first packet of an answer."""
        self.sequence_id = 1
        return self.read_packet()

    def command(self, payload: bytes) -> list[Reply]:
        self.send(payload)
        return self.replies(1 + len(payload) // MAX_PACKET_PAYLOAD)

    def query(self, sql: str) -> list[Reply]:
        return self.command(com_query(sql.encode(), False))

    def reply(self, sql: str) -> Reply:
        (reply,) = self.query(sql)
        return reply

    def value(self, sql: str) -> str | None:
        """The first value of the first row."""
        reply = self.reply(sql)
        assert not isinstance(reply.end, ErrPacket), reply.end
        first = reply.rows[0][0]
        return None if first is None else first.decode()

    def executed(self) -> GtidSet:
        return GtidSet.parse(self.value("SELECT @@GLOBAL.gtid_executed") or "")

    def replies(self, sequence_id: int = 1) -> list[Reply]:
        self.sequence_id = sequence_id
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
        if payload[0] == ERR_HEADER:
            return ErrPacket.parse(payload)
        if payload[0] == EOF_HEADER and len(payload) == 5:
            return EofPacket.parse(payload)
        after_rows = payload[0] == EOF_HEADER and len(payload) < MAX_PACKET_PAYLOAD
        if after_rows or (payload[0] == OK_HEADER and not rows):
            return OkPacket.parse(payload, self.capabilities)
        return None

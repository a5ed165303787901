"""A client that shows every byte: logs in with any capabilities, and returns answers as packets."""

from collections.abc import Mapping

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.prepared_statement import CURSOR_TYPE_READ_ONLY
from protocol.response_stream import RESULTS, ResponseStream
from tests.support.raw_connection import Packet, RawConnection

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

__all__ = ["BASE", "NOTHING", "Packet", "RawClient"]


class RawClient(RawConnection):
    """One connection, in clear, with these capabilities and those of `BASE`, `without` some.

    Attributes:
        login: the OK packet that ended the login.
    """

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
        super().__init__(host, int(port))
        capabilities |= BASE & ~without
        if database is not None:
            capabilities |= Capability.CLIENT_CONNECT_WITH_DB
        if attributes is not None:
            capabilities |= Capability.CLIENT_CONNECT_ATTRS
        self.login = self.log_in(user, password, database, capabilities, attributes)

    def command(self, command: Command, body: bytes = b"", shape: int = RESULTS) -> list[Packet]:
        """Send a command; return its answer, packet by packet."""
        self.send_bytes(frame(bytes((command,)) + body, 0))
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
        self.send_bytes(data)

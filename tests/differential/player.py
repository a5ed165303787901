"""Plays the steps of a session on one connection, and keeps every packet that comes back."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from protocol.authentication import ClientAuthentication
from protocol.command import ComChangeUser, ComQuery
from protocol.constants import Capability, Command
from protocol.errors import MalformedPacketError
from protocol.packet import frame
from protocol.parameter import QueryAttribute
from protocol.prepared_statement import CURSOR_TYPE_READ_ONLY
from protocol.response_stream import RESULTS, ResponseStream
from tests.real_mysql.raw_client import RawClient


@dataclass(frozen=True)
class Packet:
    """One packet of an answer.

    Attributes:
        control: OK, EOF, ERR, or a packet that holds a count; else a definition or a row.
        command: that it answers.
    """

    sequence_id: int
    payload: bytes
    control: bool
    command: int = Command.COM_QUERY


Answer = tuple[Packet, ...]
"""Empty: the command has no answer."""

CLOSED = Packet(0, b"the connection was closed", control=False)
SILENT = Packet(0, b"no packet came before the client gave up waiting", control=False)
MALFORMED = Packet(0, b"the answer has another form than its beginning said", control=False)


class Player:
    """One connection, and what its steps must remember.

    Attributes:
        capabilities: as negotiated.
        login: the answer to the login.
        statements: ids of prepared statements by the slot that steps know them by.
    """

    def __init__(
        self,
        client: RawClient,
        connect_other: Callable[[], RawClient] | None = None,
        rest: Callable[[], None] | None = None,
    ) -> None:
        """`rest` pauses behind Tidegate; it is None where the client talks to a server itself."""
        self._client = client
        self._connect_other = connect_other
        self._rest = rest
        self._other: Player | None = None
        self.capabilities = client.capabilities
        self.login: Answer = (Packet(0, client.login, control=True),)
        self.statements: dict[int, int] = {}

    @property
    def attributes(self) -> bool:
        """Whether commands carry query attributes."""
        return bool(self.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)

    @property
    def through_tidegate(self) -> bool:
        """Whether Tidegate answers, not the server itself."""
        return self._rest is not None

    def rest(self) -> None:
        """Pause, where that can make a difference."""
        if self._rest is not None:
            self._rest()

    def send(self, command: int, body: bytes) -> None:
        """Send a command that has no answer."""
        with contextlib.suppress(OSError):  # the next answer tells
            self._client.send(frame(bytes((command,)) + body, 0))

    def command(self, command: int, body: bytes = b"", shape: int = RESULTS) -> Answer:
        """Send a command; return its answer."""
        self.send(command, body)
        flags = body[4] if command == Command.COM_STMT_EXECUTE and len(body) > 4 else 0
        asks_cursor = bool(flags & CURSOR_TYPE_READ_ONLY)
        return self._answer(command, shape, asks_cursor)

    def query(self, sql: bytes, attributes: Sequence[QueryAttribute] = ()) -> Answer:
        """COM_QUERY; the attributes are left out where they were not negotiated."""
        payload = ComQuery(sql, tuple(attributes)).serialise(self.attributes)
        return self.command(Command.COM_QUERY, payload[1:])

    def beside(self, sql: str) -> Answer:
        """A statement of another client's, who always talks to the primary itself."""
        if self._other is None:
            assert self._connect_other is not None
            self._other = Player(self._connect_other())
        return self._other.query(sql.encode())

    def close(self) -> None:
        """Hang up."""
        self._client.close()
        if self._other is not None:
            self._other.close()

    def change_user(self, user: str, password: str, database: str, collation: int) -> Answer:
        """COM_CHANGE_USER; the verdict alone, since what leads to it holds nonces.

        Tidegate always asks for the scramble anew, so the verdict's sequence id is not kept.
        """
        client = self._client
        greeting = client.greeting
        authentication = ClientAuthentication(
            password.encode(), greeting.auth_plugin, greeting.nonce, secure=False
        )
        command = ComChangeUser(
            username=user,
            auth_response=authentication.initial_response(),
            database=database,
            character_set=collation,
            auth_plugin=authentication.plugin,
            attributes={},
        )
        try:
            client.send(frame(command.serialise(self.capabilities), 0))
            while True:
                sequence_id, payload = client.read()
                if payload[0] in (0x00, 0xFF):
                    return (Packet(0, payload, True, Command.COM_CHANGE_USER),)
                reply = authentication.receive(payload)
                if reply is not None:
                    client.send(frame(reply, sequence_id + 1))
        except OSError as error:
            return (self._lost(error),)

    def _lost(self, error: Exception) -> Packet:
        """Hang up, since no more of an answer can be read; stands in for what did not come."""
        self._client.close()
        if isinstance(error, TimeoutError):
            return SILENT
        return MALFORMED if isinstance(error, MalformedPacketError) else CLOSED

    def _answer(self, command: int, shape: int, asks_cursor: bool) -> Answer:
        capabilities = self.capabilities
        stream = ResponseStream(
            deprecate_eof=bool(capabilities & Capability.CLIENT_DEPRECATE_EOF),
            session_track=bool(capabilities & Capability.CLIENT_SESSION_TRACK),
            optional_metadata=bool(capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA),
        )
        stream.begin(shape, asks_cursor=asks_cursor)
        packets: list[Packet] = []
        try:
            while not stream.done:
                sequence_id, payload = self._client.read()
                stream.sequence_id = -1
                stream.feed(frame(payload, sequence_id))
                control = stream.sequence_id == sequence_id  # it was read
                packets.append(Packet(sequence_id, payload, control, command))
        except (OSError, MalformedPacketError) as error:
            return (*packets, self._lost(error))
        return tuple(packets)

"""The statements that a client prepared, and which of its servers know them by what id.

Theory of operation
===================

The client is given an id of the proxy's own. A statement is prepared where its PREPARE was routed
to, and on any other server when it first runs there: the PREPARE is written, its answer tells the
id, and the client's command follows. So a read's text is kept; all other statements live on the
primary alone, and need none.

A server reads the text under the schema, sql_mode and character set that the session had then.
The schema is chosen anew for the PREPARE. Where the others have changed since, the statement runs
where it was prepared before, and else on the primary, where it is prepared before they change.

What COM_STMT_SEND_LONG_DATA brings for a read is kept until the read has run, since nobody knows
yet where that will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command
from protocol.packet import frame
from protocol.statement_execution import (
    bound_types,
    statement_id,
    with_statement_id,
    with_types,
)
from proxy.client import preparation
from proxy.server.connection import STATEMENT, PreparedHandle
from routing.sql.statement import StatementClass

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection
    from routing.session.session import Session
    from routing.sql.statement import Statement

_READING: Final = (
    *("names", "character set", "character_set_client", "character_set_connection"),
    *("collation_connection", "sql_mode"),
)
"""Variables by which a server reads a statement's text."""

READING: Final = frozenset(_READING)

_LAST_ROW_SENT: Final = 0x0080

_COM_STMT_CLOSE: Final = b"\x05\x00\x00\x00\x19"


class PreparedStatement:
    """One statement.

    Attributes:
        number: the client's id of it.
        statement: what it is; None if it was too long to look at.
        sql: its text if it is a read, else empty.
        schema: the default schema when it was prepared.
        read_under: the values of `_READING` when it was prepared.
        parameters: how many it has.
        types: those of the last execution that brought them, as they came.
        types_count: how many these are.
        long_data: COM_STMT_SEND_LONG_DATA packets for the next execution, each in parts.
        spoilt: its long data was more than may be kept.
        asks_cursor: whether its newest execution asked for a cursor.
        cursor: where its cursor is open.
    """

    __slots__ = (
        "asks_cursor",
        "cursor",
        "long_data",
        "number",
        "parameters",
        "read_under",
        "schema",
        "spoilt",
        "sql",
        "statement",
        "types",
        "types_count",
    )

    def __init__(
        self, number: int, statement: Statement | None, sql: bytes, state: Session
    ) -> None:
        self.number = number
        self.statement = statement
        self.sql = sql if statement is not None and statement.kind in _MOVING else b""
        self.schema = state.schema
        self.read_under = _read_under(state)
        self.parameters = 0
        self.types = b""
        self.types_count = 0
        self.long_data: list[list[bytes]] = []
        self.spoilt = False
        self.asks_cursor = False
        self.cursor: ServerConnection | None = None

    @property
    def moves(self) -> bool:
        """Whether it may run on other servers than the primary."""
        return bool(self.sql)

    def is_read_alike(self, state: Session) -> bool:
        """Whether a server would read its text today as it did when it was prepared."""
        return self.read_under == _read_under(state)

    def command(self, packet: bytes, handle: PreparedHandle, query_attributes: bool) -> bytes:
        """A framed command about it, or the beginning of one, for the server of this handle."""
        if packet[4] == 0x17:  # COM_STMT_EXECUTE
            bound = bound_types(packet, self.parameters, query_attributes)
            if bound is not None:
                if bound.types:
                    self.types = handle.types = bound.types
                    self.types_count = bound.values
                elif handle.types is not self.types and bound.values == self.types_count:
                    packet = with_types(packet, bound, self.types)
                    handle.types = self.types
        if handle.server_id != self.number:
            packet = with_statement_id(packet, handle.server_id)
        return packet

    def long_data_for(self, handle: PreparedHandle) -> bytes:
        """The packets of its long data for the server of this handle."""
        return b"".join(
            [with_statement_id(b"".join(parts), handle.server_id) for parts in self.long_data]
        )

    @property
    def long_parameters(self) -> frozenset[int]:
        """Positions of the parameters whose values are long data."""
        return frozenset([parts[0][9] | parts[0][10] << 8 for parts in self.long_data if parts])

    @property
    def long_size(self) -> int:
        """Bytes of long data that are kept."""
        return sum([len(part) for parts in self.long_data for part in parts])

    def new_long_data(self) -> list[bytes]:
        """One more packet of long data, to be filled."""
        parts: list[bytes] = []
        self.long_data.append(parts)
        return parts

    def spoil_long_data(self) -> None:
        """It is too much: keep none, and remember that for the next execution."""
        self.forget_long_data()
        self.spoilt = True

    def forget_long_data(self) -> None:
        """It was executed, or reset."""
        self.long_data = []
        self.spoilt = False

    def ended(self, command: Command, connection: ServerConnection) -> None:
        """A server answered a command about it."""
        stream = connection.stream
        if command is Command.COM_STMT_EXECUTE:
            self.forget_long_data()
            if self.cursor is not None and self.cursor is not connection:
                close_on(self.cursor, self)
            self.cursor = connection if stream.cursor else None
        elif (
            command is Command.COM_STMT_RESET
            or stream.error is not None
            or stream.status & _LAST_ROW_SENT
        ):
            self.cursor = None


_MOVING: Final = (StatementClass.READ, StatementClass.DIAGNOSTIC)
"""Classes of statements that run on other servers than the primary."""


def _read_under(state: Session) -> tuple[str | None, ...]:
    return tuple([state.variables.get(name) for name in _READING])


class PreparedStatements:
    """Those of one session, by their ids."""

    def __init__(self) -> None:
        self._statements: dict[int, PreparedStatement] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._statements)

    @property
    def long_size(self) -> int:
        """Bytes of long data that are kept."""
        return sum([statement.long_size for statement in self._statements.values()])

    @property
    def cursors(self) -> int:
        """How many cursors are open."""
        return sum([statement.cursor is not None for statement in self._statements.values()])

    def number(self) -> int:
        """An id; like a server's, it is spent even if the PREPARE fails."""
        self._last = self._last % 0xFFFFFFFF + 1
        return self._last

    def add(self, prepared: PreparedStatement) -> None:
        """Its PREPARE succeeded."""
        self._statements[prepared.number] = prepared

    def of(self, packet: bytes) -> PreparedStatement | None:
        """The one that a framed command is about, or None."""
        return self._statements.get(statement_id(packet))

    def get(self, number: int) -> PreparedStatement | None:
        """The one with this id, or None."""
        return self._statements.get(number)

    def close(self, prepared: PreparedStatement) -> None:
        """Forget it."""
        del self._statements[prepared.number]

    def clear(self) -> None:
        """The session was reset; ids go on."""
        self._statements.clear()

    def missing_on(self, connection: ServerConnection) -> list[PreparedStatement]:
        """Those that may move and are not known to this server."""
        return [
            prepared
            for prepared in self._statements.values()
            if prepared.moves and prepared.number not in connection.statements
        ]


def prepare_on(connection: ServerConnection, prepared: PreparedStatement, schema: str) -> bytes:
    """Packets that make the statement known to a server; registers their answers.

    Args:
        connection: to that server.
        prepared: it; with its text.
        schema: the one that the connection must have behind it; empty if any will do.
    """
    parts = b""
    if prepared.schema and connection.schema != prepared.schema:
        parts = preparation.choose_schema(connection, prepared.schema)
    connection.preparing.append(prepared.number)
    connection.expect(STATEMENT)
    parts += frame(b"\x16" + prepared.sql, 0)
    if schema and connection.schema != schema:
        parts += preparation.choose_schema(connection, schema)
    return parts


def close_on(connection: ServerConnection, prepared: PreparedStatement) -> None:
    """Let a server forget the statement, and its cursor; there is no answer."""
    handle = connection.statements.pop(prepared.number, None)
    if handle is not None and not connection.lost:
        connection.write(_COM_STMT_CLOSE + handle.server_id.to_bytes(4, "little"))

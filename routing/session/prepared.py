"""A statement that a client prepared, and what one server knows of it.

The client is given an id of the proxy's own. A statement is prepared where its PREPARE was routed
to, and on any other server when it first runs there. So a read's text is kept; all other statements
exist on the primary alone, and their texts are not needed.

A server reads the text under the schema, sql_mode and character set that the session had then.
Where these have changed since, the statement runs where it was prepared before.
"""

from typing import Final

from protocol.statement_execution import bound_types, with_statement_id, with_types
from routing.session.session import Session
from routing.sql.statement import Statement, StatementClass

_READING: Final = (
    *("names", "character set", "character_set_client", "character_set_connection"),
    *("collation_connection", "sql_mode"),
)
"""Variables by which a server reads a statement's text."""

_TAKEN: Final = (
    *("default_collation_for_utf8mb4", "default_week_format", "div_precision_increment"),
    *("explain_format", "group_concat_max_len", "lc_time_names", "time_zone"),
)
"""Variables whose values a server takes into a statement when it prepares it."""

READING: Final = frozenset(_READING + _TAKEN)
"""What changes the meaning of statements that are prepared later."""

_COM_STMT_EXECUTE: Final = 0x17

_OBJECTS: Final = 1536
"""Bytes of a statement that is classified, and of what two servers know of it."""


class PreparedHandle:
    """A prepared statement as one server knows it.

    Attributes:
        server_id: the server's id of it.
        types: those of its values that the server was told last, as they came.
    """

    __slots__ = ("server_id", "types")

    def __init__(self, server_id: int) -> None:
        self.server_id = server_id
        self.types = b""

    @classmethod
    def of(cls, head: bytes) -> "PreparedHandle":
        """The one that the first packet of an answer to COM_STMT_PREPARE tells of."""
        return cls(int.from_bytes(head[1:5], "little"))


class LongDataSize:
    """How much long data is kept of all statements of a session.

    Attributes:
        size: bytes.
        parts: in how many parts these came.
    """

    __slots__ = ("parts", "size")

    def __init__(self) -> None:
        self.size = self.parts = 0


class PreparedStatement:
    """One statement.

    Attributes:
        number: the client's id of it.
        statement: its class and more; None if it was too long to be classified.
        text: its text if it is a read, or about the session; else empty.
        sql: its text, by which a server is told of it; empty if it is too long to be kept.
        moves: it may run on other servers than the primary.
        schema: the default schema when it was prepared.
        read_under: the values of `_READING` when it was prepared.
        taken: those of `_TAKEN`.
        parameters: how many it has.
        types: those of the last execution that brought them, as they came.
        types_count: how many these are.
        counted: its `size` when that was counted last.
        long_data: COM_STMT_SEND_LONG_DATA packets for the next execution, each in parts.
        long_size: how much of it is kept, of this one and those that are counted with it.
        long_data_sent: some for the next execution went to the primary, and was not kept.
        spoilt: its long data was more than may be kept; no execution succeeds before a reset.
        asks_cursor: whether its newest execution asked for a cursor.
    """

    __slots__ = (
        "_elsewhere",
        "_long_parts",
        "_long_size",
        "asks_cursor",
        "counted",
        "long_data",
        "long_data_sent",
        "long_size",
        "moves",
        "number",
        "parameters",
        "read_under",
        "schema",
        "spoilt",
        "sql",
        "statement",
        "taken",
        "text",
        "types",
        "types_count",
    )

    def __init__(
        self, number: int, statement: Statement | None, sql: bytes, state: Session
    ) -> None:
        if statement is not None:
            statement = statement.prepared_in(state.schema)
            if statement.kind is StatementClass.READ and _stays(statement, state):
                statement = statement.kept_prepared()
        self.number = number
        self.statement = statement
        self.text = sql if statement is not None and statement.kind in _READING_KINDS else b""
        self.sql = sql
        self.moves = bool(self.text) and statement is not None and statement.kind in _MOVING
        self.schema = state.schema
        self.read_under = _values(_READING, state)
        self.taken = _values(_TAKEN, state)
        self.parameters = 0
        self.types = b""
        self.types_count = 0
        self.counted = 0
        self.long_data: list[list[bytes]] = []
        self.long_size = LongDataSize()
        self._long_size = self._long_parts = 0
        self.long_data_sent = False
        self.spoilt = False
        self.asks_cursor = False
        self._elsewhere: Statement | None = None

    def executed_in(self, schema: str) -> Statement | None:
        """Its statement, executed while this is the default schema.

        Its names are those of the schema where it was prepared. They are resolved only where that
        is another one, since most sessions keep theirs.
        """
        statement = self.statement
        if statement is None or schema == self.schema:
            return statement
        if self._elsewhere is None:
            self._elsewhere = statement.reading_in(self.schema)
        return self._elsewhere

    def is_read_alike(self, state: Session) -> bool:
        """Whether a server would read its text today as it did when it was prepared."""
        return self.read_under == _values(_READING, state)

    def means_alike(self, state: Session) -> bool:
        """Whether it would also give the same as where it was prepared."""
        return self.is_read_alike(state) and self.taken == _values(_TAKEN, state)

    def command(self, packet: bytes, handle: PreparedHandle, query_attributes: bool) -> bytes:
        """A framed command about it, or the beginning of one, for the server of this handle."""
        if packet[4] == _COM_STMT_EXECUTE:
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
    def size(self) -> int:
        """Bytes that it takes besides its long data, an estimate."""
        # A plain execution may still declare types that are longer than those of the last one.
        size = _OBJECTS + len(self.sql) + max(len(self.types), 3 * self.parameters)
        size += sum([len(value) for value in self.read_under if value is not None])
        size += sum([len(value) for value in self.taken if value is not None])
        return size if self.statement is None else size + self.statement.size

    def new_long_data(self) -> list[bytes]:
        """One more packet of long data, to be filled."""
        parts: list[bytes] = []
        self.long_data.append(parts)
        return parts

    def keep_long_data(self, packet: list[bytes], part: bytes) -> None:
        """Keep a part of a packet of long data."""
        packet.append(part)
        self._long_size += len(part)
        self._long_parts += 1
        self.long_size.size += len(part)
        self.long_size.parts += 1

    def spoil_long_data(self) -> None:
        """There is too much long data: keep none, and remember that until a reset."""
        self.use_long_data()
        self.spoilt = True

    def use_long_data(self) -> None:
        """It was executed, with or without success.

        A server remembers that there was too much: every execution fails until COM_STMT_RESET,
        whatever long data comes in between (measured on 9.7.4).
        """
        self._drop_long_data()

    def forget_long_data(self) -> None:
        """COM_STMT_RESET: as if none had come."""
        self._drop_long_data()
        self.spoilt = False

    def _drop_long_data(self) -> None:
        self.long_data = []
        self.long_size.size -= self._long_size
        self.long_size.parts -= self._long_parts
        self._long_size = self._long_parts = 0
        self.long_data_sent = False


_MOVING: Final = (StatementClass.READ, StatementClass.DIAGNOSTIC)
"""Classes of statements that run on other servers than the primary."""

_READING_KINDS: Final = (*_MOVING, StatementClass.SESSION)


def _stays(statement: Statement, state: Session) -> bool:
    """Whether a read runs on the primary alone, once it is prepared.

    A server keeps the types that user variables have when it prepares it, and the default schema:
    names in it may be those of a server's own tables.
    """
    return bool(statement.user_variables) or state.in_server_schema


def _values(names: tuple[str, ...], state: Session) -> tuple[str | None, ...]:
    return tuple([state.variables.get(name) for name in names])

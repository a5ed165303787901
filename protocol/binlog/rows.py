"""WRITE_ROWS, UPDATE_ROWS and DELETE_ROWS (version 2): rows before and after a change."""

from collections.abc import Sequence
from dataclasses import dataclass

from protocol import wire
from protocol.binlog.column import Column
from protocol.binlog.column_value import Value, parse_value
from protocol.binlog.event import EventType
from protocol.binlog.table_map import TableMap
from protocol.errors import MalformedPacketError

Row = tuple[Value, ...]

STATEMENT_END = 1
"""The event is its statement's last one: after it, the tables' numbers are no longer valid."""


@dataclass(frozen=True, slots=True)
class RowsEvent:
    """Changed rows, which can be read only with their table's columns.

    Attributes:
        kind: of the event.
        table_id: number of its TABLE_MAP.
        width: how many columns the table has.
        before: bits of the columns that are in images before the change; 0 for WRITE_ROWS.
        after: bits of the columns that are in images after it; 0 for DELETE_ROWS.
        data: the images.
        flags: of the event.
    """

    kind: EventType
    table_id: int
    width: int
    before: int
    after: int
    data: bytes
    flags: int = STATEMENT_END

    @classmethod
    def parse(cls, kind: int, body: bytes) -> "RowsEvent":
        """Reads the body up to the images.

        Raises:
            MalformedPacketError: a length is beyond the end.
        """
        reader = wire.Reader(body)
        table_id = int.from_bytes(reader.take(6), "little")
        flags = reader.u16()
        extra = reader.u16()
        if extra < 2:
            raise MalformedPacketError(f"extra data of {extra} bytes do not hold their length")
        reader.take(extra - 2)
        width = reader.lenenc_int()
        first = int.from_bytes(reader.take((width + 7) // 8), "little")
        before, after = first, 0
        if kind == EventType.UPDATE_ROWS:
            after = int.from_bytes(reader.take((width + 7) // 8), "little")
        elif kind == EventType.WRITE_ROWS:
            before, after = 0, first
        return cls(EventType(kind), table_id, width, before, after, reader.rest(), flags)

    def rows(self, table: TableMap) -> list[tuple[Row | None, Row | None]]:
        """Images before and after each change; columns that are not in the log are left out.

        `places` tells which columns the images have.

        Raises:
            MalformedPacketError: an image contradicts the table.
        """
        if table.table_id != self.table_id or len(table.columns) != self.width:
            raise MalformedPacketError(
                f"rows of table {self.table_id} with {self.width} columns follow "
                f"a map of table {table.table_id} with {len(table.columns)}"
            )
        reader = wire.Reader(self.data)
        before_columns = [table.columns[place] for place in self.places(self.before)]
        after_columns = [table.columns[place] for place in self.places(self.after)]
        if not before_columns and not after_columns:
            raise MalformedPacketError("rows have no columns")
        found: list[tuple[Row | None, Row | None]] = []
        while reader.remaining:
            before: Row | None = None
            after: Row | None = None
            if self.kind != EventType.WRITE_ROWS:
                before = _image(before_columns, reader)
            if self.kind != EventType.DELETE_ROWS:
                after = _image(after_columns, reader)
            found.append((before, after))
        return found

    def places(self, bits: int) -> list[int]:
        """Places of the columns that `before` or `after` names."""
        return [place for place in range(self.width) if bits >> place & 1]


def _image(columns: Sequence[Column], reader: wire.Reader) -> Row:
    nulls = int.from_bytes(reader.take((len(columns) + 7) // 8), "little")
    return tuple(
        [
            None if nulls >> n & 1 else parse_value(column, reader)
            for n, column in enumerate(columns)
        ]
    )

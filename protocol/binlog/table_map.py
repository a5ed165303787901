"""TABLE_MAP: names a table; the ROWS events after it refer to it by its number."""

from dataclasses import dataclass

from protocol import wire


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table; what the event says of its columns is not read.

    Attributes:
        table_id: its number.
        schema: its schema.
        table: its name.
    """

    table_id: int
    schema: str
    table: str

    @classmethod
    def parse(cls, body: bytes) -> "TableMap":
        """Reads the body up to the columns.

        Raises:
            MalformedPacketError: a length is beyond the end.
        """
        reader = wire.Reader(body)
        table_id = int.from_bytes(reader.take(6), "little")
        reader.u16()  # flags
        schema = wire.decode_text(reader.take(reader.u8()))
        reader.u8()  # a NUL byte
        table = wire.decode_text(reader.take(reader.u8()))
        return cls(table_id, schema, table)

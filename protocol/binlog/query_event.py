"""QUERY: a statement's text, and the settings of its session that its effect depends on."""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from protocol import wire
from protocol.errors import MalformedPacketError

_FIXED: Final = struct.Struct("<IIBHH")


class StatusCode(IntEnum):
    """Settings that can be read; after an unknown one, nothing can be."""

    FLAGS2 = 0
    SQL_MODE = 1
    CATALOG = 2
    AUTO_INCREMENT = 3
    CHARSET = 4
    TIME_ZONE = 5
    CATALOG_NZ = 6
    LC_TIME_NAMES = 7
    CHARSET_DATABASE = 8
    TABLE_MAP_FOR_UPDATE = 9
    SOURCE_DATA_WRITTEN = 10
    INVOKER = 11
    UPDATED_DB_NAMES = 12
    MICROSECONDS = 13
    EXPLICIT_DEFAULTS_FOR_TIMESTAMP = 16
    DDL_XID = 17
    DEFAULT_COLLATION_FOR_UTF8MB4 = 18
    SQL_REQUIRE_PRIMARY_KEY = 19
    DEFAULT_TABLE_ENCRYPTION = 20
    ENABLE_CASCADE_TRIGGERS = 21


_FIXED_LENGTHS: Final = {
    StatusCode.FLAGS2: 4,
    StatusCode.SQL_MODE: 8,
    StatusCode.AUTO_INCREMENT: 4,
    StatusCode.CHARSET: 6,
    StatusCode.LC_TIME_NAMES: 2,
    StatusCode.CHARSET_DATABASE: 2,
    StatusCode.TABLE_MAP_FOR_UPDATE: 8,
    StatusCode.SOURCE_DATA_WRITTEN: 4,
    StatusCode.MICROSECONDS: 3,
    StatusCode.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: 1,
    StatusCode.DDL_XID: 8,
    StatusCode.DEFAULT_COLLATION_FOR_UTF8MB4: 2,
    StatusCode.SQL_REQUIRE_PRIMARY_KEY: 1,
    StatusCode.DEFAULT_TABLE_ENCRYPTION: 1,
    StatusCode.ENABLE_CASCADE_TRIGGERS: 1,
}
_MANY_SCHEMAS: Final = 254


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """One statement.

    Attributes:
        schema: the session's current one; "" for none.
        sql: as the client sent it, in the character set that `status` names.
        thread_id: the session's id.
        execution_seconds: how long it ran.
        error_code: the error with which it failed; 0 for none.
        status: raw values by `StatusCode`; for an unknown code, all the bytes after it.
    """

    schema: str
    sql: bytes
    thread_id: int = 0
    execution_seconds: int = 0
    error_code: int = 0
    status: dict[int, bytes] = field(default_factory=dict)

    @property
    def microseconds(self) -> int:
        """The fraction of the header's timestamp, for statements that use it; else 0."""
        return int.from_bytes(self.status.get(StatusCode.MICROSECONDS, b""), "little")

    @classmethod
    def parse(cls, body: bytes) -> "QueryEvent":
        """Reads the body.

        Raises:
            MalformedPacketError: a length is beyond the end.
        """
        fixed, status_end, schema_end = _places(body)
        thread, seconds, _, error, _ = fixed
        status = _parse_status(body[_FIXED.size : status_end])
        schema = wire.decode_text(body[status_end:schema_end])
        return cls(schema, body[schema_end + 1 :], thread, seconds, error, status)

    @staticmethod
    def statement(body: bytes) -> bytes:
        """The text of a statement that succeeded, of a body; b"" if it failed.

        The settings before it are not read, which take longer than all else.

        Raises:
            MalformedPacketError: a length is beyond the end.
        """
        (_, _, _, error, _), _, schema_end = _places(body)
        return body[schema_end + 1 :] if error == 0 else b""

    def serialise(self) -> bytes:
        """The body."""
        schema = wire.encode_text(self.schema)
        status = b"".join(bytes((code,)) + value for code, value in self.status.items())
        return b"".join((
            _FIXED.pack(
                self.thread_id, self.execution_seconds, len(schema), self.error_code, len(status)
            ),
            status, schema, b"\0", self.sql,
        ))  # fmt: skip


def _places(body: bytes) -> tuple[tuple[int, int, int, int, int], int, int]:
    """The fixed part of a body, and where the settings and the schema's name behind it end.

    Raises:
        MalformedPacketError: a length is beyond the end, or no NUL byte follows the schema's name.
    """
    if len(body) < _FIXED.size:
        raise MalformedPacketError("a QUERY event ends within its fixed part")
    thread, seconds, schema_bytes, error, status_bytes = _FIXED.unpack_from(body)
    status_end = _FIXED.size + status_bytes
    schema_end = status_end + schema_bytes
    if schema_end >= len(body):
        raise MalformedPacketError("a QUERY event ends within its schema's name")
    if body[schema_end]:
        raise MalformedPacketError("no NUL byte follows a schema's name")
    return (thread, seconds, schema_bytes, error, status_bytes), status_end, schema_end


def _parse_status(data: bytes) -> dict[int, bytes]:
    reader = wire.Reader(data)
    status: dict[int, bytes] = {}
    while reader.remaining:
        code = reader.u8()
        try:
            known = StatusCode(code)
        except ValueError:
            status[code] = reader.rest()  # of a newer server; its length is not known
            break
        status[code] = _value(known, reader)
    return status


def _value(code: StatusCode, reader: wire.Reader) -> bytes:
    if code in _FIXED_LENGTHS:
        return reader.take(_FIXED_LENGTHS[code])
    if code == StatusCode.CATALOG:
        length = reader.u8()
        return bytes((length,)) + reader.take(length + 1)
    if code in (StatusCode.TIME_ZONE, StatusCode.CATALOG_NZ):
        length = reader.u8()
        return bytes((length,)) + reader.take(length)
    if code == StatusCode.INVOKER:
        parts = b""
        for _ in range(2):
            length = reader.u8()
            parts += bytes((length,)) + reader.take(length)
        return parts
    # UPDATED_DB_NAMES: a count, then names that end with a NUL byte.
    count = reader.u8()
    names = b""
    if count != _MANY_SCHEMAS:
        names = b"".join(reader.null_terminated() + b"\0" for _ in range(count))
    return bytes((count,)) + names

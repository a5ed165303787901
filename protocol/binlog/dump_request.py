"""COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID, COM_REGISTER_SLAVE: what a reader of a log sends."""

from dataclasses import dataclass
from typing import Final

from protocol import wire
from protocol.constants import Command
from protocol.errors import MalformedPacketError
from protocol.gtid import EMPTY, GtidSet

NON_BLOCKING: Final = 1
"""The answer ends where the log ends."""
HEARTBEATS_V2: Final = 2
"""Heartbeats are to be of version 2."""


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """COM_BINLOG_DUMP_GTID, or COM_BINLOG_DUMP, which names no transactions.

    Attributes:
        server_id: of the reader.
        executed: the transactions that the reader has; None makes it a COM_BINLOG_DUMP.
        flags: `NON_BLOCKING` and others.
        file: the file to begin with; "" lets the server find it.
        position: where to begin in that file, in bytes.
    """

    server_id: int
    executed: GtidSet | None = EMPTY
    flags: int = 0
    file: str = ""
    position: int = 4

    @classmethod
    def parse(cls, payload: bytes) -> "DumpRequest":
        """Reads a whole payload.

        Raises:
            MalformedPacketError: a length is beyond the end.
            MalformedGtidSetError: the set is malformed.
        """
        reader = wire.Reader(payload)
        command = reader.u8()
        if command == Command.COM_BINLOG_DUMP:
            position, flags, server_id = reader.u32(), reader.u16(), reader.u32()
            return cls(server_id, None, flags, wire.decode_text(reader.rest()), position)
        if command != Command.COM_BINLOG_DUMP_GTID:
            raise MalformedPacketError("not a request for a binary log")
        flags, server_id = reader.u16(), reader.u32()
        file = wire.decode_text(reader.take(reader.u32()))
        position = reader.u64()
        executed = GtidSet.from_binary(reader.take(reader.u32()))
        reader.expect_end()
        return cls(server_id, executed, flags, file, position)

    def serialise(self) -> bytes:
        """The whole payload."""
        file = wire.encode_text(self.file)
        if self.executed is None:
            return b"".join((
                bytes((Command.COM_BINLOG_DUMP,)), self.position.to_bytes(4, "little"),
                self.flags.to_bytes(2, "little"), self.server_id.to_bytes(4, "little"), file,
            ))  # fmt: skip
        executed = self.executed.to_binary()
        return b"".join((
            bytes((Command.COM_BINLOG_DUMP_GTID,)), self.flags.to_bytes(2, "little"),
            self.server_id.to_bytes(4, "little"), len(file).to_bytes(4, "little"), file,
            self.position.to_bytes(8, "little"), len(executed).to_bytes(4, "little"), executed,
        ))  # fmt: skip

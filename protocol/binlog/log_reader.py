"""Reads events from a file's bytes or from a stream's packets, and checks each of them."""

from typing import Final

from protocol.binlog.event import (
    CHECKSUM_BYTES,
    HEADER_BYTES,
    MAX_EVENT_BYTES,
    Event,
    EventType,
    Header,
    crc32,
)
from protocol.binlog.format_description import FormatDescription
from protocol.errors import MalformedBinlogError, MalformedPacketError

MAGIC: Final = b"\xfebin"
ENCRYPTED_MAGIC: Final = b"\xfdbin"


class EventParser:
    """Parses whole events; a format description says how the events after it are read.

    Args:
        checksum: whether events before the first format description have a checksum.

    Attributes:
        format: the newest format description, None before the first.
    """

    def __init__(self, *, checksum: bool = True) -> None:
        self.format: FormatDescription | None = None
        self._checksum = checksum

    def parse(self, data: bytes, position: int, header: Header | None = None) -> Event:
        """Parses one event, from its header to its checksum.

        Args:
            data: the event.
            position: where it begins in its file.
            header: what `data` begins with, if that was parsed before.

        Raises:
            MalformedBinlogError: a length or a checksum is wrong.
        """
        if len(data) < HEADER_BYTES:
            raise MalformedBinlogError(position, f"{len(data)} bytes are too few for an event")
        if header is None:
            header = Header.parse(data)
        if header.length != len(data):
            raise MalformedBinlogError(
                position, f"an event claims {header.length} bytes, but has {len(data)}"
            )
        described = None
        if header.type == EventType.FORMAT_DESCRIPTION:
            try:
                described = FormatDescription.parse(data[HEADER_BYTES:])
            except MalformedPacketError as error:
                raise MalformedBinlogError(position, str(error)) from error
        end = len(data)
        if described is not None or self._checksum:
            end -= CHECKSUM_BYTES
            if end < HEADER_BYTES:
                raise MalformedBinlogError(position, "an event is too short for its checksum")
            # Even in a log without checksums, a format description has room for one.
            stored = int.from_bytes(data[end:], "little")
            counts = described is None or described.checksum
            if counts and stored != (found := crc32(data[:end])):
                raise MalformedBinlogError(
                    position,
                    f"the checksum of an event of {len(data)} bytes is wrong: "
                    f"stored {stored:#010x}, computed {found:#010x}",
                )
        if described is not None:
            self.format = described
            self._checksum = described.checksum
        return Event(position, header, data[HEADER_BYTES:end])


class LogReader:
    """Takes a file's bytes in pieces of any size, and returns its events.

    Attributes:
        position: offset of the next event in the file.
    """

    def __init__(self) -> None:
        self.position = 0
        self._parser = EventParser()
        self._data = bytearray()

    @property
    def format(self) -> FormatDescription | None:
        """The newest format description."""
        return self._parser.format

    def receive_data(self, data: bytes) -> None:
        """Takes the file's next bytes."""
        self._data += data

    def next_event(self) -> Event | None:
        """The next event; None if more of its bytes must come.

        Raises:
            MalformedBinlogError: the file is damaged, encrypted, or no binary log.
        """
        if self.position == 0:
            if len(self._data) < len(MAGIC):
                return None
            self._check_magic(bytes(self._data[: len(MAGIC)]))
            self._advance(len(MAGIC))
        if len(self._data) < HEADER_BYTES:
            return None
        header = Header.parse(bytes(self._data[:HEADER_BYTES]))
        if not HEADER_BYTES <= header.length <= MAX_EVENT_BYTES:
            raise MalformedBinlogError(
                self.position, f"an event claims a length of {header.length} bytes"
            )
        if self.format is None and header.type != EventType.FORMAT_DESCRIPTION:
            raise MalformedBinlogError(
                self.position, f"the first event is of type {header.type}, not a format description"
            )
        if len(self._data) < header.length:
            return None
        event = self._parser.parse(bytes(self._data[: header.length]), self.position)
        self._advance(header.length)
        return event

    def finish(self) -> None:
        """The file has ended.

        Raises:
            MalformedBinlogError: it ended within an event, or before the first one.
        """
        if self.position == 0:
            raise MalformedBinlogError(0, f"{len(self._data)} bytes are not a binary log")
        if self._data:
            wanted = "a header"
            if len(self._data) >= HEADER_BYTES:
                header = Header.parse(bytes(self._data[:HEADER_BYTES]))
                wanted = f"an event of {header.length} bytes"
            raise MalformedBinlogError(
                self.position, f"the file ends after {len(self._data)} bytes of {wanted}"
            )

    def _advance(self, count: int) -> None:
        del self._data[:count]
        self.position += count

    def _check_magic(self, magic: bytes) -> None:
        if magic == ENCRYPTED_MAGIC:
            raise MalformedBinlogError(
                0, "the file is encrypted (binlog_encryption=ON); only its server can read it"
            )
        if magic != MAGIC:
            raise MalformedBinlogError(0, f"the file is not a binary log: it begins {magic.hex()}")

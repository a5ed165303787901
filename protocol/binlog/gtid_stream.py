"""The GTID events in the answer to COM_BINLOG_DUMP_GTID; all others are skipped and not kept.

Each packet is an OK byte and an event, or ERR or EOF. An event of 16 MiB or more is in several
frames (fact 7.7). Of a skipped event only the header is read, so its checksum is not verified.
"""

from typing import Final

from protocol.binlog.event import HEADER_BYTES, EventType, Header
from protocol.binlog.gtid_event import GtidEvent, parse_gtid_event
from protocol.binlog.log_reader import EventParser
from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.errors import MalformedBinlogError, ProtocolError
from protocol.response import ErrPacket

_FRAME: Final = 4
_OK: Final = 0x00
_ERR: Final = 0xFF
_EOF: Final = 0xFE
_LONGEST_KEPT: Final = 16 << 10
_KEPT: Final = GtidEvent.TYPES | {EventType.FORMAT_DESCRIPTION}


class GtidStream:
    """Takes the bytes of the answer, however they are cut.

    It keeps no more than one event that it reads, 16 KiB at most, and the newest piece.

    Attributes:
        error: the error with which the server ended the answer, if it did.
        ended: the answer has ended, with an error or without.
    """

    def __init__(self) -> None:
        self.error: ErrPacket | None = None
        self.ended = False
        self._parser = EventParser()
        self._data = bytearray()
        self._skip = 0  # bytes of a frame that are still to come and not wanted
        self._left = 0  # bytes of the packet's event after the newest frame
        self._joins = False  # the next frame continues the same packet

    @property
    def begun(self) -> bool:
        """Whether the server has begun to send a log."""
        return self._parser.format is not None

    def receive_data(self, data: bytes) -> list[GtidEvent]:  # noqa: C901 one walk over frames
        """Takes the server's next bytes; returns the GTID events that they complete.

        Raises:
            MalformedBinlogError: a length, a checksum, or the content of a GTID event is wrong.
            MalformedPacketError: an ERR packet is malformed.
        """
        self._data += data
        data = bytes(self._data)
        found: list[GtidEvent] = []
        offset = 0
        while not self.ended:
            step = min(self._skip, len(data) - offset)
            offset += step
            self._skip -= step
            if self._skip or len(data) - offset < _FRAME:
                break
            length = int.from_bytes(data[offset : offset + 3], "little")
            if self._joins:
                self._join(length)
                offset += _FRAME
                continue
            begin = offset + _FRAME
            if len(data) - begin < min(length, 1 + HEADER_BYTES):
                break
            if length == 0:
                raise MalformedBinlogError(0, "an empty packet is no event")
            mark = data[begin]
            kept = mark != _OK
            if mark == _OK:
                if length <= HEADER_BYTES:
                    raise MalformedBinlogError(0, f"{length - 1} bytes are too few for an event")
                header = Header.parse(data[begin + 1 : begin + 1 + HEADER_BYTES])
                self._begin(header, length)
                kept = header.type in _KEPT
            if not kept:
                offset, self._skip = begin, length
                continue
            if length > _LONGEST_KEPT:
                raise MalformedBinlogError(0, f"{length} bytes are too many for such an event")
            if len(data) - begin < length:
                break
            offset = begin + length
            event = self._take(data[begin:offset])
            if event is not None:
                found.append(event)
        del self._data[:offset]
        return found

    def _begin(self, header: Header, length: int) -> None:
        """Compare the event's own length with that of its packet's first frame."""
        self._joins = length == MAX_PACKET_PAYLOAD
        self._left = 1 + header.length - length
        if self._left < 0 or (self._left and not self._joins):
            raise self._differs(header.length)

    def _join(self, length: int) -> None:
        self._joins = length == MAX_PACKET_PAYLOAD
        self._left -= length
        self._skip = length
        if self._left < 0 or (self._left and not self._joins):
            raise self._differs(None)

    def _differs(self, length: int | None) -> MalformedBinlogError:
        claimed = "an event" if length is None else f"an event of {length} bytes"
        return MalformedBinlogError(0, f"{claimed} is in a packet of another length")

    def _take(self, payload: bytes) -> GtidEvent | None:
        if payload[0] == _ERR:
            self.ended, self.error = True, ErrPacket.parse(payload)
            return None
        if payload[0] == _EOF:
            self.ended = True
            return None
        if payload[0] != _OK:
            raise MalformedBinlogError(0, f"a packet begins with {payload[0]:#04x}")
        header = Header.parse(payload[1:])
        position = max(0, header.next_position - header.length)
        if self._parser.format is None and header.type != EventType.FORMAT_DESCRIPTION:
            raise MalformedBinlogError(position, "a transaction comes before the log's format")
        event = self._parser.parse(payload[1:], position)
        if event.type == EventType.FORMAT_DESCRIPTION:
            return None
        try:
            return parse_gtid_event(event.type, event.body)
        except ProtocolError as error:
            raise MalformedBinlogError(position, str(error)) from error

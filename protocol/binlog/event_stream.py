"""The events in the answer to COM_BINLOG_DUMP_GTID, of which only those that are wanted are kept.

Each packet is an OK byte and an event, or ERR or EOF. An event of 16 MiB or more is in several
frames (fact 7.7). Of a skipped event only the header is read, so its checksum is not verified.
"""

from collections.abc import Mapping
from typing import Final

from protocol.binlog.event import HEADER_BYTES, Event, EventType, Header
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.log_reader import EventParser
from protocol.constants import MAX_PACKET_PAYLOAD
from protocol.errors import MalformedBinlogError
from protocol.response import ErrPacket

_FRAME: Final = 4
_OK: Final = 0x00
_ERR: Final = 0xFF
_EOF: Final = 0xFE
_LONGEST_ALWAYS: Final = 16 << 10
_ALWAYS: Final = GtidEvent.TYPES | {EventType.FORMAT_DESCRIPTION}


class EventStream:
    """Takes the bytes of the answer, however they are cut.

    It keeps no more than one event that is read, and the newest piece.

    Args:
        longest: the types that are read besides GTID events, and how many bytes such an event may
            have with the OK byte before it; a longer one is skipped. Less than 16 MiB.

    Attributes:
        error: the error with which the server ended the answer, if it did.
        ended: the answer has ended, with an error or without.
    """

    def __init__(self, longest: Mapping[int, int]) -> None:
        self._longest = longest
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

    def receive_data(self, data: bytes) -> list[Event | Header]:  # noqa: C901 one walk over frames
        """Takes the server's next bytes; returns the events that they complete.

        Of those that are skipped it returns the header, as soon as that is there.

        Raises:
            MalformedBinlogError: a length or a checksum is wrong.
            MalformedPacketError: an ERR packet is malformed.
        """
        self._data += data
        data = bytes(self._data)
        found: list[Event | Header] = []
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
            always = True
            header: Header | None = None
            if data[begin] == _OK:
                if length <= HEADER_BYTES:
                    raise MalformedBinlogError(0, f"{length - 1} bytes are too few for an event")
                header = Header.parse(data[begin + 1 : begin + 1 + HEADER_BYTES])
                self._begin(header, length)
                always = header.type in _ALWAYS
                if not always and length > self._longest.get(header.type, 0):
                    found.append(header)
                    offset, self._skip = begin, length
                    continue
            if always and length > _LONGEST_ALWAYS:
                raise MalformedBinlogError(0, f"{length} bytes are too many for such an event")
            if len(data) - begin < length:
                break
            offset = begin + length
            event = self._take(data[begin:offset], header)
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

    def _take(self, payload: bytes, header: Header | None) -> Event | None:
        """Take a whole packet; `header` is that of its event, if it has one."""
        if payload[0] == _ERR:
            self.ended, self.error = True, ErrPacket.parse(payload)
            return None
        if payload[0] == _EOF:
            self.ended = True
            return None
        if header is None:
            raise MalformedBinlogError(0, f"a packet begins with {payload[0]:#04x}")
        position = max(0, header.next_position - header.length)
        if self._parser.format is None and header.type in GtidEvent.TYPES:
            raise MalformedBinlogError(position, "a transaction comes before the log's format")
        return self._parser.parse(payload[1:], position, header)

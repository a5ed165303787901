"""The GTID events in the answer to COM_BINLOG_DUMP_GTID; all others are skipped and not kept."""

from protocol.binlog.decode import decode
from protocol.binlog.event import Event
from protocol.binlog.event_stream import EventStream
from protocol.binlog.gtid_event import GtidEvent


class GtidStream:
    """Takes the bytes of the answer, however they are cut.

    Attributes:
        events: the events, of which no others are kept.
    """

    def __init__(self) -> None:
        self.events = EventStream({})

    def receive_data(self, data: bytes) -> list[GtidEvent]:
        """Takes the server's next bytes; returns the GTID events that they complete.

        Raises:
            MalformedBinlogError: a length, a checksum, or the content of a GTID event is wrong.
            MalformedPacketError: an ERR packet is malformed.
        """
        found = []
        for event in self.events.receive_data(data):
            if isinstance(event, Event):
                decoded = decode(event)
                if isinstance(decoded, GtidEvent):
                    found.append(decoded)
        return found

"""The transactions of one file, as far as it can be read."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from protocol.binlog.decode import decode, is_known
from protocol.binlog.event import Event
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.log_reader import LogReader
from protocol.errors import MalformedBinlogError
from proxy.error_text import error_text

_PIECE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction's first event.

    Attributes:
        file: as the user named it.
        event: the event's place and header.
        gtid_event: the event's content.
    """

    file: str
    event: Event
    gtid_event: GtidEvent


@dataclass(slots=True)
class LogFile:
    """One binary or relay log.

    Attributes:
        path: where it is.
        damage: why reading ended early: the fault with its position; "" if the file is whole.
        unknown: how many events of each type were skipped by their length.
    """

    path: Path
    damage: str = ""
    unknown: Counter[int] = field(default_factory=Counter)

    def transactions(self) -> Iterator[Transaction]:
        """Yield its transactions up to its end, or up to the fault that `damage` then names."""
        try:
            for event in self._events():
                if not is_known(event):
                    self.unknown[event.type] += 1
                elif event.type in GtidEvent.TYPES:
                    gtid_event = decode(event)
                    if isinstance(gtid_event, GtidEvent):
                        yield Transaction(str(self.path), event, gtid_event)
        except MalformedBinlogError as error:
            self.damage = str(error)
        except OSError as error:
            self.damage = error.strerror or error_text(error)

    def _events(self) -> Iterator[Event]:
        reader = LogReader()
        with self.path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                reader.receive_data(piece)
                yield from iter(reader.next_event, None)
        reader.finish()

"""The binary logs in tests/vectors/binlog, which tests/real_mysql/binlog_vectors.py made."""

from pathlib import Path

from protocol.binlog.decode import Decoded, decode
from protocol.binlog.event import Event
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.log_reader import LogReader

DIRECTORY = Path(__file__).parent.parent / "vectors" / "binlog"
NAMES = sorted(path.stem for path in DIRECTORY.glob("*.binlog"))


def load(name: str) -> bytes:
    """A whole file."""
    return (DIRECTORY / f"{name}.binlog").read_bytes()


def events(data: bytes) -> list[Event]:
    """All events of a file that is whole."""
    reader = LogReader()
    reader.receive_data(data)
    found = list(iter(reader.next_event, None))
    reader.finish()
    return found


def decoded(name: str) -> list[Decoded]:
    """What the events of a file say."""
    return [decode(event) for event in events(load(name))]


def gtid_events(name: str) -> list[GtidEvent]:
    """The events in front of a kept file's transactions."""
    return gtid_events_of(load(name))


def gtid_events_of(data: bytes) -> list[GtidEvent]:
    """The events in front of a file's transactions."""
    decoded = map(decode, events(data))
    return [event for event in decoded if isinstance(event, GtidEvent)]

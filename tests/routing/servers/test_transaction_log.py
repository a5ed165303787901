"""A log that comes is entered into the tables, or it is found not to follow what came before."""

import pytest

from protocol.binlog.commit_timestamps import CommitTimestamps
from protocol.binlog.event import EventType, encode_event
from protocol.binlog.format_description import FormatDescription
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.query_event import QueryEvent
from protocol.errors import MalformedBinlogError, MalformedPacketError
from protocol.gtid import Gtid, GtidSet
from protocol.packet import frame
from routing.servers.transaction_log import TransactionLog
from routing.servers.transaction_tables import TableName, TransactionTables

A = "168066ae-e53d-11f1-b607-02fc00000001"
START = GtidSet.parse(f"{A}:1-9")
FORMAT = EventType.FORMAT_DESCRIPTION, FormatDescription("9.7.4").serialise()
T1 = TableName("app", "t1")


def encoded(kind: int, body: bytes) -> bytes:
    return encode_event(kind, body, timestamp=1, server_id=1, position=4)


def previous(gtids: str) -> tuple[int, bytes]:
    return EventType.PREVIOUS_GTIDS, GtidSet.parse(gtids).to_binary()


def transaction(number: int, *parts: tuple[int, bytes]) -> list[tuple[int, bytes]]:
    length = 0
    for _ in range(4):  # until the length of the length is right
        times = CommitTimestamps(5, 5)
        gtid = GtidEvent(Gtid(A, number), 1, 2, times, length, 90704).serialise()
        length = sum(len(encoded(*part)) for part in ((EventType.GTID, gtid), *parts))
    return [(EventType.GTID, gtid), *parts]


def rows(number: int) -> list[tuple[int, bytes]]:
    """A transaction that changes rows of T1."""
    return transaction(
        number,
        (EventType.QUERY, QueryEvent("app", b"BEGIN").serialise()),
        (EventType.TABLE_MAP, bytes(8) + b"\x03app\0\x02t1\0\x01\x03\0\0"),
        (EventType.WRITE_ROWS, bytes(100)),
        (EventType.XID, bytes(8)),
    )


def ddl(number: int) -> list[tuple[int, bytes]]:
    """A transaction that may have changed anything."""
    return transaction(number, (EventType.QUERY, QueryEvent("app", b"TRUNCATE t1").serialise()))


def stream(*events: tuple[int, bytes]) -> bytes:
    packets = [frame(b"\0" + encoded(*event), n % 256) for n, event in enumerate(events)]
    return b"".join(packets)


def log() -> tuple[TransactionTables, TransactionLog]:
    tables = TransactionTables(1 << 20)
    return tables, TransactionLog(tables, 7, START, 0)


@pytest.mark.parametrize("piece", [1, 100, 10_000])
def test_what_comes_is_entered(piece: int) -> None:
    tables, reader = log()
    data = stream(FORMAT, previous(f"{A}:1-5"), *rows(10), *ddl(11), *rows(12))
    assert not tables.begun
    for at in range(0, len(data), piece):
        reader.receive_data(data[at : at + piece])
    assert tables.term == 7
    assert tables.read_through == GtidSet.parse(f"{A}:1-12")
    assert tables.count() == 2
    required, applied = GtidSet.parse(f"{A}:10-12"), GtidSet.parse(f"{A}:1-9:11")
    assert tables.still_required(required, applied, frozenset({T1})) is required
    other = frozenset({TableName("app", "t2")})
    assert tables.still_required(required, applied, other) == GtidSet.parse(f"{A}:11")
    assert tables.still_required(required, START, other) is required
    reader.receive_data(stream(FORMAT, previous(f"{A}:1-12"), *rows(13)))
    assert tables.read_through == GtidSet.parse(f"{A}:1-13")


def test_it_begins_with_the_log_and_not_before() -> None:
    tables, reader = log()
    reader.receive_data(frame(b"\xff\xd4\x04#HY000purged", 1))
    assert not tables.begun
    assert reader.events.error is not None
    assert reader.events.error.code == 1236


def test_a_file_before_which_something_else_was_committed_is_refused() -> None:
    _, reader = log()
    with pytest.raises(MalformedBinlogError, match="were not read"):
        reader.receive_data(stream(FORMAT, previous(f"{A}:1-10")))
    _, reader = log()
    reader.receive_data(stream(FORMAT, previous(f"{A}:1-9"), *rows(10)))
    with pytest.raises(MalformedBinlogError, match="were not read"):
        reader.receive_data(stream(FORMAT, previous(f"{A}:1-11")))


def test_a_transaction_that_was_not_to_come_is_refused() -> None:
    for events in (rows(9), ddl(9), [*rows(10), *rows(10)], [*rows(10), *ddl(10)]):
        _, reader = log()
        with pytest.raises(MalformedBinlogError, match="not expected"):
            reader.receive_data(stream(FORMAT, *events))


def test_a_set_that_is_malformed_is_refused() -> None:
    _, reader = log()
    with pytest.raises((MalformedBinlogError, MalformedPacketError)):
        reader.receive_data(stream(FORMAT, (EventType.PREVIOUS_GTIDS, b"short")))

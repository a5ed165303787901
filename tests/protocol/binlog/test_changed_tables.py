"""What transactions changed, out of logs of a real server, and of logs that are made up."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from protocol.binlog.changed_tables import LONGEST, ChangeReader, Changes
from protocol.binlog.commit_timestamps import CommitTimestamps
from protocol.binlog.event import ARTIFICIAL, Event, EventType, Header, encode_event
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.query_event import QueryEvent
from protocol.binlog.transaction_payload import NONE, ZSTD, TransactionPayload
from protocol.errors import MalformedBinlogError, ProtocolError
from protocol.gtid import Gtid
from tests.support import binlogs

A = "168066ae-e53d-11f1-b607-02fc00000001"
CHECKSUM = 4
OTHER = 99
"""A type that nobody knows."""


def read(events: Iterable[Event | Header]) -> list[Changes]:
    reader = ChangeReader()
    return [changes for event in events if (changes := reader.take(event)) is not None]


def query(sql: bytes, error: int = 0) -> tuple[int, bytes]:
    return EventType.QUERY, QueryEvent("app", sql, error_code=error).serialise()


def table_map(table: str, schema: str = "app") -> tuple[int, bytes]:
    names = b"".join(bytes([len(name)]) + name.encode() + b"\0" for name in (schema, table))
    return EventType.TABLE_MAP, bytes(8) + names + b"\x01\x03\0\0"


ROWS = EventType.WRITE_ROWS, bytes(20)
BEGIN = query(b"BEGIN")
COMMIT = query(b"COMMIT")
XID = EventType.XID, bytes(8)


def event(kind: int, body: bytes, flags: int = 0) -> Event:
    return Event(4, Header(1, kind, 1, 19 + len(body) + CHECKSUM, 400, flags), body)


def transaction(*parts: tuple[int, bytes], number: int = 1, longer: int = 0) -> list[Event]:
    """A GTID event, and these; it says that it is so many bytes longer than it is."""
    events = [event(kind, body) for kind, body in parts]
    total = 0
    for _ in range(4):  # until the length of the length is right
        total = gtid_event(number, total).header.length + sum(e.header.length for e in events)
    return [gtid_event(number, total + longer), *events]


def gtid_event(number: int, length: int) -> Event:
    times = CommitTimestamps(5, 5)
    gtid = GtidEvent(Gtid(A, number), 1, 2, times, length, 90704)
    return event(EventType.GTID, gtid.serialise())


def payload(*parts: tuple[int, bytes], compressed: bool = True) -> tuple[int, bytes]:
    plain = b"".join(
        encode_event(kind, body, timestamp=1, server_id=1, position=4, checksum=False)
        for kind, body in parts
    )
    data = zstandard.compress(plain) if compressed else plain
    algorithm = ZSTD if compressed else NONE
    return EventType.TRANSACTION_PAYLOAD, TransactionPayload(
        data, algorithm, len(plain)
    ).serialise()


def changed(*names: str) -> frozenset[tuple[str, str]]:
    return frozenset(("app", name) for name in names)


def tables_of(*parts: tuple[int, bytes]) -> frozenset[tuple[str, str]] | None:
    (changes,) = read(transaction(*parts))
    assert changes.gtid == Gtid(A, 1)
    return changes.tables


@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize(
    ("parts", "tables"),
    [
        ((BEGIN, table_map("t1"), ROWS, XID), changed("t1")),
        ((BEGIN, table_map("t1"), ROWS, COMMIT), changed("t1")),
        (
            (BEGIN, table_map("t1"), table_map("t2"), ROWS, table_map("t1"), ROWS, XID),
            changed("t1", "t2"),
        ),
        (
            (BEGIN, query(b"SAVEPOINT `a`"), table_map("t1"), ROWS, query(b"ROLLBACK TO `a`"), XID),
            changed("t1"),
        ),
        ((BEGIN, (EventType.ROWS_QUERY, b"\x01x"), table_map("t1"), ROWS, XID), changed("t1")),
        ((BEGIN, table_map("t1"), (EventType.PARTIAL_UPDATE_ROWS, b"x"), XID), changed("t1")),
        ((BEGIN, XID), None),
        ((BEGIN, table_map("t1"), ROWS), None),
        ((BEGIN, query(b"UPDATE t1 SET a = 1"), XID), None),
        ((BEGIN, table_map("t1"), ROWS, query(b"UPDATE t1 SET a = 1"), XID), None),
        ((BEGIN, query(b"CREATE TABLE t1 (a INT)"), table_map("t1"), ROWS, XID), None),
        ((BEGIN, table_map("t1"), ROWS, query(b"COMMIT", 1), XID), None),
        ((BEGIN, table_map("t1"), ROWS, XID, ROWS), None),
        ((BEGIN, table_map("t1"), ROWS, query(b"ROLLBACK")), None),
        ((BEGIN, table_map("t1"), (OTHER, b""), ROWS, XID), None),
        ((BEGIN, table_map("t1"), (EventType.INTVAR, bytes(9)), ROWS, XID), None),
        ((BEGIN, BEGIN, table_map("t1"), ROWS, XID), None),
        ((query(b"BEGIN", 1), table_map("t1"), ROWS, XID), None),
        ((table_map("t1"), ROWS, XID), None),
        ((query(b"TRUNCATE t1"),), None),
        ((query(b"XA COMMIT 'x'"),), None),
        ((query(b"XA START 'x'"), table_map("t1"), ROWS, query(b"XA END 'x'"),
          (EventType.XA_PREPARE, bytes(13))), None),
        ((BEGIN, *[table_map(f"t{n}") for n in range(1001)], ROWS, XID), None),
    ],
)  # fmt: skip
def test_what_only_changes_rows_names_its_tables(
    parts: tuple[tuple[int, bytes], ...], tables: frozenset[tuple[str, str]] | None, wraps: bool
) -> None:
    assert tables_of(*([payload(*parts)] if wraps else parts)) == tables


def test_a_payload_is_the_whole_transaction() -> None:
    whole = (BEGIN, table_map("t1"), ROWS, XID)
    assert tables_of(payload(*whole, compressed=False)) == changed("t1")
    assert tables_of(payload(*whole), XID) is None
    assert tables_of(BEGIN, payload(*whole[1:])) is None
    assert tables_of(payload(payload(*whole))) is None
    large = BEGIN, table_map("t1"), (EventType.WRITE_ROWS, bytes(17 << 20)), XID
    assert tables_of(payload(*large)) is None
    with pytest.raises(MalformedBinlogError):
        tables_of((EventType.TRANSACTION_PAYLOAD, payload(*whole)[1][:-3]))
    with pytest.raises(MalformedBinlogError):
        tables_of((EventType.TRANSACTION_PAYLOAD, payload(*whole)[1][:-3] + b"xyz"))


@pytest.mark.parametrize("kind", [EventType.QUERY, EventType.TABLE_MAP])
def test_an_event_that_was_too_long_to_be_read_may_have_been_anything(kind: EventType) -> None:
    assert kind in LONGEST
    part = {EventType.QUERY: query(b"SAVEPOINT a"), EventType.TABLE_MAP: table_map("t1")}[kind]
    events: list[Event | Header] = list(transaction(BEGIN, part, table_map("t2"), ROWS, XID))
    assert read(events)[0].tables is not None
    skipped = events[2]
    assert isinstance(skipped, Event)
    events[2] = skipped.header
    assert read(events)[0].tables is None


def test_what_comes_between_is_no_transaction() -> None:
    first = transaction(BEGIN, table_map("t1"), ROWS, XID, number=7)
    second = transaction(BEGIN, table_map("t2"), ROWS, XID, number=8)
    heartbeat = event(EventType.HEARTBEAT_V2, b"").header
    named = event(EventType.ROTATE, bytes(12), ARTIFICIAL).header
    rotate = event(EventType.ROTATE, bytes(12)).header
    events = [named, *first, heartbeat, rotate, named, *second[:2], heartbeat, *second[2:]]
    assert read(events) == [
        Changes(Gtid(A, 7), changed("t1")),
        Changes(Gtid(A, 8), changed("t2")),
    ]


def test_a_transaction_that_is_not_as_long_as_it_says_is_malformed() -> None:
    whole = transaction(BEGIN, table_map("t1"), ROWS, XID)
    cases: list[list[Event]] = [
        transaction(BEGIN, table_map("t1"), ROWS, XID, longer=-1),
        transaction(BEGIN, table_map("t1"), ROWS, XID, longer=1) + whole,
        [*whole[:-1], event(EventType.ROTATE, bytes(12))],
        whole[1:],
        [event(EventType.ANONYMOUS_GTID, GtidEvent(None).serialise())],
        [event(EventType.GTID, GtidEvent(Gtid(A, 1)).serialise())],
        [event(EventType.GTID, b"short")],
    ]
    for events in cases:
        with pytest.raises(MalformedBinlogError):
            read(events)


def logged(name: str) -> list[tuple[str, frozenset[str] | None]]:
    return [
        (str(gtid), None if tables is None else frozenset(table for _, table in tables))
        for gtid, tables in read(binlogs.events(binlogs.load(name)))
    ]


def test_logs_of_a_real_server() -> None:
    for name in ("transactions", "compressed", "no_checksum", "kinds"):
        found = logged(name)
        assert [gtid for gtid, _ in found] == [str(e.gtid) for e in binlogs.gtid_events(name)]
    tables = Counter(tables for _, tables in logged("transactions"))
    assert tables[frozenset({"t"})] == 6
    assert tables[None] == len(logged("transactions")) - 6
    assert any(tables for _, tables in logged("compressed"))
    with pytest.raises(MalformedBinlogError):
        logged("anonymous")


@given(
    st.lists(st.tuples(st.sampled_from([*EventType, OTHER]), st.binary(max_size=60)), max_size=8)
)
def test_nonsense_raises_nothing_else(parts: list[tuple[int, bytes]]) -> None:
    with suppress(ProtocolError):
        read(transaction(BEGIN, table_map("t1"), ROWS, *parts, XID))
    with suppress(ProtocolError):
        read(transaction(payload(BEGIN, *parts, XID)))


@given(st.data())
def test_changes_of_rows_end_whole_or_not_at_all(data: st.DataObject) -> None:
    parts = [BEGIN, table_map("t1"), ROWS, table_map("t2"), ROWS, XID]
    events = transaction(*parts)
    at = data.draw(st.integers(1, len(parts)))
    lacking = events[:at] + events[at + 1 :]
    assert read(lacking) == []
    with pytest.raises(MalformedBinlogError):
        read([*lacking, *transaction(*parts, number=2)])

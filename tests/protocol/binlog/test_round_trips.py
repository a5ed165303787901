"""What is written is read back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.binlog.commit_timestamps import UNDEFINED, CommitTimestamps, original_for
from protocol.binlog.dump_request import DumpRequest
from protocol.binlog.event import EventType, encode_event
from protocol.binlog.format_description import FormatDescription
from protocol.binlog.gtid_event import GtidEvent, parse_gtid_event
from protocol.binlog.heartbeat import HeartbeatEvent
from protocol.binlog.log_reader import MAGIC
from protocol.binlog.query_event import QueryEvent, StatusCode
from protocol.binlog.serialization import read_signed, read_unsigned, write_signed, write_unsigned
from protocol.binlog.transaction_payload import NONE, TransactionPayload
from protocol.errors import MalformedPacketError
from protocol.gtid import Gtid, GtidSet
from protocol.wire import Reader
from tests.support import binlogs

TIMES = st.integers(0, UNDEFINED - 1)
U32 = st.integers(0, 2**31 - 1)
U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(0, 2**63 - 1)
UUIDS = st.uuids().map(str)
TAGS = st.from_regex(r"[a-z_][a-z0-9_]{0,31}", fullmatch=True)
GTIDS = st.builds(Gtid, UUIDS | st.builds("{}:{}".format, UUIDS, TAGS), st.integers(1, 2**63 - 2))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@given(TIMES, TIMES | st.just(0))
def test_timestamps_take_7_bytes_if_they_are_equal_else_14(immediate: int, original: int) -> None:
    times = CommitTimestamps(original, immediate)
    data = times.serialise()
    assert len(data) == (7 if original == immediate else 14)
    assert bool(data[6] & 0x80) is (original != immediate)
    assert CommitTimestamps.parse(Reader(data)) == times


@given(st.integers(0, UNDEFINED - 1), st.integers(1, UNDEFINED - 1), st.booleans())
def test_a_known_original_time_is_kept(original: int, now: int, by_applier: bool) -> None:
    assert original_for(original, now, by_applier=by_applier) == original


def test_an_original_time_that_nobody_told_is_now_unless_an_applier_commits() -> None:
    assert original_for(UNDEFINED, 17, by_applier=False) == 17
    assert original_for(UNDEFINED, 17, by_applier=True) == 0


@given(U64)
def test_unsigned_integers_of_variable_length(value: int) -> None:
    data = write_unsigned(value)
    assert read_unsigned(Reader(data)) == value
    assert len(data) == min(9, max(1, -(-value.bit_length() // 7)))


@given(st.integers(-(2**63), 2**63 - 1))
def test_signed_integers_of_variable_length(value: int) -> None:
    assert read_signed(Reader(write_signed(value))) == value


@st.composite
def gtid_events(draw: st.DrawFn) -> GtidEvent:
    """Events as some version writes them: an optional part is there if all before it are."""
    gtid = draw(GTIDS | st.none())
    tagged = gtid is not None and len(gtid.tsid) > 36
    parts = 4 if tagged else draw(st.integers(0, 4))
    version = draw(U32) if parts >= 3 else None
    return GtidEvent(
        gtid,
        draw(I64),
        draw(I64),
        CommitTimestamps(draw(TIMES), draw(TIMES)) if parts >= 1 else None,
        draw(U64) if parts >= 2 else None,
        version,
        draw(U32 | st.just(version)) if version is not None else None,
        draw(U64 | (st.none() if tagged else st.nothing())) if parts >= 4 else None,
        draw(st.booleans()),
    )


@given(gtid_events())
def test_gtid_events_of_every_version(event: GtidEvent) -> None:
    assert parse_gtid_event(event.type, event.serialise()) == event


def test_the_short_event_of_5_7_has_no_timestamps() -> None:
    event = GtidEvent(Gtid("11111111-2222-3333-4444-555555555555", 9), 3, 4)
    body = event.serialise()
    assert len(body) == 42
    assert parse_gtid_event(EventType.GTID, body).timestamps is None


def test_a_field_that_a_newer_server_adds_is_skipped_unless_it_must_be_known() -> None:
    tsid = "11111111-2222-3333-4444-555555555555:tag"
    event = GtidEvent(Gtid(tsid, 9), 3, 4, CommitTimestamps(1, 2), 5, 90704, 90704)
    body = event.serialise()
    newer = bytes((body[0], body[1] + 4, body[2])) + body[3:] + bytes((12 << 1, 14))
    assert parse_gtid_event(EventType.GTID_TAGGED, newer) == event
    demanding = newer[:2] + write_unsigned(13) + newer[3:]
    with pytest.raises(MalformedPacketError, match="must be known"):
        parse_gtid_event(EventType.GTID_TAGGED, demanding)


@given(
    TEXTS.filter(lambda text: len(text.encode()) < 256), st.binary(max_size=80), U32, U32,
    st.integers(0, 65535), st.integers(0, 999_999),
)  # fmt: skip
def test_queries(
    schema: str, sql: bytes, thread: int, seconds: int, error: int, microseconds: int
) -> None:
    status: dict[int, bytes] = {
        StatusCode.SQL_MODE: bytes(8),
        StatusCode.TIME_ZONE: b"\x06SYSTEM",
        StatusCode.MICROSECONDS: microseconds.to_bytes(3, "little"),
        StatusCode.UPDATED_DB_NAMES: b"\x02a\0bc\0",
    }
    event = QueryEvent(schema, sql, thread, seconds, error, status)
    body = event.serialise()
    assert QueryEvent.parse(body) == event
    assert QueryEvent.statement(body) == (b"" if error else sql)
    for end in range(len(body) - len(sql)):
        with pytest.raises(MalformedPacketError):
            QueryEvent.statement(body[:end])
    assert event.microseconds == microseconds


@given(TEXTS, U64 | st.none())
def test_heartbeats(file: str, position: int | None) -> None:
    event = HeartbeatEvent(file, position)
    kind = EventType.HEARTBEAT if position is None else EventType.HEARTBEAT_V2
    assert HeartbeatEvent.parse(kind, event.serialise()) == event


@given(U32, st.lists(GTIDS, max_size=5), st.integers(0, 65535), TEXTS, U64)
def test_dump_requests(
    server_id: int, gtids: list[Gtid], flags: int, file: str, position: int
) -> None:
    executed = GtidSet.parse(",".join(map(str, gtids)))
    request = DumpRequest(server_id, executed, flags, file, position)
    assert DumpRequest.parse(request.serialise()) == request


@given(U32, st.integers(0, 65535), TEXTS, U32)
def test_dump_requests_by_position(server_id: int, flags: int, file: str, position: int) -> None:
    request = DumpRequest(server_id, None, flags, file, position)
    assert DumpRequest.parse(request.serialise()) == request


@given(st.binary(max_size=50))
def test_payloads(data: bytes) -> None:
    payload = TransactionPayload(data, NONE, len(data))
    assert TransactionPayload.parse(payload.serialise()) == payload


@given(st.booleans(), st.lists(st.tuples(st.integers(1, 60), st.binary(max_size=30)), max_size=5))
def test_a_file_of_any_events(checksum: bool, bodies: list[tuple[int, bytes]]) -> None:
    data = MAGIC
    described = FormatDescription("9.7.4", checksum=checksum).serialise()
    data += encode_event(
        EventType.FORMAT_DESCRIPTION, described, timestamp=1, server_id=2, position=4
    )
    bodies = [(kind, body) for kind, body in bodies if kind != EventType.FORMAT_DESCRIPTION]
    for kind, body in bodies:
        data += encode_event(
            kind, body, timestamp=1, server_id=2, position=len(data), checksum=checksum
        )
    events = binlogs.events(data)
    assert [(event.type, event.body) for event in events[1:]] == bodies
    assert events[-1].header.next_position == len(data)

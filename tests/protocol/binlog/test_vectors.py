"""Binary logs of a real server are read whole and written back as they were."""

import pytest

from protocol.binlog.commit_timestamps import CommitTimestamps
from protocol.binlog.decode import decode, is_known
from protocol.binlog.event import EventType, encode_event
from protocol.binlog.format_description import FormatDescription
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.query_event import QueryEvent, StatusCode
from protocol.binlog.rotate import RotateEvent
from protocol.binlog.statement_context import IntvarEvent, RandEvent, UserVariableEvent
from protocol.binlog.table_map import TableMap
from protocol.binlog.transaction_payload import TransactionPayload
from protocol.gtid import GtidSet
from tests.support import binlogs

TOLD = 1_600_000_000_123_456
SOURCE = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize("name", binlogs.NAMES)
def test_an_event_is_written_as_it_was_read(name: str) -> None:
    data = binlogs.load(name)
    checksum = True
    for event in binlogs.events(data):
        header = event.header
        event_body = decode(event)
        if isinstance(event_body, FormatDescription):
            checksum = event_body.checksum
        if isinstance(event_body, GtidSet):
            assert event_body.to_binary() == event.body
        elif event_body is not None and not isinstance(event_body, (int, TableMap)):
            assert event_body.serialise() == event.body
        written = encode_event(
            event.type,
            event.body,
            timestamp=header.timestamp,
            server_id=header.server_id,
            position=event.position,
            flags=header.flags,
            checksum=checksum or event.type == EventType.FORMAT_DESCRIPTION,
        )
        original = data[event.position : event.position + header.length]
        if event.type == EventType.FORMAT_DESCRIPTION and not checksum:
            # Without checksums the server leaves four bytes that count for nothing.
            written, original = written[:-4], original[:-4]
        assert written == original


@pytest.mark.parametrize("name", binlogs.NAMES)
def test_a_transaction_is_as_long_as_it_says(name: str) -> None:
    events = binlogs.events(binlogs.load(name))
    begins = [event for event in events if isinstance(decode(event), GtidEvent)]
    ends = [event.position for event in begins[1:]] + [events[-1].position]
    for event, end in zip(begins, ends, strict=True):
        decoded = decode(event)
        assert isinstance(decoded, GtidEvent)
        assert decoded.transaction_length == end - event.position


@pytest.mark.parametrize("name", binlogs.NAMES)
def test_every_type_is_known_but_one(name: str) -> None:
    unknown = [e for e in binlogs.events(binlogs.load(name)) if not is_known(e)]
    assert {event.type for event in unknown} <= {EventType.XA_PREPARE}


def test_gtids_of_every_kind() -> None:
    gtids = [str(event.gtid) for event in binlogs.gtid_events("transactions")]
    assert f"{SOURCE}:7" in gtids
    assert f"{SOURCE}:blue:3" in gtids
    assert any(":a_tag_of_exactly_32_characters_x:1" in gtid for gtid in gtids)
    types = {event.type for event in binlogs.gtid_events("transactions")}
    assert types == {EventType.GTID, EventType.GTID_TAGGED}
    assert {event.gtid for event in binlogs.gtid_events("anonymous")} == {None}


def test_both_forms_of_the_timestamps() -> None:
    for name in ("transactions", "anonymous"):
        times = [event.timestamps for event in binlogs.gtid_events(name)]
        assert all(time is not None and time.immediate > TOLD for time in times)
        assert {time.original for time in times if time and time.original != time.immediate} == (
            {TOLD, 0} if name == "transactions" else {TOLD}
        )
    tagged = [e for e in binlogs.gtid_events("transactions") if e.type == EventType.GTID_TAGGED]
    assert [e.timestamps is not None and e.timestamps.original == TOLD for e in tagged] == (
        [False, True, False]
    )


def test_lag_is_known_where_both_times_are() -> None:
    assert CommitTimestamps(5, 12).lag == 7
    assert CommitTimestamps(12, 5).lag == -7
    assert CommitTimestamps(0, 12).lag is None


def test_versions_and_statements() -> None:
    for event in binlogs.gtid_events("transactions"):
        assert event.immediate_server_version == event.original_server_version == 90704
    queries = [event for event in binlogs.decoded("transactions") if isinstance(event, QueryEvent)]
    moment = next(query for query in queries if b"NOW(6)" in query.sql)
    assert (moment.schema, moment.microseconds) == ("app", 123456)
    assert moment.status[StatusCode.TIME_ZONE] == b"\x06+00:00"


def test_what_a_statement_depends_on() -> None:
    decoded = binlogs.decoded("transactions")
    assert IntvarEvent(2, 100) in decoded
    assert UserVariableEvent("word", b"of a variable") in decoded
    assert any(isinstance(event, RandEvent) for event in decoded)
    assert isinstance(decoded[-1], RotateEvent)


def test_previous_gtids_in_both_forms() -> None:
    assert GtidSet() in binlogs.decoded("transactions")
    (previous,) = [event for event in binlogs.decoded("kinds") if isinstance(event, GtidSet)]
    assert f"{SOURCE}:7" in previous
    assert f"{SOURCE}:blue:3" in previous


def test_a_log_without_checksums() -> None:
    described = binlogs.decoded("no_checksum")[0]
    assert isinstance(described, FormatDescription)
    assert not described.checksum


def test_a_compressed_transaction_unfolds_to_its_events() -> None:
    (payload,) = [e for e in binlogs.decoded("compressed") if isinstance(e, TransactionPayload)]
    inside = payload.events(position=0)
    types = [event.type for event in inside]
    assert types == [
        EventType.QUERY, EventType.TABLE_MAP, EventType.WRITE_ROWS, EventType.XID,
    ]  # fmt: skip
    table = decode(inside[1])
    assert isinstance(table, TableMap)
    assert (table.schema, table.table) == ("app", "t")

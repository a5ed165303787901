"""ResponseStream finds every response's end, however the bytes are cut."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import Capability, FieldType
from protocol.errors import MalformedPacketError
from protocol.packet import frame
from protocol.response import EofPacket, ErrPacket, OkPacket, StmtPrepareOk
from protocol.response_stream import (
    FETCHED,
    FIELDS,
    PREPARED,
    RESULTS,
    SIMPLE,
    STRING,
    ResponseStream,
)
from protocol.resultset import ColumnDefinition41, text_resultset, text_row
from protocol.session_track import entry, state_change_entry

MODERN = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_DEPRECATE_EOF
    | Capability.CLIENT_SESSION_TRACK
)
OLD = Capability.CLIENT_PROTOCOL_41

MORE_RESULTS = 0x0008
CURSOR_EXISTS = 0x0040
STATE_CHANGED = 0x4000


def column(name: str = "a") -> ColumnDefinition41:
    return ColumnDefinition41(
        catalog="def",
        schema="",
        table="",
        org_table="",
        name=name,
        org_name="",
        character_set=255,
        column_length=80,
        type=FieldType.MYSQL_TYPE_VAR_STRING,
        flags=0,
        decimals=0,
    )


def ok(status: int = 2, session_state: bytes | None = None, header: int = 0) -> OkPacket:
    return OkPacket(
        affected_rows=0,
        last_insert_id=0,
        status=status,
        warnings=0,
        info=b"",
        session_state=session_state,
        header=header,
    )


def packets(*payloads: bytes, first: int = 1) -> bytes:
    return b"".join(frame(payload, first + k) for k, payload in enumerate(payloads))


def rows(capabilities: Capability, count: int, status: int = 2) -> bytes:
    values = [[b"%d" % k] for k in range(count)]
    return text_resultset([column()], values, capabilities, status)


def stream_for(capabilities: Capability) -> ResponseStream:
    return ResponseStream(
        deprecate_eof=bool(capabilities & Capability.CLIENT_DEPRECATE_EOF),
        session_track=bool(capabilities & Capability.CLIENT_SESSION_TRACK),
        optional_metadata=bool(capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA),
    )


def whole(stream: ResponseStream, data: bytes) -> None:
    assert stream.feed(data) == len(data)


def byte_by_byte(stream: ResponseStream, data: bytes) -> None:
    for k in range(len(data)):
        assert not stream.done, f"done {len(data) - k} bytes early"
        assert stream.feed(data[k : k + 1]) == 1


def with_trailing_bytes(stream: ResponseStream, data: bytes) -> None:
    assert stream.feed(data + b"\x07\x00\x00\x00trail") == len(data)


FEEDS = [whole, byte_by_byte, with_trailing_bytes]
Feed = Callable[[ResponseStream, bytes], None]


@pytest.fixture(params=FEEDS, ids=lambda feed: feed.__name__)
def feed(request: pytest.FixtureRequest) -> Feed:
    chosen: Feed = request.param
    return chosen


@pytest.mark.parametrize("capabilities", [MODERN, OLD], ids=["modern", "old"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_result_set(feed: Feed, capabilities: Capability, count: int) -> None:
    stream = stream_for(capabilities)
    stream.begin(RESULTS)
    feed(stream, rows(capabilities, count, status=0x22))
    assert stream.done
    assert stream.rows == count
    assert stream.status == 0x22
    assert stream.error is None


@pytest.mark.parametrize("capabilities", [MODERN, OLD], ids=["modern", "old"])
def test_results_follow_each_other_until_one_has_none_after_it(
    feed: Feed, capabilities: Capability
) -> None:
    stream = stream_for(capabilities)
    stream.begin(RESULTS)
    data = (
        packets(ok(MORE_RESULTS).serialise(capabilities))
        + rows(capabilities, 2, status=MORE_RESULTS)
        + packets(ok(2).serialise(capabilities))
    )
    feed(stream, data)
    assert stream.done
    assert stream.rows == 2


def test_every_ok_packet_of_a_response_gives_its_trackers(feed: Feed) -> None:
    stream = stream_for(MODERN)
    stream.begin(RESULTS)
    changed = STATE_CHANGED | MORE_RESULTS
    data = packets(
        ok(changed, b"\x02\x01\x31").serialise(MODERN),
        ok(STATE_CHANGED, b"\x02\x01\x30").serialise(MODERN),
    )
    feed(stream, data)
    assert stream.session_states == [b"\x02\x01\x31", b"\x02\x01\x30"]


def test_the_terminator_of_rows_gives_its_trackers(feed: Feed) -> None:
    stream = stream_for(MODERN)
    stream.begin(RESULTS)
    data = text_resultset(
        [column()], [[b"1"]], MODERN, STATE_CHANGED | 2, session_state=b"\x02\x01\x31"
    )
    feed(stream, data)
    assert stream.session_states == [b"\x02\x01\x31"]


GTIDS = entry(3, b"whatever")


@pytest.mark.parametrize("affected", [0, 1, 250, 251, 70_000])
@pytest.mark.parametrize("block", [None, b"", state_change_entry(True), GTIDS])
@pytest.mark.parametrize("info", [b"", b"Rows matched: 1  Changed: 1  Warnings: 0"])
def test_affected_rows_without_a_gtid(
    feed: Feed, affected: int, block: bytes | None, info: bytes
) -> None:
    status = 3 if block is None else 3 | STATE_CHANGED
    ok = OkPacket(affected, 0, status, 0, info, block)
    more = OkPacket(1, 0, MORE_RESULTS)
    stream = stream_for(MODERN)
    for _ in range(2):
        stream.begin(RESULTS)
        feed(stream, packets(more.serialise(MODERN), ok.serialise(MODERN)))
        changed = [(status, info)] if affected and block != GTIDS else []
        assert stream.unnamed == [(MORE_RESULTS, b""), *changed]


def test_error_at_once_and_in_place_of_the_rows_end(feed: Feed) -> None:
    error = ErrPacket(1064, "42000", "no").serialise(MODERN)
    stream = stream_for(MODERN)
    stream.begin(RESULTS)
    feed(stream, packets(error))
    assert stream.error == error
    stream.begin(RESULTS)
    feed(stream, packets(b"\x01", column().serialise(), error))
    assert stream.error == error
    assert stream.done


def test_an_error_ends_a_chain_of_results(feed: Feed) -> None:
    stream = stream_for(MODERN)
    stream.begin(RESULTS)
    error = ErrPacket(1064, "42000", "no").serialise(MODERN)
    feed(stream, packets(ok(MORE_RESULTS).serialise(MODERN), error))
    assert stream.done
    assert stream.error == error


def test_a_row_can_look_like_a_terminator_by_its_first_byte_only_when_it_is_short() -> None:
    # Without CLIENT_DEPRECATE_EOF a row whose first value is longer than 16 MiB starts with FE.
    stream = stream_for(OLD)
    stream.begin(RESULTS)
    long_row = b"\xfe" + (16).to_bytes(8, "little") + b"x" * 16
    eof = EofPacket(warnings=0, status=2).serialise()
    data = packets(b"\x01", column().serialise(), eof, long_row, eof)
    assert stream.feed(data) == len(data)
    assert stream.rows == 1


@pytest.mark.parametrize("size", [0xFFFFFE, 0xFFFFFF, 0x1000000, 0xFFFFFF * 2])
def test_rows_over_several_frames_count_once_and_continuations_are_not_read(size: int) -> None:
    # The continuation begins with FE, which must not end the rows (fact 1.2).
    row = b"\xfd\xff\xff\xff" + b"\xfe" * (size - 4)
    data = packets(b"\x01", column().serialise())
    framed = frame(row, 3)
    end = packets(ok(0x22, header=0xFE).serialise(MODERN), first=9)
    stream = stream_for(MODERN)
    stream.begin(RESULTS)
    for chunk in (data, framed[:70000], framed[70000:], end):
        assert not stream.done
        assert stream.feed(chunk) == len(chunk)
    assert stream.done
    assert stream.rows == 1
    assert stream.status == 0x22


@pytest.mark.parametrize(
    ("size", "step"), [(1 << 14, 1), (1 << 14, 3), (1 << 16, 1000), (1 << 20, 1 << 14)]
)
def test_a_long_packet_in_parts_is_joined_once(size: int, step: int) -> None:
    """Bytes are counted that a `feed` has joined from what was held back and what came."""
    payload = b"\xff\x15\x04#28000" + b"x" * size
    data = frame(payload, 1)
    stream = ResponseStream(True, True)
    joined = 0
    for begin in range(0, len(data), step):
        part = data[begin : begin + step]
        assert stream.feed(part) == len(part)
        if stream.chunk is not part:
            joined += len(stream.chunk)
        assert stream.done == (begin + step >= len(data))
    assert stream.error == payload
    assert joined <= len(data) + 3 * (step + 5)


@pytest.mark.parametrize("capabilities", [MODERN, OLD], ids=["modern", "old"])
def test_an_opened_cursor_ends_at_the_definitions(feed: Feed, capabilities: Capability) -> None:
    stream = stream_for(capabilities)
    stream.begin(RESULTS, asks_cursor=True)
    opened = CURSOR_EXISTS | 2
    eof = EofPacket(0, opened).serialise()
    if capabilities is MODERN:
        eof = ok(opened, header=0xFE).serialise(capabilities)
    feed(stream, packets(b"\x01", column().serialise(), eof))
    assert stream.done
    assert stream.cursor
    assert stream.missing_trackers == (capabilities is OLD)
    stream.begin(RESULTS, asks_cursor=True)
    feed(stream, packets(ok(opened).serialise(capabilities)))
    assert not stream.cursor


@pytest.mark.parametrize("capabilities", [MODERN, OLD], ids=["modern", "old"])
@pytest.mark.parametrize("asks_cursor", [False, True])
def test_a_cursor_inside_a_program_is_none_of_the_clients(
    feed: Feed, capabilities: Capability, asks_cursor: bool
) -> None:
    """A procedure's status tells of its own cursors, as that of a function's caller does."""

    def result(status: int) -> list[bytes]:
        eof = EofPacket(0, status).serialise()
        definitions = [b"\x01", column().serialise()]
        if capabilities is OLD:
            return [*definitions, eof, text_row([b"7"]), eof]
        return [*definitions, text_row([b"7"]), ok(status, header=0xFE).serialise(capabilities)]

    own = CURSOR_EXISTS | 2
    called = [*result(own | MORE_RESULTS), *result(own | MORE_RESULTS)]
    called.append(ok(own).serialise(capabilities))
    stream = stream_for(capabilities)
    stream.begin(RESULTS, asks_cursor=asks_cursor)
    feed(stream, packets(*called))
    assert (stream.done, stream.rows, stream.cursor) == (True, 2, False)
    if not asks_cursor:
        stream.begin(RESULTS)
        feed(stream, packets(*result(own)))
        assert (stream.done, stream.rows, stream.cursor) == (True, 1, False)


def test_an_ok_follows_out_parameters_though_their_last_eof_does_not_say_so(feed: Feed) -> None:
    def result(first: int, last: int) -> list[bytes]:
        eofs = [EofPacket(0, status).serialise() for status in (first, last)]
        return [b"\x01", column().serialise(), eofs[0], text_row([b"7"]), eofs[1]]

    more, out_parameters = 2 | MORE_RESULTS, 0x1000
    response = packets(*result(more, more), *result(more | out_parameters, 2), ok(3).serialise(OLD))
    stream = stream_for(OLD)
    stream.begin(RESULTS)
    feed(stream, response)
    assert (stream.done, stream.rows, stream.status, stream.missing_trackers) == (True, 2, 3, False)
    response = packets(*result(more, more), *result(more, 2))
    stream.begin(RESULTS)
    feed(stream, response)
    assert (stream.done, stream.rows, stream.status, stream.missing_trackers) == (True, 2, 2, True)


@pytest.mark.parametrize("capabilities", [MODERN, OLD], ids=["modern", "old"])
@pytest.mark.parametrize(("parameters", "columns"), [(0, 0), (2, 0), (0, 3), (2, 3)])
def test_prepared(feed: Feed, capabilities: Capability, parameters: int, columns: int) -> None:
    head = b"\x00\x07\x00\x00\x00" + bytes([columns, 0, parameters, 0, 0, 0, 0])
    eof = [] if capabilities is MODERN else [EofPacket(warnings=0, status=2).serialise()]
    payloads = [head]
    for count in (parameters, columns):
        if count:
            payloads += [column().serialise()] * count + eof
    stream = stream_for(capabilities)
    stream.begin(PREPARED)
    feed(stream, packets(*payloads))
    assert stream.done
    assert stream.head == head


def test_prepare_refused(feed: Feed) -> None:
    stream = stream_for(MODERN)
    stream.begin(PREPARED)
    feed(stream, packets(ErrPacket(1295, "HY000", "no").serialise(MODERN)))
    assert stream.done
    assert stream.head is None


@pytest.mark.parametrize("capabilities", [MODERN, OLD], ids=["modern", "old"])
def test_field_list_and_fetch(feed: Feed, capabilities: Capability) -> None:
    if capabilities is MODERN:
        end = ok(header=0xFE).serialise(MODERN)
    else:
        end = EofPacket(warnings=0, status=2).serialise()
    stream = stream_for(capabilities)
    stream.begin(FIELDS)
    feed(stream, packets(column().serialise(), column().serialise(), end))
    assert stream.done
    stream.begin(FETCHED)
    feed(stream, packets(text_row([b"1"]), text_row([b"2"]), end))
    assert stream.done
    assert stream.rows == 2


def test_statistics_is_bare_text(feed: Feed) -> None:
    stream = stream_for(MODERN)
    stream.begin(STRING)
    feed(stream, packets(b"Uptime: 12  Threads: 2"))
    assert stream.done


def test_simple_answers(feed: Feed) -> None:
    stream = stream_for(MODERN)
    for payload in (
        ok().serialise(MODERN),
        ok(header=0xFE).serialise(MODERN),
        EofPacket(warnings=0, status=2).serialise(),
    ):
        stream.begin(SIMPLE)
        feed(stream, packets(payload))
        assert stream.done


def test_local_infile_waits_for_the_client(feed: Feed) -> None:
    stream = stream_for(MODERN)
    stream.begin(RESULTS)
    data = packets(b"\xfb/tmp/file")
    stream.feed(data)
    assert stream.infile
    assert not stream.done
    with pytest.raises(MalformedPacketError):
        stream.feed(packets(ok().serialise(MODERN)))
    stream.begin(RESULTS)
    stream.feed(data)
    stream.infile_sent()
    feed(stream, packets(ok().serialise(MODERN), first=4))
    assert stream.done


def test_optional_metadata_left_out(feed: Feed) -> None:
    capabilities = MODERN | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
    stream = stream_for(capabilities)
    stream.begin(RESULTS)
    end = ok(header=0xFE).serialise(capabilities)
    feed(stream, packets(b"\x01\x00", text_row([b"1"]), end))
    assert stream.done
    assert stream.rows == 1


@pytest.mark.parametrize("metadata", [True, False])
@pytest.mark.parametrize("capabilities", [MODERN, OLD], ids=["modern", "old"])
@pytest.mark.parametrize(("columns", "parameters"), list(product((0, 1, 2), repeat=2)))
def test_prepared_statements_with_and_without_metadata(
    feed: Feed, capabilities: Capability, metadata: bool, columns: int, parameters: int
) -> None:
    capabilities |= Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
    parts = [StmtPrepareOk(7, columns, parameters, metadata=metadata).serialise(capabilities)]
    for group in filter(None, (parameters, columns)):
        parts += [column().serialise()] * (group if metadata else 0)
        if not capabilities & Capability.CLIENT_DEPRECATE_EOF:
            parts.append(EofPacket(0, 2).serialise())
    stream = stream_for(capabilities)
    stream.begin(PREPARED)
    feed(stream, packets(*parts))
    assert stream.done
    assert stream.head == parts[0]
    stream.begin(SIMPLE)
    feed(stream, packets(ok().serialise(capabilities)))
    assert stream.done


def test_the_first_row_is_kept_when_asked_for(feed: Feed) -> None:
    stream = stream_for(MODERN)
    stream.begin(RESULTS, keep_row=True)
    feed(stream, rows(MODERN, 2))
    assert stream.row == b"\x010"
    assert stream.rows == 2


@pytest.mark.parametrize(
    "payload",
    [b"\x00", b"\xff", b"\xfc", b"\x01\x01", b"\x00\x00\x00\x02\x40\x00\x00\x05", b"\x00\xff\x00"],
)
def test_malformed_control_packets_are_errors(payload: bytes) -> None:
    stream = stream_for(MODERN)
    stream.begin(RESULTS)
    with pytest.raises(MalformedPacketError):
        stream.feed(packets(payload))


def test_an_empty_packet_is_an_error() -> None:
    stream = stream_for(MODERN)
    stream.begin(RESULTS)
    with pytest.raises(MalformedPacketError):
        stream.feed(b"\x00\x00\x00\x01\x01")


@given(
    st.binary(max_size=300),
    st.sampled_from([RESULTS, SIMPLE, PREPARED, FIELDS, FETCHED, STRING]),
    st.sampled_from([MODERN, OLD]),
    st.integers(1, 50),
)
def test_garbage_ends_in_an_error_or_is_understood(
    data: bytes, shape: int, capabilities: Capability, step: int
) -> None:
    stream = stream_for(capabilities)
    stream.begin(shape)
    try:
        for k in range(0, len(data), step):
            if stream.done:
                break
            chunk = data[k : k + step]
            assert 0 <= stream.feed(chunk) <= len(chunk)
    except MalformedPacketError:
        pass


@given(st.data(), st.sampled_from([MODERN, OLD]), st.lists(st.integers(0, 4), max_size=4))
def test_any_cut_gives_the_same_end(
    data: st.DataObject, capabilities: Capability, counts: list[int]
) -> None:
    response = b"".join(rows(capabilities, n, status=MORE_RESULTS) for n in counts) + packets(
        ok().serialise(capabilities)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(response)), max_size=8)))
    stream = stream_for(capabilities)
    stream.begin(RESULTS)
    for start, end in zip([0, *cuts], [*cuts, len(response)], strict=True):
        assert stream.feed(response[start:end]) == end - start
    assert stream.done
    assert stream.rows == sum(counts)

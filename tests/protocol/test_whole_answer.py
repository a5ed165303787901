"""What is taken in one step, against the stream that walks it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import MAX_PACKET_PAYLOAD, Capability
from protocol.errors import MalformedPacketError
from protocol.gtid import GtidSet
from protocol.packet import frame
from protocol.response import EofPacket, ErrPacket, OkPacket
from protocol.response_stream import RESULTS, ResponseStream
from protocol.resultset import ColumnDefinition41, text_resultset
from protocol.session_track import gtids_entry, state_change_entry
from protocol.whole_answer import take

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OLD = Capability.CLIENT_PROTOCOL_41
TRACKING = OLD | Capability.CLIENT_SESSION_TRACK
MODERN = TRACKING | Capability.CLIENT_DEPRECATE_EOF
BARE = MODERN | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
FORMS = (OLD, TRACKING, MODERN, BARE)

GTID = gtids_entry(GtidSet.parse(f"{UUID}:7"))
TRACKED = 0x4002
BLOCKS = (None, b"", GTID, GTID + GTID, state_change_entry(True), GTID + state_change_entry(False))
STATUSES = (2, 0x22, 3, 0x2003, 0x0A, 0x42, 0x1002, 0x4002, 0x400A, 0xFFFF)
NUMBERS = (0, 1, 250, 251, 252, 70_000, 1 << 24, 1 << 40)

TOLD = (
    *(
        "done",
        "infile",
        "error",
        "status",
        "warnings",
        "missing_trackers",
        "cursor",
        "session_states",
    ),
    *(
        "unnamed",
        "rows",
        "sequence_id",
        "row",
        "head",
        "chunk",
        "chunk_start",
        "chunk_end",
        "tracker_packets",
    ),
)
"""What a stream tells of a response that has ended."""


def stream(capabilities: Capability, *, cursor: bool = False) -> ResponseStream:
    """One that has just read another response, which had whatever most have not."""
    made = ResponseStream(
        deprecate_eof=bool(capabilities & Capability.CLIENT_DEPRECATE_EOF),
        session_track=bool(capabilities & Capability.CLIENT_SESSION_TRACK),
        optional_metadata=bool(capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA),
    )
    made.begin(RESULTS, keep_row=True, asks_cursor=cursor)
    if cursor:
        made.feed(rows(capabilities, 1, [], 0x42))
        assert made.cursor
        return made
    made.feed(
        frame(OkPacket(5, 0, 0x400A, 3, b"text", GTID).serialise(TRACKING), 1)
        + frame(OkPacket(5, 0, 0x0A, 3, b"text").serialise(TRACKING), 2)
        + rows(capabilities, 1, [b"1"], 0x0A)
        + frame(ErrPacket(1064, "42000", "no").serialise(OLD), 9)
    )
    tracked = capabilities & Capability.CLIENT_SESSION_TRACK
    assert made.done
    assert made.error
    assert made.row
    assert made.unnamed
    assert not tracked or (made.session_states and made.tracker_packets)
    return made


def attributes_of(of: ResponseStream) -> dict[str, Any]:
    return {name: getattr(of, name) for name in TOLD}


def walked(capabilities: Capability, data: bytes, position: int, keep_row: bool) -> Any:
    """Where the stream says that the response ends, and what it tells; None if it is not whole."""
    parser = stream(capabilities)
    parser.begin(RESULTS, keep_row)
    try:
        end = parser.feed(data, position)
    except MalformedPacketError:
        return None
    return (end, attributes_of(parser)) if parser.done else None


def rows(
    capabilities: Capability,
    columns: int,
    values: list[bytes],
    status: int,
    block: bytes | None = None,
) -> bytes:
    definitions = [ColumnDefinition41(name=f"c{number}") for number in range(columns)]
    lines = [[value] * columns for value in values]
    return text_resultset(definitions, lines, capabilities, status, session_state=block)


def ok(capabilities: Capability, *fields: Any) -> bytes:
    return frame(OkPacket(*fields).serialise(capabilities), 1)


results = st.builds(
    rows,
    st.sampled_from(FORMS),
    st.sampled_from((1, 2, 3, 250, 251)),
    st.lists(st.sampled_from((b"", b"1", b"x" * 300, b"\xfe" * 5)), max_size=3),
    st.sampled_from(STATUSES),
    st.sampled_from(BLOCKS),
)
oks = st.builds(
    ok,
    st.sampled_from(FORMS),
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS),
    st.sampled_from(STATUSES),
    st.sampled_from((0, 1, 65535)),
    st.sampled_from((b"", b"Rows matched: 1  Changed: 1  Warnings: 0", b"x" * 250, b"x" * 251)),
    st.sampled_from(BLOCKS),
)
errors = st.just(frame(ErrPacket(1064, "42000", "no").serialise(OLD), 1))
responses = st.one_of(results, oks, errors, st.binary(max_size=30))
chunks = st.lists(responses, min_size=1, max_size=3).map(b"".join)


@st.composite
def changed(draw: st.DrawFn) -> bytes:
    """A chunk with a few bytes changed, put in, taken out, or cut off."""
    data = bytearray(draw(chunks))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        byte = draw(st.sampled_from((0, 1, 5, 7, 0xFB, 0xFC, 0xFE, 0xFF)))
        edit = draw(st.sampled_from(("change", "put in", "take out", "cut off")))
        if edit == "change" and data:
            data[at] = byte
        elif edit == "put in":
            data.insert(at, byte)
        elif edit == "take out":
            del data[at : at + 1]
        else:
            del data[at:]
    return bytes(data)


def compare(capabilities: Capability, data: bytes, position: int = 0, keep_row: bool = True) -> int:
    """Take a response, and see that it is what the stream walks, or that nothing has changed."""
    parser = stream(capabilities)
    # Mostly, a chunk that does not end as one without trackers is not walked.
    parser.status = TRACKED
    found = attributes_of(parser)
    end = take(parser, data, position, keep_row)
    if end == 0:
        assert attributes_of(parser) == found
    else:
        assert (end, attributes_of(parser)) == walked(capabilities, data, position, keep_row)
    return end


@given(st.sampled_from(FORMS), changed(), st.binary(max_size=9), st.booleans())
def test_what_is_taken_is_what_the_stream_walks(
    capabilities: Capability, data: bytes, before: bytes, keep_row: bool
) -> None:
    compare(capabilities, before + data, len(before), keep_row)


def short(capabilities: Capability, count: int, first: int = 1) -> bytes:
    """A result of two columns whose packets are as short as can be; `first` numbers the first."""
    end = EofPacket(1, 0x22).serialise()
    if capabilities & Capability.CLIENT_DEPRECATE_EOF:
        parts = [b"\x02", b"d", b"d", *([b"r"] * count), b"\xfe\0\0\x22\0\1\0"]
    else:
        parts = [b"\x02", b"d", b"d", EofPacket(0, 2).serialise(), *([b"r"] * count), end]
    return b"".join(frame(part, number) for number, part in enumerate(parts, first))


def tracked(block: bytes, info: bytes = b"") -> bytes:
    """The OK packet behind the rows of `short`, with trackers."""
    return frame(OkPacket(0, 0, 0x4022, 1, info, block, 0xFE).serialise(MODERN), 6)


BYTES = (*range(12), 0x10, 0x22, 0x28, 0x40, 0x42, *range(0xFA, 0x100))
SPECIMENS = [
    *((form, short(form, count)) for form in (OLD, MODERN) for count in (0, 2)),
    *((MODERN, short(MODERN, count)[:-11] + tracked(GTID)) for count in (0, 2)),
    (MODERN, short(MODERN, 1)[:-11] + tracked(gtids_entry(GtidSet()))),
    (MODERN, short(MODERN, 0, 0xFB)),  # the last packet's number looks like what begins it
    (BARE, short(MODERN, 1)),
    *((form, ok(TRACKING, 1, 300, 0x4002, 1, b"ab", GTID)) for form in (TRACKING, OLD)),
    (TRACKING, ok(TRACKING, 1, 0, 0x4002, 1, b"", GTID)),
    (TRACKING, ok(TRACKING, 0, 70_000, 2, 1, b"abcdef")),
    (TRACKING, ok(TRACKING, 0, 1 << 40, 2, 1)),
    (TRACKING, ok(TRACKING, 1, 0, 2, 1)),
]
"""Each with what follows of the next response, or without."""


@pytest.mark.not_fast
@pytest.mark.parametrize(("capabilities", "data"), SPECIMENS)
def test_any_byte_may_be_another(capabilities: Capability, data: bytes) -> None:
    taken = 0
    for rest in (b"", b"\x01\x00\x00\x01\x02", b"\x07\x00\x00\x03\xfe\x00\x00\x02\x00\x00\x00"):
        for at in range(len(data)):
            for byte in BYTES:
                changed = data[:at] + bytes((byte,)) + data[at + 1 :] + rest
                taken += compare(capabilities, changed) != 0
        for at in range(len(data) + 1):
            compare(capabilities, data[:at] + rest)
            compare(capabilities, data[:at] + data[at + 1 :] + rest)
            for byte in (0, 1, 5, 7, 0xFB, 0xFE):
                compare(capabilities, data[:at] + bytes((byte,)) + data[at:] + rest)
    assert taken or compare(capabilities, data) == 0


LONG = frame(b"\0" + bytes(MAX_PACKET_PAYLOAD - 1), 1)
ROW = b"r" * (MAX_PACKET_PAYLOAD + 1)


@pytest.mark.parametrize(
    "data",
    [
        frame(b"\xfb", 1) + frame(b"d", 2) * 251 + short(MODERN, 0)[-11:],
        frame(b"\1", 1) + frame(b"", 2) + short(MODERN, 0)[-11:],
        frame(b"\2", 1) + frame(b"", 2) + frame(b"d", 3) + short(MODERN, 0)[-11:],
        short(MODERN, 1)[:-11] + frame(b"", 5) + frame(b"r", 5) + short(MODERN, 0)[-11:],
        LONG + frame(b"", 2),
        short(MODERN, 1)[:-11] + frame(ROW, 5) + short(MODERN, 0)[-11:],
        frame(b"\1", 1) + frame(ROW, 2) + short(MODERN, 0)[-11:],
        # Lengths of more than one byte that make sense as lengths of one, too.
        frame(b"\0\0\0\2\x40\0\0\xfc\xfb\0" + b"x" * 250 + b"\4" + b"\3\2\1\x31", 1),
        frame(b"\0\0\0\2\x40\0\0\0\xfc\3\xfa" + b"x" * 250, 1),
    ],
    ids=range(9),
)
def test_what_looks_like_an_ordinary_response_is_none(data: bytes) -> None:
    assert compare(MODERN, data) == 0


def test_what_was_there_before_is_gone() -> None:
    parser = stream(MODERN, cursor=True)
    data = short(MODERN, 1)
    end = take(parser, data, 0, True)
    assert (end, attributes_of(parser)) == walked(MODERN, data, 0, True)


@given(st.sampled_from(FORMS), chunks, st.data())
def test_what_is_not_whole_is_left(capabilities: Capability, data: bytes, drawn: Any) -> None:
    parser = stream(capabilities)
    end = take(parser, data, 0, False)
    if end:
        assert take(parser, data[: drawn.draw(st.integers(0, end - 1))], 0, False) == 0


@pytest.mark.parametrize("capabilities", [OLD, TRACKING, MODERN])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_results_are_taken(capabilities: Capability, count: int) -> None:
    parser = stream(capabilities)
    data = rows(capabilities, 2, [b"%d" % number for number in range(count)], 0x22)
    assert take(parser, data, 0, True) == len(data)
    assert (parser.rows, parser.status, parser.error, parser.done) == (count, 0x22, None, True)
    assert parser.row == (b"\x010\x010" if count else None)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_that_tell_of_gtids_are_taken(count: int) -> None:
    parser = stream(MODERN)
    data = rows(MODERN, 2, [b"1"] * count, 0x4002, GTID)
    assert take(parser, data, 0, True) == 0  # the answer before it had no trackers
    parser.status = TRACKED
    assert take(parser, data, 0, True) == len(data)
    assert (parser.rows, parser.status, parser.session_states) == (count, 0x4002, [GTID])
    ((begin, end),) = parser.tracker_packets
    assert (data[begin + 4], end) == (0xFE, len(data))
    assert not parser.missing_trackers


def test_a_response_behind_another_is_taken() -> None:
    parser = stream(MODERN)
    first, second = rows(MODERN, 1, [b"1"], 2), rows(MODERN, 1, [b"2", b"3"], 2)
    assert take(parser, first + second, 0, True) == len(first)
    assert parser.row == b"\x011"
    assert take(parser, first + second, len(first), True) == len(first + second)
    assert (parser.row, parser.rows, parser.chunk_start) == (b"\x012", 2, len(first))


@pytest.mark.parametrize("text", [b"", b"Rows matched: 1  Changed: 1  Warnings: 0"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_write_that_tells_of_its_gtids_is_taken(text: bytes, number: int) -> None:
    parser = stream(TRACKING)
    data = ok(TRACKING, number, number, 0x4002, 1, text, GTID)
    assert take(parser, data, 0, False) == len(data)
    assert parser.session_states == [GTID]
    assert parser.tracker_packets == [(0, len(data))]
    assert (parser.status, parser.warnings, parser.unnamed) == (0x4002, 1, [])


def test_a_write_that_changed_nothing_is_taken() -> None:
    data = ok(TRACKING, 0, 0, 2, 0, b"Rows matched: 0  Changed: 0  Warnings: 0")
    assert take(stream(TRACKING), data, 0, False) == len(data)


@pytest.mark.parametrize(
    ("capabilities", "data"),
    [
        (MODERN, rows(MODERN, 1, [b"1"], 0x0A)),
        (MODERN, rows(MODERN, 1, [b"1"], 0x42)),
        (MODERN, rows(MODERN, 1, [b"1"], 0x4042, GTID)),
        (MODERN, rows(MODERN, 1, [b"1"], 0x4002, b"")),
        (MODERN, rows(MODERN, 1, [b"1"], 0x4002, GTID + GTID)),
        (MODERN, rows(MODERN, 1, [b"1"], 0x4002, state_change_entry(True))),
        (MODERN, short(MODERN, 1)[:-11] + tracked(GTID, b"a text")),
        (OLD, rows(OLD, 1, [b"1"], 0x0A)),
        (OLD, rows(OLD, 1, [b"1"], 0x1002)),
        (BARE, rows(BARE, 1, [b"1"], 2)),
        (MODERN, rows(MODERN, 251, [b"1"], 2)),
        (TRACKING, ok(TRACKING, 1, 0, 2)),
        (TRACKING, ok(TRACKING, 1, 0, 0x4002, 0, b"", GTID + state_change_entry(True))),
        (TRACKING, ok(TRACKING, 1, 0, 0x4002, 0, b"", state_change_entry(True))),
        (OLD, ok(TRACKING, 1, 0, 0x4002, 0, b"", GTID)),
        (TRACKING, ok(TRACKING, 1, 0, 0x400A, 0, b"", GTID)),
        (MODERN, frame(ErrPacket(1064, "42000", "no").serialise(OLD), 1)),
        (MODERN, frame(b"\xfb/etc/passwd", 1)),
    ],
)
def test_what_is_not_as_most_are_is_left(capabilities: Capability, data: bytes) -> None:
    parser = stream(capabilities)
    parser.status = TRACKED
    assert take(parser, data, 0, False) == 0


def test_a_stream_whose_status_is_to_change_walks_it() -> None:
    parser = stream(MODERN)
    parser.tells_status = True
    assert take(parser, rows(MODERN, 1, [b"1"], 2), 0, False) == 0

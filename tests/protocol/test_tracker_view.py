"""A client gets what a server would have sent it, whatever the proxy tracks."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import Capability, FieldType
from protocol.packet import frame
from protocol.response import EofPacket, OkPacket
from protocol.response_stream import PREPARED, RESULTS, ResponseStream
from protocol.resultset import ColumnDefinition41, text_resultset, text_row
from protocol.session_track import system_variable_entry, transaction_state_entry
from protocol.tracker_view import ALL_TRACKERS, TrackerView
from protocol.whole_answer import take

SERVER = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_DEPRECATE_EOF
    | Capability.CLIENT_SESSION_TRACK
)
OLD = Capability.CLIENT_PROTOCOL_41
NO_EOF = OLD | Capability.CLIENT_DEPRECATE_EOF
TRACKING = OLD | Capability.CLIENT_SESSION_TRACK
CLIENTS = [OLD, NO_EOF, TRACKING, SERVER]

MORE_RESULTS = 0x0008
STATE_CHANGED = 0x4000
SCHEMA = b"\x01\x02\x01\x74"
STATE = b"\x02\x01\x31"
GTIDS = b"\x03\x2a\x00\x28" + b"168066ae-e53d-11f1-b607-02fc00000001:82" + b"3"


def column() -> bytes:
    return ColumnDefinition41(
        catalog="def",
        schema="",
        table="",
        org_table="",
        name="a",
        org_name="",
        character_set=255,
        column_length=80,
        type=FieldType.MYSQL_TYPE_VAR_STRING,
        flags=0,
        decimals=0,
    ).serialise()


def ok(capabilities: Capability, status: int, state: bytes | None = None, header: int = 0) -> bytes:
    return OkPacket(
        affected_rows=1,
        last_insert_id=0,
        status=status | (STATE_CHANGED if state else 0),
        warnings=0,
        info=b"",
        session_state=state,
        header=header,
    ).serialise(capabilities)


def payloads(capabilities: Capability, counts: Sequence[int], state: bytes | None) -> list[bytes]:
    """A chain of result sets and a last OK, as a server sends it under these capabilities."""
    result = []
    modern = bool(capabilities & Capability.CLIENT_DEPRECATE_EOF)
    for count in counts:
        status = 2 | MORE_RESULTS
        result += [b"\x01", column()]
        if not modern:
            result.append(EofPacket(warnings=0, status=status).serialise())
        result += [text_row([b"%d" % k]) for k in range(count)]
        if modern:
            result.append(ok(capabilities, status, state, 0xFE))
        else:
            result.append(EofPacket(warnings=0, status=status).serialise())
    result.append(ok(capabilities, 2, state))
    return result


def packets(items: Sequence[bytes]) -> bytes:
    return b"".join(frame(payload, 1 + k) for k, payload in enumerate(items))


def viewed(
    data: bytes,
    client: Capability,
    shape: int,
    cuts: Sequence[int] = (),
    shown: Sequence[int] = (0, 1),
    behind: bytes = b"",
) -> bytes:
    """What the client gets of the answer in `data`, which may have another one `behind` it."""
    modern = bool(client & Capability.CLIENT_DEPRECATE_EOF)
    stream = ResponseStream(deprecate_eof=modern, session_track=True)
    view = TrackerView(client, frozenset(shown))
    stream.begin(shape)
    out = b""
    cuts = [cut for cut in cuts if cut < len(data)]
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        chunk = data[start:end] + (behind if end == len(data) else b"")
        assert stream.feed(chunk) == end - start
        out += view.client_bytes(stream)
    assert stream.done
    return out


@given(st.data(), st.sampled_from(CLIENTS), st.lists(st.integers(0, 3), max_size=3))
def test_results_however_they_are_cut(
    data: st.DataObject, client: Capability, counts: list[int]
) -> None:
    server = client | Capability.CLIENT_SESSION_TRACK
    response = packets(payloads(server, counts, SCHEMA + STATE + GTIDS))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(response)), max_size=8)))
    behind = data.draw(st.sampled_from([b"", response]))
    seen = SCHEMA if client & Capability.CLIENT_SESSION_TRACK else None
    expected = packets(payloads(client, counts, seen))
    assert viewed(response, client, RESULTS, cuts, behind=behind) == expected


@pytest.mark.parametrize("client", CLIENTS)
def test_only_hidden_trackers_leave_no_trace(client: Capability) -> None:
    response = packets([ok(SERVER, 2, STATE + GTIDS)])
    assert viewed(response, client, RESULTS) == packets([ok(client, 2)])


def test_a_client_that_asked_for_gtids_gets_them() -> None:
    response = packets([ok(SERVER, 2, SCHEMA + STATE + GTIDS)])
    expected = packets([ok(SERVER, 2, SCHEMA + GTIDS)])
    assert viewed(response, SERVER, RESULTS, shown=(0, 1, 3)) == expected


def test_what_is_not_held_back_is_given_out_once() -> None:
    """An OK packet that has not come whole may have to change; all before it has been given out."""
    response = packets([*payloads(SERVER, [2], GTIDS)[:-1], ok(SERVER, 2, GTIDS)])
    expected = packets([*payloads(NO_EOF, [2], None)[:-1], ok(NO_EOF, 2)])
    for cut in range(1, len(response)):
        assert viewed(response, NO_EOF, RESULTS, [cut]) == expected


def test_rows_over_several_frames_pass() -> None:
    row = b"\xfd\xff\xff\xff" + b"x" * 0xFFFFFF
    response = packets([b"\x01", column()]) + frame(row, 3)
    end = frame(ok(SERVER, 2, GTIDS, 0xFE), 5)
    expected = response + frame(ok(NO_EOF, 2, header=0xFE), 5)
    cuts = [100, 0xFFFFFF, 0xFFFFFF + 40]
    assert viewed(response + end, NO_EOF, RESULTS, cuts) == expected


def with_status(payload: bytes, status: int) -> bytes:
    """The OK or EOF packet with this server status."""
    offset = 3  # behind the counts of OK, both below 251, and the warnings of EOF
    return payload[:offset] + status.to_bytes(2, "little") + payload[offset + 2 :]


@given(st.data(), st.sampled_from(CLIENTS), st.booleans(), st.integers(0, 3))
def test_flags_are_hidden_wherever_a_status_is(
    data: st.DataObject, client: Capability, tracked: bool, rows: int
) -> None:
    modern = bool(client & Capability.CLIENT_DEPRECATE_EOF)
    server = client | Capability.CLIENT_SESSION_TRACK
    state = SCHEMA + GTIDS if tracked else None
    begun = 0x2003
    hidden, shown = data.draw(st.sampled_from([(0x2000, 0), (0x2003, 0), (0x2003, 2), (3, 1)]))

    def answer(status: int, block: bytes | None, capabilities: Capability) -> bytes:
        eof = with_status(EofPacket(warnings=0, status=0).serialise(), status)
        end = ok(capabilities, status, block, 0xFE) if modern else eof
        between = [] if modern else [eof]
        # A row may begin like an OK, and like a count.
        body = [text_row([b""] * 6) for _ in range(rows)]
        return packets([b"\x01", column(), *between, *body, end])

    response = answer(begun, state, server)
    seen = SCHEMA if tracked and client & Capability.CLIENT_SESSION_TRACK else None
    cuts = sorted(data.draw(st.lists(st.integers(0, len(response)), max_size=8)))
    stream = ResponseStream(deprecate_eof=modern, session_track=True)
    stream.tells_status = True
    view = TrackerView(client, frozenset({0, 1}))
    view.hidden, view.shown = hidden, shown
    out = b""
    for start, end in zip([0, *cuts], [*cuts, len(response)], strict=True):
        stream.feed(response[start:end])
        out += view.client_bytes(stream)
    assert stream.done
    assert stream.status & hidden  # the proxy sees it
    assert out == answer(begun & ~hidden | shown, seen, client)


def test_nothing_else_is_taken_for_a_status() -> None:
    """A prepared statement's header begins like an OK, and an ERR has no status."""
    head = b"\x00\x07\x20\x20\x20\x01\x00\x00\x00\x00\x00\x20"
    response = packets([head, column()])
    error = packets([b"\xff\x28\x04#42000\x20\x20"])
    for shape, answer in ((PREPARED, response), (RESULTS, error)):
        stream = ResponseStream(deprecate_eof=True, session_track=True)
        stream.tells_status = True
        view = TrackerView(SERVER, ALL_TRACKERS)
        view.hidden = 0x2020
        stream.begin(shape)
        stream.feed(answer)
        assert stream.done
        assert view.client_bytes(stream) == answer


def test_the_end_of_a_transaction_is_reported_if_its_begin_was() -> None:
    view = TrackerView(SERVER, frozenset({5}))
    for state, shown in (("_", False), ("T", True), ("_", True), ("_", False), ("T", True)):
        stream = ResponseStream(deprecate_eof=True, session_track=True)
        block = transaction_state_entry(state + "_______")
        stream.feed(frame(ok(SERVER, 2, block), 1))
        assert view.client_bytes(stream) == frame(ok(SERVER, 2, block if shown else None), 1)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("*", {"session_track_system_variables", "sql_mode", "time_zone"}),
        (
            "sql_mode, session_track_system_variables",
            {"session_track_system_variables", "sql_mode"},
        ),
        ("", {"time_zone"}),  # NULL: what was tracked before goes on to be
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_new_list_of_variables_counts_from_its_own_report_on(
    value: str, shown: set[str], first: bool
) -> None:
    reported = {"session_track_system_variables": value, "sql_mode": "", "time_zone": "+01:00"}
    ordered = list(reported.items()) if first else list(reported.items())[::-1]
    pairs = {name: system_variable_entry(name, text) for name, text in ordered}
    stream = ResponseStream(deprecate_eof=True, session_track=True)
    stream.feed(frame(ok(SERVER, 2, b"".join(pairs.values())), 1))
    view = TrackerView(SERVER, frozenset({0}), "time_zone")
    kept = b"".join(entry for name, entry in pairs.items() if name in shown)
    assert view.client_bytes(stream) == frame(ok(SERVER, 2, kept), 1)


@given(
    st.sampled_from(CLIENTS),
    st.sampled_from([frozenset(), frozenset({0, 1, 4, 5}), frozenset({3}), ALL_TRACKERS]),
    st.sampled_from((1, 250, 251, 70_000)),
    st.sampled_from((0, 250, 251, 1 << 40)),
    st.sampled_from((0x4002, 0x4022, 0x4202)),
    st.sampled_from((b"", b"a", b"x" * 200, b"x" * 247, b"x" * 248, b"x" * 250)),
    st.binary(max_size=3),
)
def test_a_write_is_seen_in_one_step_as_in_several(
    client: Capability,
    trackers: frozenset[int],
    affected: int,
    last_id: int,
    status: int,
    text: bytes,
    before: bytes,
) -> None:
    stream = ResponseStream(deprecate_eof=True, session_track=True)
    payload = OkPacket(affected, last_id, status, 7, text, GTIDS).serialise(SERVER)
    data = before + frame(payload, 1)
    assert take(stream, data, len(before), False) == len(data)
    view = TrackerView(client, trackers)
    assert view.client_bytes_of_write(stream) == view.client_bytes(stream)


@given(
    st.sampled_from(CLIENTS),
    st.sampled_from([frozenset(), frozenset({0, 1, 4, 5}), frozenset({3}), ALL_TRACKERS]),
    st.sampled_from((0x4002, 0x4022, 0x4202)),
    st.lists(st.sampled_from((b"", b"1", b"\xfe" * 300)), max_size=3),
    st.binary(max_size=3),
)
def test_rows_are_seen_in_one_step_as_in_several(
    client: Capability,
    trackers: frozenset[int],
    status: int,
    values: list[bytes],
    before: bytes,
) -> None:
    stream = ResponseStream(deprecate_eof=True, session_track=True)
    stream.status = 0x4002
    definitions, lines = [ColumnDefinition41(name="n")], [[value] for value in values]
    modern = SERVER | Capability.CLIENT_DEPRECATE_EOF
    rows = text_resultset(definitions, lines, modern, status, 7, 1, GTIDS)
    assert take(stream, before + rows, len(before), False) == len(before) + len(rows)
    view = TrackerView(client, trackers)
    assert view.client_bytes_of_rows(stream) == view.client_bytes(stream)

"""A client gets what a server would have sent it, whatever the proxy negotiated."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import Capability, FieldType
from protocol.packet import frame
from protocol.response import EofPacket, ErrPacket, OkPacket
from protocol.response_stream import FIELDS, PREPARED, RESULTS, SIMPLE, ResponseStream
from protocol.response_translation import ResponseTranslation
from protocol.resultset import ColumnDefinition41, text_row

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
CURSOR_EXISTS = 0x0040
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
        result += [b"\x01", column()]
        if not modern:
            result.append(EofPacket(warnings=0, status=2).serialise())
        result += [text_row([b"%d" % k]) for k in range(count)]
        if modern:
            result.append(
                ok(capabilities, 2 | MORE_RESULTS, state, 0xFE).replace(b"\x01", b"\x00", 1)
            )
        else:
            result.append(EofPacket(warnings=0, status=2 | MORE_RESULTS).serialise())
    result.append(ok(capabilities, 2, state))
    return result


def packets(items: Sequence[bytes]) -> bytes:
    return b"".join(frame(payload, 1 + k) for k, payload in enumerate(items))


def translate(
    data: bytes,
    client: Capability,
    shape: int,
    cuts: Sequence[int] = (),
    shown: Sequence[int] = (0, 1),
) -> bytes:
    stream = ResponseStream(deprecate_eof=True, session_track=True)
    translation = ResponseTranslation(stream, client, frozenset(shown))
    translation.begin(shape)
    out = b""
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        walked, given_out = translation.feed(data[start:end], 0)
        assert walked == end - start
        out += given_out
    assert stream.done
    return out


@given(st.data(), st.sampled_from(CLIENTS), st.lists(st.integers(0, 3), max_size=3))
def test_results_however_they_are_cut(
    data: st.DataObject, client: Capability, counts: list[int]
) -> None:
    response = packets(payloads(SERVER, counts, SCHEMA + STATE + GTIDS))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(response)), max_size=8)))
    seen = SCHEMA if client & Capability.CLIENT_SESSION_TRACK else None
    assert translate(response, client, RESULTS, cuts) == packets(payloads(client, counts, seen))


@pytest.mark.parametrize("client", CLIENTS)
def test_only_hidden_trackers_leave_no_trace(client: Capability) -> None:
    response = packets([ok(SERVER, 2, STATE + GTIDS)])
    assert translate(response, client, RESULTS) == packets([ok(client, 2)])


def test_a_client_that_asked_for_gtids_gets_them() -> None:
    response = packets([ok(SERVER, 2, SCHEMA + STATE + GTIDS)])
    expected = packets([ok(SERVER, 2, SCHEMA + GTIDS)])
    assert translate(response, SERVER, RESULTS, shown=(0, 1, 3)) == expected


@pytest.mark.parametrize("cuts", [(), range(1, 40)])
def test_a_cursors_definitions_end_with_one_eof(cuts: Sequence[int]) -> None:
    status = 2 | CURSOR_EXISTS
    end = ok(SERVER, status, None, 0xFE).replace(b"\x01", b"\x00", 1)
    response = packets([b"\x01", column(), end])
    expected = packets([b"\x01", column(), EofPacket(warnings=0, status=status).serialise()])
    cuts = [cut for cut in cuts if cut < len(response)]
    assert translate(response, OLD, RESULTS, cuts) == expected


@pytest.mark.parametrize("warnings", [0, 0x102])
@pytest.mark.parametrize(("parameters", "columns"), [(0, 0), (2, 0), (0, 3), (2, 3)])
def test_prepared(parameters: int, columns: int, warnings: int) -> None:
    head = b"\x00\x07\x00\x00\x00" + bytes([columns, 0, parameters, 0, 0])
    head += warnings.to_bytes(2, "little")
    eof = EofPacket(warnings=warnings, status=2).serialise()
    expected = [head]
    for count in (parameters, columns):
        expected += [column()] * count + [eof] * bool(count)
    response = packets([head] + [column()] * (parameters + columns))
    assert translate(response, OLD, PREPARED) == packets(expected)
    assert translate(response, OLD, PREPARED, range(1, len(response))) == packets(expected)


def test_an_eof_of_the_proxys_own_tells_nothing_of_the_statement_before() -> None:
    stream = ResponseStream(deprecate_eof=True, session_track=True)
    translation = ResponseTranslation(stream, OLD, frozenset())
    no_index_used, in_read_only_transaction = 0x0020, 0x2001
    for before, lasting in ((2 | no_index_used, 2), (2 | in_read_only_transaction, 0x2003)):
        translation.begin(SIMPLE)
        translation.feed(packets([ok(SERVER, before)]), 0)
        translation.begin(RESULTS)
        _, seen = translation.feed(packets([b"\x01", column(), text_row([b"1"])]), 0)
        eof = EofPacket(warnings=0, status=lasting).serialise()
        assert seen == packets([b"\x01", column(), eof, text_row([b"1"])])


def test_field_list_and_set_option() -> None:
    eof = EofPacket(warnings=0, status=2).serialise()
    end = b"\xfe\x00\x00\x02\x00\x00\x00"
    assert translate(packets([column(), end]), OLD, FIELDS) == packets([column(), eof])
    assert translate(packets([end]), OLD, SIMPLE) == packets([eof])


def test_errors_pass_with_their_sequence_id_shifted() -> None:
    error = ErrPacket(1317, "70100", "interrupted").serialise(SERVER)
    eof = EofPacket(warnings=0, status=2).serialise()
    response = packets([b"\x01", column(), text_row([b"1"]), error])
    expected = packets([b"\x01", column(), eof, text_row([b"1"]), error])
    assert translate(response, OLD, RESULTS) == expected


def test_rows_over_several_frames_keep_their_order() -> None:
    row = b"\xfd\xff\xff\xff" + b"x" * 0xFFFFFF
    response = packets([b"\x01", column()]) + frame(row, 3)
    response += frame(b"\xfe\x00\x00\x02\x00\x00\x00", 5)
    eof = EofPacket(warnings=0, status=2).serialise()
    expected = packets([b"\x01", column(), eof]) + frame(row, 4) + frame(eof, 6)
    assert translate(response, OLD, RESULTS, [100, 0xFFFFFF, 0xFFFFFF + 40]) == expected

"""Where the fields of an OK packet stand: what is found is what is read one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import MalformedPacketError
from protocol.ok_packet import head, integer, string, with_warnings
from protocol.packet import frame
from protocol.wire import Reader, lenenc_bytes, lenenc_int

NUMBERS = st.one_of(
    st.integers(0, 300),
    st.integers(0, 0x1_FFFF),
    st.integers(0, 0x1FF_FFFF),
    st.integers(0, 2**64 - 1),
)


@given(NUMBERS, NUMBERS, st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.binary(max_size=300))
def test_all_fields_are_found(
    affected: int, insert_id: int, status: int, warnings: int, info: bytes
) -> None:
    begin = b"\x00" + lenenc_int(affected) + lenenc_int(insert_id)
    flags = status.to_bytes(2, "little") + warnings.to_bytes(2, "little")
    payload = begin + flags + lenenc_bytes(info) + b"behind"
    ok = head(payload)
    assert (ok.affected, ok.status, ok.warnings) == (affected, status, warnings)
    assert (ok.status_offset, ok.end) == (len(begin), len(begin) + 4)
    first, last = string(payload, ok.end)
    assert payload[first:last] == info
    assert payload[last:] == b"behind"
    other = with_warnings(frame(payload, 1), 7)
    assert other == frame(payload[: ok.end - 2] + b"\x07\x00" + payload[ok.end :], 1)


def test_an_eof_packet_with_other_warnings() -> None:
    eof = frame(b"\xfe\x01\x00\x22\x00", 1)
    assert with_warnings(eof, 0x203) == frame(b"\xfe\x03\x02\x22\x00", 1)
    with pytest.raises(MalformedPacketError):
        with_warnings(frame(b"\x00\x00\x00\x02", 1), 1)


@given(st.binary(max_size=24), st.integers(0, 24))
def test_what_is_malformed_for_one_is_for_the_other(data: bytes, at: int) -> None:
    """Whatever comes: the same values, or the same refusal, as field by field."""
    reader = Reader(data[at:])
    try:
        expected = reader.lenenc_int(), len(data) - reader.remaining
    except MalformedPacketError:
        with pytest.raises(MalformedPacketError):
            integer(data, at)
    else:
        assert integer(data, at) == expected
    reader = Reader(data[at:])
    try:
        text = reader.lenenc_bytes()
    except MalformedPacketError:
        with pytest.raises(MalformedPacketError):
            string(data, at)
    else:
        begin, end = string(data, at)
        assert data[begin:end] == text


@pytest.mark.parametrize(
    "payload", [b"\x00", b"\x00\x01", b"\x00\x01\x00\x02\x00\x00", b"\x00\xfb\x00"]
)
def test_a_packet_that_ends_too_early(payload: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        head(payload)

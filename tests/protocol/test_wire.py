"""Integers and strings."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import MalformedPacketError
from protocol.wire import (
    Reader,
    decode_text,
    encode_text,
    lenenc_bytes,
    lenenc_int,
    null_terminated,
)

INTEGERS = [
    (0, b"\x00"),
    (250, b"\xfa"),
    (251, b"\xfc\xfb\x00"),
    (0xFFFF, b"\xfc\xff\xff"),
    (0x10000, b"\xfd\x00\x00\x01"),
    (0xFFFFFF, b"\xfd\xff\xff\xff"),
    (0x1000000, b"\xfe\x00\x00\x00\x01\x00\x00\x00\x00"),
    (2**64 - 1, b"\xfe" + b"\xff" * 8),
]


@pytest.mark.parametrize(("value", "encoded"), INTEGERS)
def test_a_length_encoded_integer_has_the_shortest_form(value: int, encoded: bytes) -> None:
    assert lenenc_int(value) == encoded
    reader = Reader(encoded + b"\xff")
    assert reader.lenenc_int() == value
    assert reader.remaining == 1


@given(st.integers(0, 2**64 - 1))
def test_every_length_encoded_integer_is_read_back(value: int) -> None:
    reader = Reader(lenenc_int(value))
    assert reader.lenenc_int() == value
    assert reader.remaining == 0


@pytest.mark.parametrize("first", [0xFB, 0xFF])
def test_null_and_error_are_no_integers(first: int) -> None:
    with pytest.raises(MalformedPacketError):
        Reader(bytes((first,)) + bytes(8)).lenenc_int()


def test_integers_are_little_endian_and_unsigned() -> None:
    reader = Reader(b"\x80" + b"\x01\x80" + b"\x01\x00\x80" + b"\x01\x00\x00\x80" + b"\xff" * 8)
    assert reader.u8() == 0x80
    assert reader.u16() == 0x8001
    assert reader.u24() == 0x800001
    assert reader.u32() == 0x80000001
    assert reader.u64() == 2**64 - 1
    reader.expect_end()


@pytest.mark.parametrize(
    ("payload", "take"),
    [
        (b"", Reader.u8),
        (b"\x01", Reader.u16),
        (b"\x01\x02", Reader.u24),
        (b"\x01\x02\x03", Reader.u32),
        (b"\x01" * 7, Reader.u64),
        (b"", Reader.lenenc_int),
        (b"\xfc\x01", Reader.lenenc_int),
        (b"\xfd\x01\x02", Reader.lenenc_int),
        (b"\xfe" + b"\x01" * 7, Reader.lenenc_int),
        (b"\x03ab", Reader.lenenc_bytes),
        (b"\xfe" + b"\xff" * 8 + b"ab", Reader.lenenc_bytes),
        (b"", Reader.lenenc_bytes_or_null),
        (b"tide", Reader.null_terminated),
        (b"", Reader.null_terminated),
        (b"ab", lambda reader: reader.take(3)),
        (b"ab", lambda reader: reader.take(-1)),
        (b"ab", Reader.expect_end),
    ],
)
def test_nothing_is_read_beyond_the_end(payload: bytes, take: Callable[[Reader], object]) -> None:
    with pytest.raises(MalformedPacketError):
        take(Reader(payload))


def test_strings() -> None:
    reader = Reader(b"ebb\0" + b"\x04flow" + b"\xfb" + b"\x00" + b"12" + b"rest")
    assert reader.null_terminated() == b"ebb"
    assert reader.lenenc_bytes_or_null() == b"flow"
    assert reader.lenenc_bytes_or_null() is None
    assert reader.lenenc_bytes_or_null() == b""
    assert reader.take(2) == b"12"
    assert reader.rest() == b"rest"
    assert reader.rest() == b""


def test_a_last_string_may_lack_its_nul() -> None:
    assert Reader(b"gate").null_terminated_or_rest() == b"gate"
    reader = Reader(b"gate\0x")
    assert reader.null_terminated_or_rest() == b"gate"
    assert reader.rest() == b"x"


@given(st.binary(max_size=400))
def test_a_string_stands_behind_its_length(value: bytes) -> None:
    assert Reader(lenenc_bytes(value)).lenenc_bytes() == value


def test_a_name_with_a_nul_is_not_written() -> None:
    assert null_terminated(b"tide") == b"tide\0"
    with pytest.raises(MalformedPacketError):
        null_terminated(b"ti\0de")


@given(st.binary())
def test_bytes_that_are_not_utf8_survive(value: bytes) -> None:
    assert encode_text(decode_text(value)) == value

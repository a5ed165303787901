"""What workers ask each other about what is to be killed, as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import MalformedPacketError
from proxy.shared.killing.inquiry import (
    ANSWER_SIZE,
    GONE,
    LENGTH,
    MOST_BYTES,
    MOST_ID,
    Inquiry,
    parse_answer,
    parse_length,
    serialise_answer,
)

names = st.binary(max_size=400).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


def test_an_inquiry_is_these_bytes() -> None:
    inquiry = Inquiry(0x01020304, "häns", "db:3306")
    body = bytes.fromhex("01020304 0005") + "hänsdb:3306".encode()
    assert inquiry.serialise() == LENGTH.pack(len(body)) + body
    assert Inquiry.parse(body) == inquiry


@given(st.integers(0, MOST_ID), names, names)
def test_an_inquiry_comes_as_it_went(connection_id: int, username: str, primary: str) -> None:
    inquiry = Inquiry(connection_id, username, primary)
    data = inquiry.serialise()
    assert LENGTH.unpack_from(data) == (len(data) - LENGTH.size,)
    assert Inquiry.parse(data[LENGTH.size :]) == inquiry


@given(st.binary(max_size=MOST_BYTES + 9))
def test_whatever_comes_is_an_inquiry_or_is_refused(data: bytes) -> None:
    try:
        inquiry = Inquiry.parse(data)
    except MalformedPacketError:
        return
    assert inquiry.serialise()[LENGTH.size :] == data


@pytest.mark.parametrize(
    "data", [b"", bytes(5), bytes(4) + b"\x00\x01", bytes(4) + b"\xff\xff" + b"x" * 90]
)
def test_an_inquiry_that_ends_too_early_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        Inquiry.parse(data)


def test_an_inquiry_that_is_too_long_is_refused() -> None:
    assert Inquiry.parse(bytes(MOST_BYTES)).primary == "\0" * (MOST_BYTES - 6)
    with pytest.raises(MalformedPacketError):
        Inquiry.parse(bytes(MOST_BYTES + 1))


@pytest.mark.parametrize(
    "inquiry",
    [
        Inquiry(MOST_ID + 1, "a", "b"),
        Inquiry(-1, "a", "b"),
        Inquiry(1, "a" * MOST_BYTES, "b"),
        Inquiry(1, "a" * 0x1_0000, "b"),
    ],
)
def test_what_no_session_can_ask_is_not_sent(inquiry: Inquiry) -> None:
    with pytest.raises(ValueError, match="no inquiry"):
        inquiry.serialise()


@pytest.mark.parametrize("thread_id", [None, GONE, 1, MOST_ID])
def test_an_answer_comes_as_it_went(thread_id: int | None) -> None:
    data = serialise_answer(thread_id)
    assert len(data) == ANSWER_SIZE
    assert parse_answer(data) == thread_id


@given(st.binary(max_size=ANSWER_SIZE + 1))
def test_whatever_comes_is_an_answer_or_is_refused(data: bytes) -> None:
    try:
        thread_id = parse_answer(data)
    except MalformedPacketError:
        return
    assert serialise_answer(thread_id) == data


def test_nothing_longer_than_any_inquiry_is_read() -> None:
    assert parse_length(LENGTH.pack(MOST_BYTES)) == MOST_BYTES
    with pytest.raises(MalformedPacketError, match="1025 bytes"):
        parse_length(LENGTH.pack(MOST_BYTES + 1))

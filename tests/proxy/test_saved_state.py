"""How the answer is read to what a session carries that gives its connection back."""

import pytest

from protocol.response_stream import RESULTS, ResponseStream
from protocol.wire import lenenc_bytes
from proxy.client.statements.saved_state import SavedState, ask_state, saved_state
from proxy.server.exchange import Purpose


def answered(*values: bytes | None) -> ResponseStream:
    stream = ResponseStream(deprecate_eof=True, session_track=True)
    stream.begin(RESULTS, keep_row=True)
    stream.row = b"".join(b"\xfb" if value is None else lenenc_bytes(value) for value in values)
    return stream


def test_the_question_is_one_statement() -> None:
    ((exchange, packet),) = ask_state(query_attributes=True)
    assert exchange.purpose is Purpose.SAVE_STATE
    assert packet[4:7] == b"\x03\x00\x01"
    assert packet[7:].startswith(b"SELECT LAST_INSERT_ID(),DATABASE(),@@SESSION.")


def test_what_the_primary_says() -> None:
    stream = answered(b"7", "größe".encode(), b"28800", b"OWN_GTID", b"abc")
    assert saved_state(stream) == SavedState(7, "größe", 28800, b"OWN_GTID", b"abc")
    stream = answered(None, None, b"1", b"OFF", b"abc")
    assert saved_state(stream) == SavedState(0, "", 1, b"OFF", b"abc")


@pytest.mark.parametrize(
    "values",
    [
        (b"7", b"app", b"9", b"OFF"),
        (b"7", b"app", b"9", b"OFF", b"abc", b"d"),
        (b"7", b"app", b"9", b"OFF", None),
        (b"7", b"app", b"9", None, b"abc"),
        ("7".encode("utf-16"), b"app", b"9", b"OFF", b"abc"),
        (b"7", b"app", "9".encode("utf-16"), b"OFF", b"abc"),
    ],
)
def test_what_is_no_answer(values: tuple[bytes | None, ...]) -> None:
    assert saved_state(answered(*values)) is None


def test_an_error_is_no_answer() -> None:
    stream = answered(b"7", b"app", b"9", b"OFF", b"abc")
    stream.error = b"\xff\x48\x04#HY000no"
    assert saved_state(stream) is None

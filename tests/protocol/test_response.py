"""OK, EOF, ERR and the head of a prepared statement, in every form that servers send."""

import pytest

from protocol.constants import Capability
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.response import EofPacket, ErrPacket, OkPacket, StmtPrepareOk
from tests.support import vectors

PLAIN = Capability.CLIENT_PROTOCOL_41
TRACKING = PLAIN | Capability.CLIENT_SESSION_TRACK
OPTIONAL = PLAIN | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
STATE_CHANGED = 0x4000


def oks(name: str) -> list[OkPacket]:
    vector = vectors.load(name)
    return [OkPacket.parse(p, vector.capabilities) for p in vector.payloads("OkPacket")]


def test_an_ok_can_end_behind_its_warnings() -> None:
    assert oks("ok_plain") == [OkPacket(status=2)]


@pytest.mark.parametrize("name", ["ok_message", "ok_message_session_track"])
def test_a_message_stands_behind_its_length_with_and_without_session_track(name: str) -> None:
    [ok] = oks(name)
    assert ok.info == b"Rows matched: 1  Changed: 1  Warnings: 0"
    assert ok.affected_rows == 1
    assert ok.session_state is None


def test_a_gtid_is_in_the_session_state() -> None:
    [ok] = oks("ok_gtid")
    assert ok.status == 0x4002
    assert ok.info == b""
    assert ok.session_state is not None
    assert ok.session_state[:4] == b"\x03\x29\x00\x27"
    assert len(ok.session_state) == 43


def test_a_message_and_a_gtid() -> None:
    [ok] = oks("ok_message_gtid")
    assert ok.info.startswith(b"Rows matched")
    assert ok.session_state is not None
    assert ok.session_state.startswith(b"\x03")


def test_large_numbers() -> None:
    [ok] = oks("ok_large_numbers")
    assert ok.affected_rows == 300
    assert ok.last_insert_id == 5_000_000_000


def test_a_session_state_can_be_empty() -> None:
    first, second = oks("ok_empty_session_state")
    assert first.status & STATE_CHANGED
    assert first.session_state == b""
    assert second.session_state is None


def test_an_ok_stands_in_the_place_of_eof() -> None:
    [ok] = oks("resultset_gtid")
    assert ok.header == 0xFE
    assert ok.session_state is not None
    assert ok.session_state.startswith(b"\x03")


def test_the_session_state_is_read_and_written_only_where_it_was_negotiated() -> None:
    ok = OkPacket(status=2 | STATE_CHANGED, info=b"i", session_state=b"\x01\x02\x01t")
    payload = ok.serialise(TRACKING)
    assert payload == b"\x00\x00\x00\x02\x40\x00\x00\x01i\x04\x01\x02\x01t"
    assert OkPacket.parse(payload, TRACKING) == ok
    assert ok.serialise(PLAIN) == b"\x00\x00\x00\x02\x00\x00\x00\x01i"


def test_the_flag_follows_the_session_state() -> None:
    with_state = OkPacket(status=2, session_state=b"").serialise(TRACKING)
    assert with_state == b"\x00\x00\x00\x02\x40\x00\x00\x00\x00"
    without = OkPacket(status=2 | STATE_CHANGED).serialise(TRACKING)
    assert without == b"\x00\x00\x00\x02\x00\x00\x00"


def test_an_ok_with_the_flag_may_still_end_early() -> None:
    ok = OkPacket.parse(b"\x00\x00\x00\x02\x40\x00\x00", TRACKING)
    assert ok.session_state is None


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"\x01\x00\x00\x02\x00\x00\x00",
        b"\x00\x00\x00\x02\x00\x00",
        b"\x00\xff\x00\x02\x00\x00\x00",
        b"\x00\x00\x00\x02\x00\x00\x00\x05abc",
        b"\x00\x00\x00\x02\x40\x00\x00\x00\x05abc",
        b"\x00\x00\x00\x02\x40\x00\x00\x00",
        b"\x00\x00\x00\x02\x00\x00\x00\x00\x00",
    ],
)
def test_a_malformed_ok_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        OkPacket.parse(payload, TRACKING)


def test_an_eof_has_five_bytes() -> None:
    eof = EofPacket(warnings=2, status=0x0022)
    assert eof.serialise() == b"\xfe\x02\x00\x22\x00"
    assert EofPacket.parse(eof.serialise()) == eof
    for payload in (b"\xfe", b"\xfe\x00\x00\x02", b"\xfe" + bytes(6), b"\x00" + bytes(4)):
        with pytest.raises(MalformedPacketError):
            EofPacket.parse(payload)


def test_warnings_are_counted() -> None:
    assert oks("resultset_warnings")[0].warnings == 2


def test_an_error_has_code_state_and_message() -> None:
    [payload] = vectors.load("err_syntax").payloads("ErrPacket")
    error = ErrPacket.parse(payload)
    assert (error.code, error.sqlstate) == (1064, "42000")
    assert error.message.startswith("You have an error in your SQL syntax")
    assert str(error).startswith("ERROR 1064 (42000): You have")


def test_an_error_before_the_handshake_has_no_state() -> None:
    [payload] = vectors.load("greeting_error").payloads("ErrPacket")
    error = ErrPacket.parse(payload)
    assert error == ErrPacket(1040, "", "Too many connections")
    assert str(error) == "ERROR 1040: Too many connections"
    assert error.serialise(Capability(0)) == payload
    assert error.serialise(PLAIN) == b"\xff\x10\x04#HY000Too many connections"


def test_an_error_of_the_proxy() -> None:
    error = ErrPacket.of(ServerErrorCode.ER_QUERY_INTERRUPTED, "gone")
    assert error.serialise(PLAIN) == b"\xff\x25\x05#70100gone"
    assert error.serialise(Capability(0)) == b"\xff\x25\x05gone"


def test_an_error_message_need_not_be_utf8() -> None:
    payload = b"\xff\x48\x04#HY000caf\xe9"
    assert ErrPacket.parse(payload).serialise(PLAIN) == payload


def test_a_number_sign_alone_is_no_state() -> None:
    assert ErrPacket.parse(b"\xff\x48\x04#tide") == ErrPacket(1096, "", "#tide")


@pytest.mark.parametrize("payload", [b"", b"\xff", b"\xff\x01", b"\x00\x01\x02"])
def test_a_malformed_error_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        ErrPacket.parse(payload)


def test_the_head_of_a_prepared_statement() -> None:
    vector = vectors.load("stmt")
    [payload] = vector.payloads("StmtPrepareOk")
    assert StmtPrepareOk.parse(payload, vector.capabilities) == StmtPrepareOk(
        statement_id=1, columns=2, parameters=2
    )


def test_the_head_tells_whether_definitions_follow() -> None:
    vector = vectors.load("stmt_optional_metadata")
    [payload] = vector.payloads("StmtPrepareOk")
    assert len(payload) == 13
    head = StmtPrepareOk.parse(payload, vector.capabilities)
    assert head.metadata
    without = StmtPrepareOk(1, 2, 3, warnings=4, metadata=False)
    assert StmtPrepareOk.parse(without.serialise(OPTIONAL), OPTIONAL) == without
    with pytest.raises(MalformedPacketError):
        StmtPrepareOk.parse(payload, PLAIN)
    with pytest.raises(MalformedPacketError):
        StmtPrepareOk.parse(b"\x01" + payload[1:], OPTIONAL)


@pytest.mark.parametrize(
    ("character_set", "left"),
    [
        *(("", "Unknown command"), ("utf8mb4", "Unknown command"), ("latin1", "Unknown command")),
        *(("ucs2", ""), ("utf16", ""), ("utf32", ""), ("utf16le", "U")),
    ],
)
def test_an_error_ends_at_the_first_zero_byte(character_set: str, left: str) -> None:
    error = ErrPacket(1047, "08S01", "Unknown command")
    assert error.in_character_set(character_set) == ErrPacket(1047, "08S01", left)

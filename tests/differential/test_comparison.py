"""Answers that differ are told apart, and what may differ is no more than what is listed."""

from dataclasses import replace

import pytest

from protocol.constants import Capability, Command
from protocol.response import EofPacket, ErrPacket, OkPacket
from protocol.session_track import entry, schema_entry, system_variable_entry
from tests.differential.comparison import first_difference
from tests.differential.player import CLOSED, MALFORMED, Answer, Packet
from tests.real_mysql.raw_client import BASE

OLD = BASE
MODERN = BASE | Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
SERVER_STATUS_AUTOCOMMIT, STATE_CHANGED, NO_INDEX_USED, MORE_RESULTS = 2, 0x4000, 0x20, 8
OK = OkPacket(affected_rows=1, last_insert_id=2, status=2, warnings=3, info=b"info")
GTIDS, OTHER_GTIDS = entry(3, b"\x00\x02ab"), entry(3, b"\x00\x02cd")


def control(payload: bytes, sequence_id: int = 1, command: int = Command.COM_QUERY) -> Packet:
    return Packet(sequence_id, payload, control=True, command=command)


def ok(packet: OkPacket) -> Answer:
    return (control(packet.serialise(MODERN)),)


def same(direct: Answer, through: Answer, capabilities: Capability = MODERN) -> bool:
    return first_difference([(), direct], [(), through], capabilities) is None


@pytest.mark.parametrize(
    "changed",
    [
        replace(OK, affected_rows=0),
        replace(OK, last_insert_id=0),
        replace(OK, status=3),
        replace(OK, warnings=0),
        replace(OK, info=b""),
        replace(OK, header=0xFE),
        replace(OK, session_state=schema_entry("app")),
    ],
)
def test_every_field_of_an_ok_packet_counts(changed: OkPacket) -> None:
    assert same(ok(OK), ok(OK))
    assert not same(ok(OK), ok(changed))


def test_gtids_may_differ_but_not_their_being_there() -> None:
    first, second = (ok(replace(OK, session_state=block)) for block in (GTIDS, OTHER_GTIDS))
    assert same(first, second)
    assert not same(first, ok(OK))
    assert same(ok(replace(OK, session_state=b"")), ok(OK))
    assert not same(first, ok(replace(OK, session_state=GTIDS + schema_entry("app"))))


def test_flags_on_indexes_may_differ_and_no_others() -> None:
    assert same(ok(OK), ok(replace(OK, status=2 | NO_INDEX_USED)))
    eof, scanned, more = (
        (control(EofPacket(0, status).serialise()),)
        for status in (2, 2 | NO_INDEX_USED, 2 | MORE_RESULTS)
    )
    assert same(eof, scanned, OLD)
    assert not same(eof, more, OLD)


def test_errors_count_whole() -> None:
    def error(code: int, state: str, message: str) -> Answer:
        return (control(ErrPacket(code, state, message).serialise(MODERN)),)

    assert same(error(1064, "42000", "near (2)"), error(1064, "42000", "near (2)"))
    assert not same(error(1064, "42000", "near (2)"), error(1064, "42000", "near (3)"))
    assert not same(error(1064, "42000", "a"), error(1064, "HY000", "a"))
    assert not same(error(1064, "42000", "a"), error(1065, "42000", "a"))
    assert same(error(1243, "HY000", "handler (2)"), error(1243, "HY000", "handler (1)"))
    assert not same(error(1243, "HY000", "handler (2)"), ok(OK))
    assert not same(error(1243, "HY000", "handler (2)"), (CLOSED,))


def test_rows_their_order_and_sequence_ids_count() -> None:
    rows = tuple(Packet(k, bytes((1, 48 + k)), control=False) for k in range(3))
    assert same(rows, rows)
    assert not same(rows, rows[::-1])
    assert not same(rows, rows[:2])
    assert not same(rows, (*rows[:2], replace(rows[2], sequence_id=7)))


def test_every_eof_counts() -> None:
    first, last = EofPacket(0, 2).serialise(), EofPacket(1, 2).serialise()

    def result(*eofs: bytes) -> Answer:
        return (control(b"\x01"), *(control(eof) for eof in eofs))

    assert not same(result(first, last), result(last, last), OLD)
    assert not same(result(first, last), result(first, first), OLD)
    assert not same(result(first), result(last), OLD)


def test_ids_of_statements_may_differ_and_nothing_else_of_their_head() -> None:
    def head(statement_id: int, columns: int) -> Answer:
        payload = b"\0" + statement_id.to_bytes(4, "little") + bytes((columns, 0, 0, 0, 0, 0, 0))
        return (control(payload, command=Command.COM_STMT_PREPARE),)

    assert same(head(1, 0), head(2, 0))
    assert not same(head(1, 0), head(1, 1))


def test_an_id_of_a_statement_may_differ_in_a_warning() -> None:
    def row(text: bytes) -> Answer:
        return (Packet(1, b"\x05Error\x041421" + bytes((len(text),)) + text, control=False),)

    assert same(row(b"The statement (9) has no cursor"), row(b"The statement (10) has no cursor"))
    assert not same(row(b"The statement (9) has no cursor"), row(b"The statement (9) has one"))
    assert not same(row(b"The count (9)"), row(b"The count (8)"))


def test_an_answer_that_cannot_be_read_is_a_difference() -> None:
    assert not same((MALFORMED,), (MALFORMED,))


def test_warnings_of_a_ping_count() -> None:
    def ping(packet: OkPacket) -> Answer:
        return (control(packet.serialise(MODERN), command=Command.COM_PING),)

    assert same(ping(OK), ping(OK))
    assert not same(ping(OK), ping(replace(OK, warnings=0)))
    assert not same(ping(OK), ping(replace(OK, status=3)))


def test_an_id_of_a_statement_may_differ_in_trackers() -> None:
    first, second, third = (
        ok(replace(OK, session_state=system_variable_entry(name, value)))
        for name, value in (("statement_id", "1"), ("statement_id", "23"), ("sql_mode", "1"))
    )
    assert same(first, second)
    assert not same(first, third)

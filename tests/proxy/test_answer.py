"""What an ERR in the place of an answer means."""

import pytest

from protocol.constants import Capability
from protocol.constants import Command as Code
from protocol.packet import frame
from protocol.response import ErrPacket
from proxy.client.answer import Answer, Meaning, is_transient, wants_file
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.request.command import Command
from routing.session.prepared import PreparedStatement
from routing.session.session import Session
from routing.sql.classifier import Classifier

RULES = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)
READ = b"SELECT n FROM t"


def state() -> Session:
    return Session(RULES, 0)


def text(sql: bytes) -> Command:
    statement = Classifier().classify(sql, 0)
    return Command(Code.COM_QUERY, RULES, frame(b"\x03" + sql, 0), statement)


def execution(sql: bytes, packet: bytes = b"packet") -> Command:
    prepared = PreparedStatement(1, Classifier().classify(sql, 0), sql, state())
    return Command(Code.COM_STMT_EXECUTE, RULES, packet, prepared=prepared)


def err(code: int) -> bytes:
    return ErrPacket(code, "HY000", "why").serialise(Capability.CLIENT_PROTOCOL_41)


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (1146, "pass"),
        (1290, "forbidden"),
        (1792, "forbidden"),
        (1836, "forbidden"),
        (1461, "full"),
        (3024, "full"),
        (1142, "denied"),
        (1053, "leaving"),
        (3032, "leaving"),
        (1243, "pass"),  # of no statement of the client's
    ],
)
def test_of_a_replica(code: int, meaning: Meaning) -> None:
    assert Answer().meaning(err(code), text(READ), state(), may_move=True) == meaning
    assert Answer().meaning(err(code), text(READ), state(), may_move=False) == "pass"


def test_a_time_limit_that_the_client_set_is_no_replicas() -> None:
    hinted = text(b"SELECT /*+ MAX_EXECUTION_TIME(9) */ n FROM t")
    assert Answer().meaning(err(3024), hinted, state(), may_move=True) == "pass"
    limited = state()
    limited.set_variable("max_execution_time", "9")
    assert Answer().meaning(err(3024), text(READ), limited, may_move=True) == "pass"


@pytest.mark.parametrize("code", [1243, 1615])
def test_a_forgotten_statement_is_prepared_again_once(code: int) -> None:
    answer = Answer()
    for may_move in (True, False):
        assert answer.meaning(err(code), execution(READ), state(), may_move=may_move) == "again"
    answer.prepared_anew = True
    assert answer.meaning(err(code), execution(READ), state(), may_move=True) == "pass"
    assert Answer().meaning(err(code), execution(READ, b""), state(), may_move=True) == "pass"
    write = execution(b"INSERT INTO t VALUES (1)")  # it lives on the primary alone
    assert Answer().meaning(err(code), write, state(), may_move=True) == "pass"


def test_what_is_in_the_way_may_pass() -> None:
    assert [code for code in (1053, 1205, 1317, 1049, 1142) if is_transient(err(code))] == [
        1053,
        1205,
        1317,
    ]


@pytest.mark.parametrize(
    ("sql", "wants"),
    [
        (b"LOAD DATA LOCAL INFILE 'a' INTO TABLE t", True),
        (b"load data local infile 'a' into table t", True),
        (b"LOAD DATA INFILE 'a' INTO TABLE t", False),
        (b"SELECT 1", False),
    ],
)
def test_only_who_asks_for_a_local_file_sends_one(sql: bytes, wants: bool) -> None:
    assert wants_file(text(sql)) is wants
    assert not wants_file(execution(sql))


def test_nobody_has_the_text_of_a_command_that_is_passed_on_in_parts() -> None:
    assert wants_file(Command(Code.COM_QUERY, RULES))

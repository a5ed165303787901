"""Session trackers besides the GTIDs (facts 1.1, 1.4 to 1.7)."""

import pytest

from protocol.session_track import (
    Schema,
    StateChange,
    SystemVariable,
    TransactionCharacteristics,
    TransactionState,
)
from tests.mysql_mocker.raw_client import RawClient

STATE = [StateChange(True)]


def changes(client: RawClient, *statements: str) -> list[object]:
    """What the last of the statements reports."""
    for statement in statements:
        reply = client.reply(statement)
    return reply.changes


def test_system_variables(client: RawClient) -> None:
    assert changes(client, "SET autocommit = 0") == [SystemVariable("autocommit", "OFF")]
    assert changes(client, "SET wait_timeout = 5") == []
    assert changes(client, "SET NAMES utf8mb4") == [
        SystemVariable("character_set_client", "utf8mb4"),
        SystemVariable("character_set_connection", "utf8mb4"),
        SystemVariable("character_set_results", "utf8mb4"),
    ]
    client.query("SET session_track_system_variables = 'wait_timeout, time_zone'")
    both = changes(client, "SET time_zone = '+01:00', wait_timeout = 7")
    assert both == [SystemVariable("time_zone", "+01:00"), SystemVariable("wait_timeout", "7")]


def test_schema(client: RawClient) -> None:
    assert changes(client, "USE test") == [Schema("test")]
    client.query("SET session_track_schema = OFF")
    assert changes(client, "USE test") == []


@pytest.mark.parametrize(
    "statement",
    [
        "SET @a = 1",
        "SET sql_mode = ''",
        "CREATE TEMPORARY TABLE t (n INT)",
        "PREPARE s FROM 'DO 1'",
    ],
)
def test_state_changes(client: RawClient, statement: str) -> None:
    assert changes(client, statement)[-1:] != STATE
    client.query("DROP TEMPORARY TABLE IF EXISTS t")
    assert changes(client, "SET session_track_state_change = ON") == []
    assert STATE[0] in changes(client, statement)


@pytest.mark.parametrize("statement", ["SELECT @a := 1", "SELECT GET_LOCK('l', 0)", "BEGIN"])
def test_what_changes_no_state(client: RawClient, statement: str) -> None:
    client.query("SET session_track_state_change = ON")
    assert STATE[0] not in changes(client, statement)


def test_begin_and_end_are_told_even_with_the_tracker_off(client: RawClient) -> None:
    assert changes(client, "BEGIN") == [TransactionState("T_______")]
    assert changes(client, "SELECT 1") == []
    assert changes(client, "COMMIT") == [TransactionState("________")]
    assert changes(client, "SET autocommit = 0", "COMMIT") == []


def test_transaction_state(client: RawClient) -> None:
    client.query("CREATE TABLE t (n INT)")
    assert client.reply("SET session_track_transaction_info = STATE").ok.session_state == b""
    for statement, state in (
        ("BEGIN", "T_______"), ("SELECT 1", "T_____S_"), ("SELECT * FROM t", "T_R___S_"),
        ("INSERT INTO t VALUES (1)", "T_R_W_S_"), ("COMMIT", "________"),
        ("LOCK TABLES t WRITE", "_______L"), ("UNLOCK TABLES", "________"),
        ("SET autocommit = 0", ""), ("SELECT * FROM t", "I_R___S_"),
    ):  # fmt: skip
        states = [c for c in changes(client, statement) if isinstance(c, TransactionState)]
        assert states == ([TransactionState(state)] if state else []), statement


def test_transaction_characteristics(client: RawClient) -> None:
    def told(statement: str) -> list[str]:
        found = changes(client, statement)
        return [c.sql for c in found if isinstance(c, TransactionCharacteristics)]

    assert told("SET session_track_transaction_info = CHARACTERISTICS") == [""]
    assert told("START TRANSACTION READ ONLY") == ["START TRANSACTION READ ONLY;"]
    assert told("COMMIT") == [""]
    isolation = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    assert told("SET TRANSACTION ISOLATION LEVEL READ COMMITTED") == [isolation]
    assert told("BEGIN") == [f"{isolation} START TRANSACTION;"]
    assert told("ROLLBACK") == [""]


def test_an_ok_without_changes_ends_after_the_warnings(client: RawClient) -> None:
    client.send(b"\x0e")
    assert client.read_packet_anew() == bytes.fromhex("00000002000000")


def test_measured_packet(client: RawClient) -> None:
    client.query("CREATE TABLE t (n INT)")
    client.query("SET session_track_gtids = OWN_GTID")
    client.send(b"\x03INSERT INTO t VALUES (1)")
    packet = client.read_packet_anew()
    gtid = f"{client.value('SELECT @@server_uuid')}:2".encode()
    head = bytes.fromhex("00 01 00 02 40 00 00 00") + bytes((len(gtid) + 4,))
    assert packet == head + bytes((3, len(gtid) + 2, 0, len(gtid))) + gtid

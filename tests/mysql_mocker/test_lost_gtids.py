"""Committed GTIDs that no packet carries (fact 2.3)."""

from collections.abc import Callable

import pytest

from mysql_mocker.server.server import Server
from protocol.constants import Capability
from protocol.gtid import GtidSet
from protocol.response import EofPacket
from tests.mysql_mocker.gtid_matrix import INSERT, lay_out
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster

Connect = Callable[..., RawClient]


def own_gtids(client: RawClient) -> GtidSet:
    lay_out(client)
    client.query("SET session_track_gtids = OWN_GTID")
    return client.executed()


def test_an_error_after_an_implicit_commit_hides_the_gtid(client: RawClient) -> None:
    before = own_gtids(client)
    client.query("BEGIN")
    client.query(INSERT)
    assert client.reply("CREATE TABLE a (n INT)").error.code == 1050
    # Only the end of the transaction is told of now: that GTIDs were collected, but not which.
    reply = client.reply("SELECT 1")
    assert reply.gtids is None
    assert reply.ok.session_state is not None
    assert len(client.executed() - before) == 1
    assert client.reply("SELECT 2").ok.session_state is None


def test_a_procedure_that_commits_and_then_fails(client: RawClient) -> None:
    own_gtids(client)
    body = f"{INSERT}; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'boo'"
    client.query(f"CREATE PROCEDURE p() BEGIN {body}; END")
    before = client.executed()
    error = client.reply("CALL p()").error
    assert (error.code, error.sqlstate, error.message) == (1644, "45000", "boo")
    assert client.reply("SELECT 1").ok.session_state == b""
    assert len(client.executed() - before) == 1


def test_without_deprecate_eof_a_result_set_carries_no_gtid(connect: Connect) -> None:
    client = connect(flags=Capability.CLIENT_SESSION_TRACK)
    before = own_gtids(client)
    reply = client.reply("ANALYZE TABLE a")
    assert isinstance(reply.end, EofPacket)
    assert not reply.status & 0x4000
    assert client.reply("DO 1").ok.session_state == b""
    assert client.reply("DO 1").ok.session_state is None
    assert len(client.executed() - before) == 1


def test_without_session_track_nothing_is_told(connect: Connect) -> None:
    client = connect(flags=Capability.CLIENT_DEPRECATE_EOF)
    own_gtids(client)
    reply = client.reply(INSERT)
    assert not reply.status & 0x4000
    assert reply.ok.session_state is None


def test_a_connection_that_breaks_before_the_ok(
    mocker: BackgroundCluster, client: RawClient, connect: Connect, primary: Server
) -> None:
    before = own_gtids(client)
    mocker.call(lambda: primary.faults.drop_connection_after(0, b"INSERT"))
    client.send(b"\x03" + INSERT.encode())
    with pytest.raises(ConnectionResetError):
        client.read_packet()
    assert len(connect().executed() - before) == 1


def test_multi_statements_add_up(client: RawClient) -> None:
    own_gtids(client)
    replies = client.query(f"{INSERT};{INSERT};SELECT 1;{INSERT}")
    gtid_sets = [reply.gtids for reply in replies]
    assert [None if gtids is None else len(gtids) for gtids in gtid_sets] == [1, 2, None, 3]
    assert client.reply("SELECT 1").gtids is None


def test_an_error_in_a_multi_statement_leaves_what_was_told(client: RawClient) -> None:
    own_gtids(client)
    first, second = client.query(f"{INSERT}; SELECT nothing")
    assert first.gtids is not None
    assert second.error.code == 1054
    assert client.reply("DO 1").ok.session_state is None


def test_the_last_ok_of_a_call_need_not_have_the_gtids(client: RawClient) -> None:
    own_gtids(client)
    client.query(f"CREATE PROCEDURE p() BEGIN {INSERT}; SELECT 1; {INSERT}; SELECT 2; END")
    client.query(f"CREATE PROCEDURE q() BEGIN SELECT 1; {INSERT}; {INSERT}; END")
    gtid_sets = [reply.gtids for reply in client.query("CALL p()")]
    assert [None if gtids is None else len(gtids) for gtids in gtid_sets] == [1, 2, None]
    gtid_sets = [reply.gtids for reply in client.query("CALL q()")]
    assert [None if gtids is None else len(gtids) for gtids in gtid_sets] == [None, 2]


@pytest.mark.parametrize("command", [b"\x1f", b"\x0e", b"\x02test"])
def test_commands_that_are_no_statements_tell_no_gtids(client: RawClient, command: bytes) -> None:
    own_gtids(client)
    client.query("SET session_track_gtids = ALL_GTIDS")
    (reply,) = client.command(command)
    assert reply.gtids is None


def test_reset_connection_rolls_back_and_turns_tracking_off(client: RawClient) -> None:
    before = own_gtids(client)
    client.query("BEGIN")
    client.query(INSERT)
    client.command(b"\x1f")
    assert client.executed() == before
    assert client.reply(INSERT).gtids is None
    assert client.value("SELECT DATABASE()") == "test"


@pytest.mark.parametrize(
    ("old", "new", "tracked"),
    [("OFF", "ALL_GTIDS", True), ("OFF", "OWN_GTID", False), ("OWN_GTID", "ALL_GTIDS", False),
     ("ALL_GTIDS", "OWN_GTID", True), ("ALL_GTIDS", "OFF", True)],
)  # fmt: skip
def test_changing_the_mode_takes_effect_after_the_answer(
    client: RawClient, old: str, new: str, tracked: bool
) -> None:
    lay_out(client)
    client.query(f"SET session_track_gtids = {old}")
    assert (client.reply(f"SET session_track_gtids = {new}").gtids is not None) == tracked
    told_now = client.reply(INSERT).gtids
    assert (told_now is not None) == (new != "OFF")

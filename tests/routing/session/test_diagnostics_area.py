"""Where each part of a session's diagnostics area is true, and what brings it to another server."""

import pytest

from protocol.constants import Command as Code
from routing.servers.topology import Role, Server
from routing.session.diagnostics_area import (
    NOT_KNOWN,
    NOTHING_TO_REPLAY,
    ConnectionArea,
    DiagnosticsArea,
    DiagnosticsReplay,
)
from routing.sql.classifier import Classifier
from routing.sql.diagnostics import CONDITIONS, COST, FOUND_ROWS, PARTS, ROW_COUNT

READ = b"SELECT a FROM t"
CALC = b"SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1"
ALL = CONDITIONS | FOUND_ROWS | ROW_COUNT


def leaves(sql: bytes) -> int:
    return Classifier().classify(sql, 0).leaves


@pytest.fixture
def primary() -> ConnectionArea:
    return ConnectionArea(Server("primary", Role.PRIMARY))


@pytest.fixture
def replica() -> ConnectionArea:
    return ConnectionArea(Server("replica", Role.REPLICA))


def test_a_new_session_has_nothing_and_no_server_says_so(primary: ConnectionArea) -> None:
    area = DiagnosticsArea()
    assert area.target(ALL) is None
    assert area.replay_for(primary, FOUND_ROWS) == DiagnosticsReplay(finds=0)
    assert area.replay_for(primary, ROW_COUNT) == DiagnosticsReplay(counts=0)
    assert area.replay_for(primary, CONDITIONS) == DiagnosticsReplay(clears=True)
    assert area.replay_for(primary, ALL) == DiagnosticsReplay(finds=0, counts=0)


def test_each_part_stays_where_it_was_set(primary: ConnectionArea, replica: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.on_success(replica, leaves(READ), 3, 0)
    assert area.target(ALL) is replica
    area.on_success(primary, leaves(b"INSERT INTO t VALUES (1)"), 0, 2)
    assert area.target(FOUND_ROWS) is replica
    assert area.target(ROW_COUNT) is area.target(CONDITIONS) is primary
    assert area.replay_for(primary, FOUND_ROWS) == DiagnosticsReplay(finds=3)
    assert area.replay_for(primary, ALL).lost == FOUND_ROWS  # ROW_COUNT() cannot be made again
    assert area.bound == (primary.server,)
    assert not area.can_leave(primary)
    area.on_command(primary, Code.COM_PING, 2)
    assert area.row_count == 0
    assert area.warning_count == area.conditions == 2


def test_the_proxys_own_statements_are_not_the_sessions(replica: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.on_success(replica, leaves(READ), 3, 0)
    replica.disturb(ROW_COUNT)
    assert area.is_at(replica, CONDITIONS | FOUND_ROWS)
    assert area.replay_for(replica, ALL) == DiagnosticsReplay(counts=-1)
    replica.disturb(PARTS)
    assert area.replay_for(replica, ALL) == DiagnosticsReplay(finds=3)
    assert area.survives(ALL)


def test_what_raises_conditions_runs_again(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    area = DiagnosticsArea()
    area.on_success(replica, leaves(READ), 3, 2, b"text:")
    assert area.replay_for(primary, ALL) == DiagnosticsReplay(again=b"text:")
    area.on_success(replica, leaves(READ), 3, 2)  # it was prepared
    assert area.replay_for(primary, CONDITIONS).lost == CONDITIONS
    assert area.target(CONDITIONS) is replica
    area.on_success(replica, leaves(READ), 5, 0)
    area.on_error(replica, 0, b"fails:")
    # An error keeps FOUND_ROWS(), so that comes first.
    assert area.replay_for(primary, ALL) == DiagnosticsReplay(finds=5, again=b"fails:")


def test_only_a_server_knows_what_was_counted(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    area = DiagnosticsArea()
    area.on_success(replica, leaves(CALC), 1, 0)
    assert area.found_rows == NOT_KNOWN
    assert area.replay_for(primary, FOUND_ROWS).lost == FOUND_ROWS
    assert area.is_lost(replica, leaves(b"INSERT INTO t VALUES (1)"))
    assert not area.is_lost(replica, leaves(READ))
    assert not area.is_lost(primary, 0)
    area.on_found_rows(replica, 9)
    assert area.replay_for(primary, FOUND_ROWS) == DiagnosticsReplay(finds=9)
    area.on_success(replica, leaves(CALC), 1, 0)
    area.forget()
    assert area.target(FOUND_ROWS) is None


def test_what_was_brought_is_there(primary: ConnectionArea, replica: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.on_success(replica, leaves(READ), 3, 0)
    wanted = FOUND_ROWS | ROW_COUNT
    area.on_replay(primary, wanted, area.replay_for(primary, wanted))
    assert area.replay_for(primary, wanted) == NOTHING_TO_REPLAY
    area.on_success(primary, leaves(b"CALL p()"), 0, 0)
    assert (area.found_rows, area.found_at) == (NOT_KNOWN, primary)


def test_what_the_proxy_answers_by_itself(primary: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.on_success(primary, leaves(READ), 3, 2)
    area.affects_none()
    assert (area.conditions, area.found_rows, area.row_count) == (2, 3, 0)
    area.proxy_answered(-1)
    assert (area.conditions, area.found_rows, area.row_count) == (0, 3, -1)
    assert area.target(CONDITIONS) is None
    assert area.target(COST) is primary
    area.reset()
    assert (area.found_rows, area.row_count) == (3, 0)
    assert area.target(COST) is None


def test_an_error_of_a_command_is_added(primary: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.on_success(primary, leaves(READ), 3, 2)
    area.on_refusal(primary, Code.COM_INIT_DB)
    assert (area.conditions, area.warning_count, area.row_count) == (3, 3, -1)
    area.on_success(primary, leaves(b"SHOW WARNINGS"), 3, 0)
    assert (area.conditions, area.warning_count) == (3, 0)
    area.on_refusal(primary, Code.COM_STMT_EXECUTE)
    assert (area.conditions, area.warning_count) == (4, 1)
    area.on_command(primary, Code.COM_STMT_FETCH, 0)
    assert (area.conditions, area.warning_count, area.row_count) == (4, 0, -1)
    area.on_refusal(primary, Code.COM_SLEEP)
    area.on_refusal(primary, Code.COM_SET_OPTION)
    assert (area.conditions, area.warning_count) == (6, 2)
    area.on_refusal(primary, Code.COM_FIELD_LIST)
    assert (area.conditions, area.warning_count) == (8, 1)
    assert area.found_rows == 3


def test_how_many_an_error_came_with_is_told_by_the_next_ok(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    area = DiagnosticsArea()
    area.on_error(primary, 0)
    area.on_command(primary, Code.COM_PING, 3)
    assert area.warning_count == 3
    area.on_error(primary, 0)
    area.on_ping(primary, 4)
    assert area.warning_count == 4
    area.on_command(primary, Code.COM_PING, 0)  # another came behind the statement
    assert area.warning_count == 4
    area.on_error(replica, 0)
    area.on_command(primary, Code.COM_PING, 9)  # of what ran there before
    assert area.warning_count == 1


def test_conditions_are_cleared_beside_a_count_that_only_the_server_knows(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    area = DiagnosticsArea()
    area.on_success(primary, leaves(b"INSERT IGNORE INTO t VALUES (1)"), 0, 2)
    area.on_prepare(replica, 0, b"packet")
    by = area.replay_for(primary, CONDITIONS | ROW_COUNT)
    assert by == DiagnosticsReplay(again=b"\x05\0\0\0\x16DO 0")


COUNTS = b"CREATE TABLE made SELECT a FROM t"
TAKES = b"INSERT INTO t VALUES (1)"


def test_found_rows_shows_a_count_behind_a_later_statement(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    area = DiagnosticsArea()
    area.on_success(replica, leaves(READ), 3, 0)
    area.on_success(primary, leaves(COUNTS), 0, 0)
    assert area.has_count(primary)
    assert not area.can_leave(primary)
    assert (area.found_at, area.found_rows) == (replica, 3)
    area.on_success(primary, leaves(b"SET @a = 1"), 0, 0)
    area.on_error(primary, 0, counts=True)
    assert area.has_count(primary)
    area.on_success(primary, leaves(TAKES), 0, 0)
    assert not area.has_count(primary)
    assert (area.found_at, area.found_rows) == (primary, NOT_KNOWN)


def test_a_question_of_the_proxys_own_is_counted_in_place_of_that(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    area = DiagnosticsArea()
    area.on_success(replica, leaves(READ), 3, 0)
    area.on_success(primary, leaves(COUNTS), 0, 0)
    primary.disturb(FOUND_ROWS)
    assert not area.has_count(primary)
    area.on_success(primary, leaves(TAKES), 0, 0)
    assert (area.found_at, area.found_rows) == (replica, 3)


def test_what_may_have_counted_has_where_found_rows_was_true(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    may_count = leaves(b"SET @a = (SELECT MAX(a) FROM t)")
    area = DiagnosticsArea()
    area.on_success(replica, leaves(READ), 3, 0)
    area.on_success(primary, may_count, 0, 0)
    assert not area.has_count(primary)
    area.on_replay(primary, FOUND_ROWS, DiagnosticsReplay(finds=3))
    area.on_success(primary, may_count, 0, 0)
    assert area.has_count(primary)
    area.on_success(replica, leaves(READ), 3, 0)
    assert area.counts_at is None


def test_a_statement_that_fails_may_have_counted(primary: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.on_success(primary, leaves(b"UPDATE t SET a = 1"), 0, 0)
    area.on_error(primary, 0)
    assert not area.has_count(primary)
    area.on_error(primary, 0, counts=True)
    assert area.has_count(primary)


def test_subqueries_of_an_explain_may_set_found_rows(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    explain = leaves(b"EXPLAIN SELECT a FROM t WHERE a = (SELECT MAX(a) FROM t)")
    area = DiagnosticsArea()
    area.on_success(primary, leaves(READ), 3, 0)
    area.on_success(replica, explain, 1, 0)
    assert (area.found_at, area.found_rows) == (primary, 3)
    area.on_success(primary, explain, 1, 0)
    assert (area.found_at, area.found_rows) == (primary, NOT_KNOWN)

"""Where each part of a session's diagnostics area is true, and what brings it to another server."""

import pytest

from protocol.constants import Command as Code
from routing.servers.topology import Role, Server
from routing.session.diagnostics_area import (
    NOT_KNOWN,
    NOTHING_TO_IMITATE,
    ConnectionArea,
    DiagnosticsArea,
    Imitation,
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
    assert area.imitation(primary, FOUND_ROWS) == Imitation(finds=0)
    assert area.imitation(primary, ROW_COUNT) == Imitation(counts=0)
    assert area.imitation(primary, CONDITIONS) == Imitation(clears=True)
    assert area.imitation(primary, ALL) == Imitation(finds=0, counts=0)


def test_each_part_stays_where_it_was_set(primary: ConnectionArea, replica: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.ran(replica, leaves(READ), 3, 0)
    assert area.target(ALL) is replica
    area.ran(primary, leaves(b"INSERT INTO t VALUES (1)"), 0, 2)
    assert area.target(FOUND_ROWS) is replica
    assert area.target(ROW_COUNT) is area.target(CONDITIONS) is primary
    assert area.imitation(primary, FOUND_ROWS) == Imitation(finds=3)
    assert area.imitation(primary, ALL).lost == FOUND_ROWS  # ROW_COUNT() cannot be made again
    assert area.bound == (primary.server,)
    assert not area.can_leave(primary)
    area.commanded(primary, Code.COM_PING)
    assert area.row_count == 0
    assert area.warning_count == area.conditions == 2


def test_the_proxys_own_statements_are_not_the_sessions(replica: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.ran(replica, leaves(READ), 3, 0)
    replica.disturb(ROW_COUNT)
    assert area.is_at(replica, CONDITIONS | FOUND_ROWS)
    assert area.imitation(replica, ALL) == Imitation(counts=-1)
    replica.disturb(PARTS)
    assert area.imitation(replica, ALL) == Imitation(finds=3)
    assert area.survives(ALL)


def test_what_raises_conditions_runs_again(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    area = DiagnosticsArea()
    area.ran(replica, leaves(READ), 3, 2, b"text:")
    assert area.imitation(primary, ALL) == Imitation(again=b"text:")
    area.ran(replica, leaves(READ), 3, 2)  # it was prepared
    assert area.imitation(primary, CONDITIONS).lost == CONDITIONS
    assert area.target(CONDITIONS) is replica
    area.ran(replica, leaves(READ), 5, 0)
    area.failed(replica, 0, b"fails:")
    # An error keeps FOUND_ROWS(), so that comes first.
    assert area.imitation(primary, ALL) == Imitation(finds=5, again=b"fails:")


def test_only_a_server_knows_what_was_counted(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    area = DiagnosticsArea()
    area.ran(replica, leaves(CALC), 1, 0)
    assert area.found_rows == NOT_KNOWN
    assert area.imitation(primary, FOUND_ROWS).lost == FOUND_ROWS
    assert area.is_lost(replica, leaves(b"INSERT INTO t VALUES (1)"))
    assert not area.is_lost(replica, leaves(READ))
    assert not area.is_lost(primary, 0)
    area.learned(replica, 9)
    assert area.imitation(primary, FOUND_ROWS) == Imitation(finds=9)
    area.ran(replica, leaves(CALC), 1, 0)
    area.forget()
    assert area.target(FOUND_ROWS) is None


def test_what_was_brought_is_there(primary: ConnectionArea, replica: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.ran(replica, leaves(READ), 3, 0)
    wanted = FOUND_ROWS | ROW_COUNT
    area.brought(primary, wanted, area.imitation(primary, wanted))
    assert area.imitation(primary, wanted) == NOTHING_TO_IMITATE
    area.ran(primary, leaves(b"CALL p()"), 0, 0)
    assert (area.found_rows, area.found_at) == (NOT_KNOWN, primary)


def test_what_the_proxy_answers_by_itself(primary: ConnectionArea) -> None:
    area = DiagnosticsArea()
    area.ran(primary, leaves(READ), 3, 2)
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
    area.ran(primary, leaves(READ), 3, 2)
    area.refused(primary)
    assert (area.conditions, area.warning_count, area.row_count) == (3, 3, -1)
    area.ran(primary, leaves(b"SHOW WARNINGS"), 3, 0)
    assert (area.conditions, area.warning_count) == (3, 0)
    area.refused(primary, told=False)
    assert (area.conditions, area.warning_count) == (4, 1)
    area.commanded(primary, Code.COM_STMT_FETCH)
    assert (area.conditions, area.warning_count, area.row_count) == (4, 0, -1)
    assert area.found_rows == 3


def test_conditions_are_cleared_beside_a_count_that_only_the_server_knows(
    primary: ConnectionArea, replica: ConnectionArea
) -> None:
    area = DiagnosticsArea()
    area.ran(primary, leaves(b"INSERT IGNORE INTO t VALUES (1)"), 0, 2)
    area.prepared(replica, 0, b"packet")
    by = area.imitation(primary, CONDITIONS | ROW_COUNT)
    assert by == Imitation(again=b"\x05\0\0\0\x16DO 0")

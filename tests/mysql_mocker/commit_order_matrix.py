"""What parallel workers do with and without a commit order, on the mocker and on real servers.

The replica has four workers. A transaction that writes table `held` stays on the replica, before
that statement, for as long as `Pair.holding` lasts; younger ones have nothing in common with it.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from protocol.gtid import GtidSet
from protocol.response import ErrPacket
from tests.mysql_mocker.raw_client import RawClient
from tests.support.waiting import until

HELD = "UPDATE held SET v = {} WHERE id = 1"
LAYOUT = (
    "CREATE TABLE held (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    "INSERT INTO held VALUES (1, 0)",
    "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)",
)
RUNNING = (
    "3017 This operation cannot be performed with a running replica sql thread; run STOP REPLICA "
    "SQL_THREAD first"
)
_WATCHED_SECONDS = 0.3


class Pair(Protocol):
    """A primary and its replica, both with schema `app`; the replica takes writes, too.

    Attributes:
        primary: a client of the primary.
        replica: a client of the replica.
    """

    primary: RawClient
    replica: RawClient

    def holding(self, number: int) -> AbstractContextManager[object]:
        """Keeps the transaction with ``HELD.format(number)`` from being applied."""
        ...

    def error_code(self) -> int:
        """Why the applier stopped by itself; 0 if it did not."""
        ...

    def retried(self) -> int:
        """How often the applier rolled a transaction back and tried it again."""
        ...


def run(client: RawClient, *statements: str) -> None:
    """Runs statements that must not fail."""
    for statement in statements:
        for reply in client.query(statement):
            assert not isinstance(reply.end, ErrPacket), (statement, reply.end)


def wait_caught_up(pair: Pair) -> None:
    wanted = pair.primary.executed().text
    assert pair.replica.value(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{wanted}', 20)") == "0"


def lay_out(pair: Pair, order: str) -> None:
    """The tables, and an applier with or without an order that has begun its work."""
    run(
        pair.replica,
        "STOP REPLICA",
        f"SET GLOBAL replica_preserve_commit_order = {order}",
        "START REPLICA",
    )
    run(pair.primary, *LAYOUT)
    wait_caught_up(pair)


def state(client: RawClient) -> tuple[int, ...]:
    """The values of the three rows."""
    return tuple(int(row[0] or b"0") for row in client.reply("SELECT v FROM t ORDER BY id").rows)


def write(pair: Pair, value: int) -> list[tuple[int, ...]]:
    """Three transactions, the first of them held; the states that the primary had."""
    states = [state(pair.primary)]
    run(pair.primary, "BEGIN", HELD.format(value))
    for number in (1, 2, 3):
        run(pair.primary, f"UPDATE t SET v = {value} WHERE id = {number}", "COMMIT")  # noqa: S608 - numbers
        states.append(state(pair.primary))
    return states


def gaps(client: RawClient) -> int:
    executed = client.executed()
    return executed.interval_count - len(executed.tsids)


def without_an_order(pair: Pair) -> None:
    """A reader of the replica sees what the primary never had, and a gap shows it."""
    lay_out(pair, "OFF")
    with pair.holding(1001):
        states = write(pair, 1001)
        until(lambda: state(pair.replica) == (0, 1001, 1001), "younger ones are there")
        assert state(pair.replica) not in states
        written = pair.primary.executed()
        # Not by its intervals: a primary that has a gap of its own fills it now.
        until(lambda: (written - pair.replica.executed()).count() == 1, "there is a gap")
        owned = pair.replica.value("SELECT @@GLOBAL.gtid_owned") or ""
        held = written - pair.replica.executed()
        assert owned.startswith(f"{held.text}#")
    wait_caught_up(pair)
    assert state(pair.replica) == states[-1]
    assert not pair.primary.executed() - pair.replica.executed()


def with_an_order(pair: Pair) -> None:
    """Whatever a reader of the replica sees, the primary had."""
    lay_out(pair, "ON")
    before = gaps(pair.replica)  # a primary may have some, which it fills now
    with pair.holding(1002):
        states = write(pair, 1002)
        end = time.monotonic() + _WATCHED_SECONDS
        while time.monotonic() < end:
            assert state(pair.replica) == states[0]
            assert gaps(pair.replica) <= before
    while pair.primary.executed() - pair.replica.executed():
        assert state(pair.replica) in states
        assert gaps(pair.replica) <= before
    assert state(pair.replica) == states[-1]


def the_order_is_set_while_the_applier_is_stopped(pair: Pair) -> None:
    lay_out(pair, "ON")
    for name in ("replica_preserve_commit_order", "slave_preserve_commit_order"):
        reply = pair.replica.reply(f"SET GLOBAL {name} = OFF")
        assert f"{reply.error.code} {reply.error.message}" == RUNNING
    run(pair.replica, "STOP REPLICA SQL_THREAD", "SET GLOBAL slave_preserve_commit_order = 0")
    assert pair.replica.value("SELECT @@GLOBAL.replica_preserve_commit_order") == "0"
    assert pair.replica.value("SELECT @@GLOBAL.slave_preserve_commit_order") == "0"
    run(pair.replica, "SET GLOBAL replica_preserve_commit_order = ON", "START REPLICA SQL_THREAD")
    run(pair.replica, "SET GLOBAL replica_parallel_workers = 4")
    assert pair.replica.reply("SET GLOBAL replica_parallel_workers = 0").ok.warnings == 1
    assert pair.replica.value("SELECT @@replica_parallel_workers") == "1"
    run(pair.replica, "SET GLOBAL replica_parallel_workers = 4")


def _break_row(pair: Pair, row: int) -> None:
    """Lets the next insert of a row fail on the replica alone."""
    run(pair.replica, "SET sql_log_bin = 0", f"INSERT INTO t VALUES ({row}, 0)")  # noqa: S608 - a number


def _mend_row(pair: Pair, row: int) -> None:
    run(pair.replica, f"DELETE FROM t WHERE id = {row}", "SET sql_log_bin = 1", "START REPLICA")  # noqa: S608 - a number


def an_error_rolls_back_younger_ones(pair: Pair) -> None:
    lay_out(pair, "ON")
    _break_row(pair, 9)
    before = pair.replica.executed()
    with pair.holding(1003):
        run(pair.primary, "BEGIN", HELD.format(1003), "INSERT INTO t VALUES (9, 0)", "COMMIT")
        run(pair.primary, "UPDATE t SET v = 1003 WHERE id = 2")
        run(pair.primary, "UPDATE t SET v = 1003 WHERE id = 3")
    until(lambda: pair.error_code() == 1062, "the applier stops")
    assert pair.replica.executed() == before
    assert state(pair.replica)[:3] == (0, 0, 0)
    _mend_row(pair, 9)
    wait_caught_up(pair)
    assert state(pair.replica) == state(pair.primary)


def an_error_of_a_younger_one_lets_older_ones_commit(pair: Pair) -> None:
    lay_out(pair, "ON")
    _break_row(pair, 9)
    before = pair.replica.executed()
    with pair.holding(1004):
        run(pair.primary, "BEGIN", HELD.format(1004), "UPDATE t SET v = 1004 WHERE id = 1")
        run(pair.primary, "COMMIT")
        older = pair.primary.executed()
        run(pair.primary, "INSERT INTO t VALUES (9, 0)", "UPDATE t SET v = 1004 WHERE id = 3")
    until(lambda: pair.error_code() == 1062, "the applier stops")
    until(lambda: pair.replica.executed() == older, "the older one is there")
    assert before != older
    assert state(pair.replica)[:3] == (1004, 0, 0)
    _mend_row(pair, 9)
    wait_caught_up(pair)
    assert state(pair.replica) == state(pair.primary)


def an_error_without_an_order_leaves_a_gap(pair: Pair) -> None:
    lay_out(pair, "OFF")
    _break_row(pair, 9)
    with pair.holding(1005):
        run(pair.primary, "BEGIN", HELD.format(1005), "INSERT INTO t VALUES (9, 0)", "COMMIT")
        failing = pair.primary.executed() - pair.replica.executed()
        run(pair.primary, "UPDATE t SET v = 1005 WHERE id = 2")
        until(lambda: state(pair.replica)[1] == 1005, "the younger one is there")
    until(lambda: pair.error_code() == 1062, "the applier stops")
    assert pair.primary.executed() - pair.replica.executed() == failing
    _mend_row(pair, 9)
    wait_caught_up(pair)
    assert state(pair.replica) == state(pair.primary)


def order_and_locks_are_no_deadlock(pair: Pair) -> None:
    """The replica's table has no key: there each transaction locks all of its rows.

    A younger one has them, and waits for its turn behind an older one that needs them.
    """
    lay_out(pair, "ON")
    run(
        pair.replica,
        "SET sql_log_bin = 0",
        "DROP TABLE t",
        "CREATE TABLE t (id INT, v INT)",
        "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)",
        "SET sql_log_bin = 1",
    )
    retried = pair.retried()
    with pair.holding(1006):
        states = write(pair, 1006)
        end = time.monotonic() + _WATCHED_SECONDS
        while time.monotonic() < end:
            assert state(pair.replica) == states[0]
    wait_caught_up(pair)
    assert state(pair.replica) == states[-1]
    assert pair.retried() > retried
    assert pair.error_code() == 0


def definitions_come_in_order(pair: Pair) -> None:
    lay_out(pair, "ON")
    with pair.holding(1007):
        write(pair, 1007)
        run(pair.primary, "CREATE TABLE later (id INT PRIMARY KEY)")
        run(pair.primary, "INSERT INTO later VALUES (1)")
        end = time.monotonic() + _WATCHED_SECONDS
        while time.monotonic() < end:
            assert pair.replica.reply("SELECT * FROM later").error.code == 1146
    while pair.replica.reply("SHOW TABLES LIKE 'later'").rows == []:
        pass
    assert state(pair.replica) == (1007, 1007, 1007)
    wait_caught_up(pair)


def a_stop_leaves_no_gap(pair: Pair) -> None:
    lay_out(pair, "OFF")
    executed = GtidSet()
    with pair.holding(1008):
        write(pair, 1008)
        executed = pair.primary.executed()
        until(lambda: (executed - pair.replica.executed()).count() == 1, "there is a gap")
        pair.replica.send(b"\x03STOP REPLICA SQL_THREAD")
    assert pair.replica.replies()[0].ok
    assert pair.replica.executed() == executed


CHECKS: tuple[Callable[[Pair], None], ...] = (
    without_an_order,
    with_an_order,
    the_order_is_set_while_the_applier_is_stopped,
    an_error_rolls_back_younger_ones,
    an_error_of_a_younger_one_lets_older_ones_commit,
    an_error_without_an_order_leaves_a_gap,
    order_and_locks_are_no_deadlock,
    definitions_come_in_order,
    a_stop_leaves_no_gap,
)

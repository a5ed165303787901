"""What statements take and give back, and when a session is not pinned any more."""

import pytest

from routing.session.pins import Pins
from routing.sql.session_locks import Act, PinReason, SessionLock
from routing.sql.statement import classify


def run(pins: Pins, *texts: str, worked: bool | None = None, schema: str = "app") -> None:
    for text in texts:
        for hold in classify(text.encode()).holds:
            pins.apply(hold, schema, worked)


def held(*texts: str, worked: bool | None = None) -> str:
    pins = Pins()
    run(pins, *texts, worked=worked)
    assert bool(pins.reasons) is bool(pins.text)
    return pins.text


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["CREATE TEMPORARY TABLE t (a INT)"], "temporary table `app`.`t`"),
        (["CREATE TEMPORARY TABLE t(a INT)"], "temporary table `app`.`t`"),
        (["CREATE TEMPORARY TABLE app.t(a INT)", "CREATE TEMPORARY TABLE u(a INT)", "DROP TABLE t"],
         "temporary table `app`.`u`"),
        (["CREATE TEMPORARY TABLE IF NOT EXISTS `a``b`.t SELECT 1"],
         "temporary table `a``b`.`t`"),
        (["CREATE TEMPORARY TABLE t (a INT)", "DROP TABLE t"], ""),
        (["CREATE TEMPORARY TABLE t (a INT)", "DROP TEMPORARY TABLE IF EXISTS u, app.`t`"], ""),
        (["CREATE TEMPORARY TABLE app.t (a INT)", "DROP TABLE u, t CASCADE"], ""),
        (["CREATE TEMPORARY TABLE t (a INT)", "DROP TABLE T"], "temporary table `app`.`t`"),
        (["CREATE TEMPORARY TABLE t (a INT)", "DROP TABLE x.t, u"], "temporary table `app`.`t`"),
        (["CREATE TEMPORARY TABLE t (a INT)", "DROP VIEW t"], "temporary table `app`.`t`"),
        (["CREATE TEMPORARY TABLE t (a INT)", "TRUNCATE t"], "temporary table `app`.`t`"),
        (["CREATE TEMPORARY TABLE t (a INT)", "ALTER TABLE t RENAME TO u", "DROP TABLE t"],
         "temporary table"),
        (["ALTER TABLE t RENAME TO u"], ""),
        (["CREATE TABLE t (a INT)"], ""),
        (["LOCK TABLES t READ"], "table lock"),
        (["LOCK TABLES t READ", "UNLOCK TABLES"], ""),
        (["LOCK TABLES t READ", "START TRANSACTION"], ""),
        (["LOCK TABLES t READ", "BEGIN WORK"], ""),
        (["LOCK TABLES t READ", "COMMIT"], "table lock"),
        (["LOCK TABLES t READ", "UNLOCK INSTANCE"], "table lock"),
        (["FLUSH TABLES WITH READ LOCK", "BEGIN"], "global read lock"),
        (["FLUSH TABLES t FOR EXPORT", "UNLOCK TABLES"], ""),
        (["FLUSH TABLES", "FLUSH LOGS"], ""),
        (["FLUSH NO_WRITE_TO_BINLOG STATUS", "UNLOCK TABLES"], "status counters"),
        (["LOCK INSTANCE FOR BACKUP", "UNLOCK TABLES"], "backup lock"),
        (["LOCK INSTANCE FOR BACKUP", "UNLOCK INSTANCE"], ""),
        (["HANDLER app.t OPEN"], "handler `t`"),
        (["HANDLER t OPEN AS h", "HANDLER t CLOSE"], "handler `h`"),
        (["HANDLER t OPEN h", "HANDLER h READ FIRST", "HANDLER h CLOSE"], ""),
        (["XA START 'x'"], "xa transaction"),
        (["EXECUTE s"], "unknown"),
        (["SELECT SERVICE_GET_READ_LOCKS('a', 'b', 1)", "DO RELEASE_ALL_LOCKS()"], "unknown"),
        (["CREATE PROCEDURE p() DO GET_LOCK('a', 1)"], ""),
    ],
)  # fmt: skip
def test_what_is_held(texts: list[str], expected: str) -> None:
    assert held(*texts) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["SELECT GET_LOCK('a', 1)"], "named lock a"),
        (["SELECT GET_LOCK('a', -1) AS l"], "named lock a"),
        (["SELECT GET_LOCK ( 'A' , 1 ) `l`"], "named lock a"),
        (["SELECT GET_LOCK('a', 1)", "DO RELEASE_LOCK('a')"], ""),
        (["DO GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('A')"], ""),
        (["DO GET_LOCK('a', 1)", "DO GET_LOCK('a', 1)", "DO RELEASE_LOCK('a')"], "named lock a"),
        (["DO GET_LOCK('a', 1)", "DO RELEASE_LOCK('b')"], "named lock a"),
        (["DO GET_LOCK('a', 1)", "SELECT IF(@x, RELEASE_LOCK('a'), 0)"], "named lock a"),
        (["DO GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('a') FROM t"], "named lock a"),
        (["DO GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('a') WHERE 0"], "named lock a"),
        (["DO GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('a') IS NULL"], "named lock a"),
        (["DO GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('a' 'b')"], "named lock a"),
        (["DO GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('a''b')"], "named lock a"),
        (["DO GET_LOCK('a', 1)", "SELECT RELEASE_LOCK((SELECT 'a'))"], "named lock a"),
        (["DO GET_LOCK('a', 1)", "SELECT RELEASE_ALL_LOCKS()"], ""),
        (["SELECT GET_LOCK('a', 1), GET_LOCK('b', 1)", "DO RELEASE_LOCK('a')"], "named lock"),
        (["SELECT GET_LOCK('a', 1) FROM t", "DO RELEASE_LOCK('a')"], "named lock"),
        (["SELECT GET_LOCK('a', 1) FROM t", "DO RELEASE_ALL_LOCKS()"], ""),
        (["DO GET_LOCK(@a, 1)", "DO RELEASE_LOCK('a')"], "named lock"),
        (["DO GET_LOCK('a', 1)", "DO RELEASE_LOCK(@a)"], "named lock a"),
        (["INSERT INTO t VALUES (GET_LOCK('a', 1))"], "named lock"),
        (["SELECT `get_lock`('a', 1)"], "named lock"),
        (["SELECT get_lock FROM t"], ""),
        (["DO RELEASE_LOCK('a')"], ""),
    ],
)
def test_named_locks_where_nobody_says_whether_they_were_taken(
    texts: list[str], expected: str
) -> None:
    assert held(*texts) == expected


def test_named_locks_by_the_servers_word() -> None:
    pins = Pins()
    run(pins, "SELECT GET_LOCK('a', 1)", worked=False)
    assert not pins.reasons
    run(pins, "SELECT GET_LOCK('a', 1)", "SELECT GET_LOCK('a', 1)", worked=True)
    run(pins, "SELECT RELEASE_LOCK('a')", worked=True)
    assert pins.text == "named lock a"
    run(pins, "SELECT RELEASE_LOCK('b')", worked=False)
    run(pins, "SELECT RELEASE_LOCK('b')", worked=True)
    assert pins.text == "named lock a"
    run(pins, "SELECT RELEASE_LOCK('a')", worked=False)  # so it has no lock of this name
    assert not pins.reasons


def test_named_locks_whose_names_are_not_known_are_counted() -> None:
    pins = Pins()
    run(pins, "SELECT GET_LOCK('a', 1)", "SELECT GET_LOCK(?, ?)", worked=True)
    assert pins.text == "named lock"
    run(pins, "SELECT RELEASE_LOCK('a')", worked=False)
    run(pins, "SELECT RELEASE_LOCK(?)", worked=True)
    assert pins.text == "named lock"
    run(pins, "DO RELEASE_LOCK('a')")
    assert pins.text == "named lock"
    run(pins, "SELECT RELEASE_LOCK('a')", worked=True)
    assert not pins.reasons


def test_a_lock_of_some_name_is_given_back_by_another_expression() -> None:
    pins = Pins()
    run(pins, "SELECT GET_LOCK('a', 1)", "SELECT GET_LOCK('b', 1)", worked=True)
    run(pins, "SELECT RELEASE_LOCK(?)", worked=True)
    run(pins, "DO RELEASE_LOCK('b')")  # this lock may have been released before
    assert pins.reasons == {PinReason.NAMED_LOCK}
    run(pins, "SELECT RELEASE_LOCK('b')", worked=True)
    assert not pins.reasons


def test_reasons_are_told_once_and_cleared_together() -> None:
    pins = Pins()
    pins.acquire(PinReason.VARIABLE, "sql_log_bin")
    reasons = pins.reasons
    pins.acquire(PinReason.VARIABLE, "gtid_next")
    assert pins.reasons is reasons
    run(pins, "SELECT GET_LOCK('a', 1) FROM t", "DO GET_LOCK('a', 1)")
    pins.release(PinReason.VARIABLE, "sql_log_bin")
    pins.release(PinReason.VARIABLE, "nothing")
    assert pins.text == "variable gtid_next, named lock a, named lock"
    pins.clear()
    assert not pins.reasons
    assert pins.text == ""


def test_a_table_in_another_default_schema_is_another() -> None:
    pins = Pins()
    run(pins, "CREATE TEMPORARY TABLE t (a INT)", schema="a`b")
    run(pins, "DROP TABLE t", schema="app")
    assert pins.text == "temporary table `a``b`.`t`"
    run(pins, "DROP TABLE t", schema="a`b")
    assert not pins.reasons


@pytest.mark.parametrize(
    ("text", "is_lock"),
    [
        ("SELECT GET_LOCK('a', 1)", True),
        ("SELECT RELEASE_LOCK(?) AS r", True),
        ("SELECT GET_LOCK('a', 1) FROM t", False),
        ("SELECT GET_LOCK('a', 1); SELECT 2", False),
        ("BEGIN", False),
        ("EXECUTE s", False),
        ("SELECT 1", False),
    ],
)
def test_whose_row_tells_of_a_lock(text: str, is_lock: bool) -> None:
    assert classify(text.encode()).is_one_lock is is_lock


def test_of_two_readings_only_what_is_taken_counts() -> None:
    statement = classify(b"DO RELEASE_LOCK('a') /*!99999 , GET_LOCK('b', 1) */")
    assert statement.holds == (SessionLock(Act.ACQUIRE, PinReason.NAMED_LOCK),)

"""What makes a session not plain, one thing after the other."""

from collections.abc import Callable
from typing import Final

import pytest

from protocol.constants import AUTOCOMMIT
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.servers.topology import Role, Server
from routing.session.plain import is_plain
from routing.session.session import Session
from routing.sql.classifier import Classifier
from routing.sql.session_locks import PinReason
from routing.sql.statement import NOT_PLAIN, PLAIN_READ, PLAIN_WRITE
from tests.routing.transaction.situations import fail, open_read_only, open_transaction

REPLICA: Final = Server("r1", Role.REPLICA)
ASKING_LEVELS: Final = [Level.READ_ALL_WRITES, Level.STRONG]
OTHER_LEVELS: Final = [level for level in Level if level not in ASKING_LEVELS]


def rules(
    level: Level = Level.READ_OWN_WRITES, scope: Scope = Scope.CONNECTION, application: str = ""
) -> Rules:
    return Rules(level, scope, 0.25, TimeoutPolicy.PRIMARY, application=application)


def set_transaction(session: Session) -> None:
    session.transaction.modes.set_next("transaction_isolation", "'SERIALIZABLE'")


def hold(session: Session) -> None:
    session.pins.acquire(PinReason.TEMPORARY_TABLE, "`app`.`t`")


def have_held_a_temporary_table(session: Session) -> None:
    statement = Classifier().classify(b"UPDATE t SET n = 1", 0)
    session.commits.ended(statement, True, [], True)


def pinged_after_an_error(session: Session) -> None:
    fail(session)
    session.transaction.on_ping(AUTOCOMMIT)


def switch_autocommit_off(session: Session) -> None:
    session.transaction.on_autocommit_set(False)


def begin_without_autocommit(session: Session) -> None:
    session.on_connect("", autocommit=False)


def be_refused(session: Session) -> None:
    session.avoided |= {REPLICA}


def be_objected_to(session: Session) -> None:
    session.rejections.add(REPLICA, "no such role", session.state_versions, 1.0)


def track_all(session: Session) -> None:
    session.trackers.set("session_track_gtids", "'ALL_GTIDS'")


def attribute(name: str, value: object) -> Callable[[Session], None]:
    def change(session: Session) -> None:
        setattr(session, name, value)

    change.__name__ = name
    return change


CHANGES: Final = [
    *(lambda session, level=level: session.adjust(rules(level)) for level in ASKING_LEVELS),
    lambda session: session.adjust(rules(scope=Scope.APPLICATION)),
    *(open_transaction, open_read_only, fail, pinged_after_an_error),
    *(switch_autocommit_off, begin_without_autocommit),
    attribute("trackers_pending", True),
    attribute("result_trackers_pending", True),
    lambda session: session.set_schema("performance_schema"),
    lambda session: session.set_schema("INFORMATION_SCHEMA"),
    *(set_transaction, hold, have_held_a_temporary_table),
    *(be_refused, be_objected_to, track_all),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_session_is_plain_no_more(change: Callable[[Session], None]) -> None:
    session = Session(rules(), 0)
    assert is_plain(session)
    change(session)
    assert not is_plain(session)


@pytest.mark.parametrize("level", OTHER_LEVELS)
@pytest.mark.parametrize("scope", list(Scope))
def test_whose_writes_count_is_all_the_same(scope: Scope, level: Level) -> None:
    assert is_plain(Session(rules(level, scope, application="shop"), 0))
    session = Session(rules(scope=scope, application="shop"), 0)
    session.adjust(rules(level, scope, application="shop"))
    assert is_plain(session)


@pytest.mark.parametrize("level", OTHER_LEVELS)
@pytest.mark.parametrize("tracked", ["OFF", "OWN_GTID", "ALL_GTIDS"])
def test_a_client_that_tracks_something_else(level: Level, tracked: str) -> None:
    session = Session(rules(level), 0)
    session.trackers.set("session_track_gtids", f"'{tracked}'")
    assert is_plain(session) == (tracked in ("OFF", rules(level).tracking))


def test_what_a_session_wrote_and_saw_leaves_it_plain() -> None:
    session = Session(rules(), 0)
    session.may_have_written()
    session.record_answer(REPLICA, 1)
    session.user_variables.forget()
    session.set_variable("sql_mode", "'ANSI'")
    session.set_schema("shop")
    session.set_role("ALL")
    assert is_plain(session)


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        (b"SELECT n FROM t WHERE id = 7", PLAIN_READ),
        (b"SELECT 1", PLAIN_READ),
        (b"TABLE t", PLAIN_READ),
        (b"INSERT INTO t VALUES (1)", PLAIN_WRITE),
        (b"INSERT INTO t SELECT f(n) FROM u", PLAIN_WRITE),
        (b"UPDATE t SET n = n + 1", PLAIN_WRITE),
        (b"DELETE FROM t", PLAIN_WRITE),
        (b"REPLACE INTO t VALUES (1)", PLAIN_WRITE),
        (b"SELECT n FROM t FOR UPDATE", NOT_PLAIN),
        (b"SELECT @a", NOT_PLAIN),
        (b"SELECT @a := 1", NOT_PLAIN),
        (b"SELECT n INTO @a FROM t", NOT_PLAIN),
        (b"SELECT f(1)", NOT_PLAIN),
        (b"SELECT GET_LOCK('a', 1)", NOT_PLAIN),
        (b"SELECT FOUND_ROWS()", NOT_PLAIN),
        (b"SELECT SQL_CALC_FOUND_ROWS n FROM t", PLAIN_READ),
        (b"SELECT ROW_COUNT(), n FROM t", NOT_PLAIN),
        (b"SELECT @@session_track_gtids", NOT_PLAIN),
        (b"SELECT CONNECTION_ID()", NOT_PLAIN),
        (b"SELECT * FROM information_schema.tables", NOT_PLAIN),
        (b"SHOW TABLES", NOT_PLAIN),
        (b"EXPLAIN SELECT 1", NOT_PLAIN),
        (b"INSERT INTO t VALUES (ROW_COUNT())", NOT_PLAIN),
        (b"UPDATE t SET n = @a := 1", NOT_PLAIN),
        (b"UPDATE t SET n = GET_LOCK('a', 1)", NOT_PLAIN),
        (b"SELECT 1; SELECT 2", NOT_PLAIN),
        (b"UPDATE t SET n = 1; SELECT 2", NOT_PLAIN),
        (b"BEGIN", NOT_PLAIN),
        (b"SET @a = 1", NOT_PLAIN),
        (b"SET SESSION session_track_gtids = OFF", NOT_PLAIN),
        (b"CREATE TABLE t (n INT)", NOT_PLAIN),
        (b"CREATE VIEW v AS SELECT 1", NOT_PLAIN),
        (b"RENAME TABLE t TO u", NOT_PLAIN),
        (b"CALL p()", NOT_PLAIN),
        (b"KILL 7", NOT_PLAIN),
        (b"PREPARE s FROM 'SELECT 1'", NOT_PLAIN),
        (b"EXECUTE s", NOT_PLAIN),
        (b"SHOW TIDEGATE LAST", NOT_PLAIN),
        # Texts that two servers may interpret differently.
        (b"SELECT /*!99999 @a, */ 1", NOT_PLAIN),
        (b"SELECT 1 /*!99999 , @a */", NOT_PLAIN),
        (b"SELECT 1 /*!99999 ; SELECT 2 */", NOT_PLAIN),
        (b"UPDATE t SET n = 1 /*!99999 ; UPDATE u SET n = 2 */", NOT_PLAIN),
        (b"/*!99999 INSERT INTO t */ SELECT n FROM v", NOT_PLAIN),
        (b"SELECT n FROM t /*!99999 WHERE n = 1 */", PLAIN_READ),
        (b"/* tidegate consistency=STRONG */ SELECT 1", NOT_PLAIN),
        (b"/* tidegate consistency=STRONG */ UPDATE t SET n = 1", NOT_PLAIN),
    ],
)
def test_which_statements_are_plain(sql: bytes, plain: int) -> None:
    assert Classifier().classify(sql, 0).plain == plain

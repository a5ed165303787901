"""READ ONLY transactions: on a replica, from one snapshot, and otherwise as at a server."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import mysql.connector
import pytest
from pymysql.err import MySQLError

from protocol.constants import Capability, Command
from protocol.prepared_statement import ComStmtExecute
from protocol.response import StmtPrepareOk
from protocol.response_stream import PREPARED, RESULTS
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor


def value(client: Connection[Cursor], sql: str) -> object:
    with client.cursor() as cursor:
        cursor.execute(sql)
        row = cursor.fetchone()
        return None if row is None else row[0]


def served(client: Connection[Cursor]) -> str:
    """The server that the last statement ran on."""
    with client.cursor() as cursor:
        cursor.execute("SHOW TIDEGATE LAST")
        row = cursor.fetchone()
        assert row is not None
        assert cursor.description is not None
        return str(row[[column[0] for column in cursor.description].index("server")])


@pytest.fixture
def numbers(cluster: Cluster) -> Cluster:
    cluster.primary.query("DROP TABLE IF EXISTS app.numbers")
    cluster.primary.query("CREATE TABLE app.numbers (n INT)")
    cluster.primary.query("INSERT INTO app.numbers VALUES (1)")
    cluster.wait_caught_up()
    return cluster


COUNT = "SELECT COUNT(*) FROM numbers"


def test_reads_share_a_replica_s_snapshot(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query("INSERT INTO numbers VALUES (2)")
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 2  # WAIT came before the snapshot
        replica = served(client)
        assert replica != numbers.primary.address
        other.query("INSERT INTO numbers VALUES (3)")
        numbers.wait_caught_up()
        for _ in range(3):
            assert value(client, COUNT) == 2
            assert served(client) == replica
        client.query("SAVEPOINT s")
        client.query("ROLLBACK TO SAVEPOINT s")
        assert value(client, COUNT) == 2
        client.query("COMMIT AND CHAIN")
        assert value(client, COUNT) == 3
        client.query("COMMIT")
        assert value(client, COUNT) == 3
    assert running.metric("tidegate_snapshots_split_total") == 0


def test_what_a_server_refuses_is_refused_alike(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    for address in ("direct", "through"):
        with (numbers.primary if address == "direct" else running).connect() as client:
            client.select_db("app")
            client.query("START TRANSACTION READ ONLY")
            assert value(client, COUNT) == 1
            for sql in ("INSERT INTO numbers VALUES (9)", "DELETE FROM numbers"):
                with pytest.raises(MySQLError) as failed:
                    client.query(sql)
                assert failed.value.args[0] == 1792
            assert value(client, COUNT) == 1
            assert client.server_status & 0x2001 == 0x2001
            client.query("ROLLBACK")
            client.query("INSERT INTO numbers VALUES (2)")
            assert value(client, COUNT) == 2
            client.query("DELETE FROM numbers WHERE n = 2")


@pytest.mark.parametrize(
    ("setting", "read"),
    [
        ("SET timestamp = 1000 + 1", "SELECT UNIX_TIMESTAMP(NOW()) FROM numbers"),
        ("USE information_schema", "SELECT SUM(ID = {}) FROM PROCESSLIST"),
    ],
)
def test_what_only_the_primary_can_show_is_none_of_the_snapshot(
    numbers: Cluster, proxy: StartProxy, setting: str, read: str
) -> None:
    with proxy().connect() as client:
        read = read.format(value(client, "SELECT CONNECTION_ID()"))
        expected = 1001 if "timestamp" in setting else 1
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 1
        replica = served(client)
        assert replica != numbers.primary.address
        client.query(setting)
        assert value(client, read) == expected
        assert served(client) == numbers.primary.address
        client.query("SET timestamp = DEFAULT")
        client.query("USE app")
        assert value(client, COUNT) == 1
        assert served(client) == replica
        client.query("COMMIT")


def test_xa_recover_leaves_the_transaction_as_it_is(numbers: Cluster, proxy: StartProxy) -> None:
    numbers.primary.query(f"GRANT XA_RECOVER_ADMIN ON *.* TO {APP_USER}")
    numbers.wait_caught_up()
    with proxy().connect() as client:
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 1
        numbers.primary.query("INSERT INTO app.numbers VALUES (2)")
        numbers.wait_caught_up()
        client.query("XA RECOVER")
        assert value(client, COUNT) == 1
    numbers.primary.query(f"REVOKE XA_RECOVER_ADMIN ON *.* FROM {APP_USER}")


@pytest.mark.parametrize("start", ["START TRANSACTION READ ONLY", "BEGIN"])
def test_a_question_about_the_statement_before_takes_no_snapshot(
    numbers: Cluster, proxy: StartProxy, start: str
) -> None:
    with proxy().connect() as client, ExitStack() as stack:
        client.query("SET tidegate_transaction_reads = 'snapshot'")
        client.query("SELECT n FROM numbers UNION ALL SELECT 7 FROM numbers")
        replica = served(client)
        assert replica != numbers.primary.address
        for server in numbers.replicas:
            stack.enter_context(server.applier_stopped())
        client.query("INSERT INTO numbers VALUES (2)")
        client.query(start)
        assert value(client, "SELECT FOUND_ROWS()") == 2
        assert client.server_status & 0x0001
        assert value(client, COUNT) == 2
        client.query("COMMIT")


@pytest.mark.parametrize("subquery", ["(SELECT n FROM numbers)", "(TABLE numbers)"])
def test_what_reads_a_table_on_the_primary_takes_the_snapshot_there(
    numbers: Cluster, proxy: StartProxy, subquery: str
) -> None:
    with proxy().connect() as client:
        client.query("START TRANSACTION READ ONLY")
        client.query(f"SELECT @@autocommit, {subquery}")
        numbers.primary.query("INSERT INTO app.numbers VALUES (2)")
        numbers.wait_caught_up()
        assert value(client, COUNT) == 1


def test_a_snapshot_at_the_start_is_the_primary_s(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        other.query("INSERT INTO numbers VALUES (2)")
        assert value(client, COUNT) == 1
        assert served(client) == numbers.primary.address
        client.query("COMMIT")
        client.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        other.query("INSERT INTO numbers VALUES (3)")
        assert value(client, COUNT) == 2


def test_the_isolation_level_goes_along(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 1
        assert served(client) != numbers.primary.address
        other.query("INSERT INTO numbers VALUES (2)")
        numbers.wait_caught_up()
        assert value(client, COUNT) == 2
        client.query("COMMIT")
        client.query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 2
        assert served(client) == numbers.primary.address


def test_a_snapshot_dies_with_its_replica(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client:
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 1
        for replica in numbers.replicas:
            replica.end_other_connections()
        with pytest.raises(MySQLError) as failed:
            value(client, COUNT)
        assert failed.value.args[0] == 2013


def test_replicas_end_their_part(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    open_there = "SELECT COUNT(*) FROM information_schema.innodb_trx"
    on_replicas = 0
    with running.connect() as client:
        for end in ("COMMIT", "ROLLBACK", "CREATE TABLE IF NOT EXISTS another (n INT)", "BEGIN"):
            client.query("START TRANSACTION READ ONLY")
            assert value(client, COUNT) == 1
            on_replicas += served(client) != numbers.primary.address
            client.query(end)
            while any(r.value(open_there) != "0" for r in numbers.replicas):
                time.sleep(0.05)
            assert value(client, COUNT) == 1
        client.query("COMMIT")
    assert on_replicas


BEGINNINGS = {
    "as JDBC does": ["SET SESSION TRANSACTION READ ONLY", "SET autocommit=0"],
    "the other way round": ["SET autocommit=0", "SET SESSION TRANSACTION READ ONLY"],
    "by the variable": ["SET SESSION transaction_read_only = ON", "SET autocommit = 'off'"],
    "by an expression": ["SET @@session.transaction_read_only = 2 - 1, autocommit = 1 - 1"],
    "with an isolation level": [
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        "SET autocommit=0",
    ],
    "as Python drivers do": ["SET autocommit=0", "START TRANSACTION READ ONLY"],
    "for the next one": ["SET TRANSACTION READ ONLY", "BEGIN"],
    "for the next one, by the variable": ["SET @@transaction_read_only = 1", "BEGIN"],
    "for the next one, without autocommit": ["SET autocommit=0", "SET TRANSACTION READ ONLY"],
    "by the session's mode": ["SET SESSION TRANSACTION READ ONLY", "START TRANSACTION"],
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_however_it_begins_it_reads_from_a_replica(
    numbers: Cluster, proxy: StartProxy, beginning: str
) -> None:
    running = proxy()
    with (
        running.connect() as client,
        numbers.primary.connect() as direct,
        running.connect() as other,
    ):
        for sql in BEGINNINGS[beginning]:
            client.query(sql)
            direct.query(sql)
        assert value(client, COUNT) == value(direct, COUNT) == 1
        replica = served(client)
        assert replica != numbers.primary.address
        assert client.server_status == direct.server_status
        other.query("INSERT INTO numbers VALUES (2)")
        numbers.wait_caught_up()
        for sql in (None, "DO 1", "SELECT @@sql_mode", "SAVEPOINT s", "SELECT 1"):
            if sql is not None:
                assert value(client, sql) == value(direct, sql)
                assert client.server_status & 0x2003 == direct.server_status & 0x2003, sql
            assert value(client, COUNT) == value(direct, COUNT) == 1, sql
            assert served(client) == replica
        client.ping()
        assert value(client, COUNT) == 1
        for session in (client, direct):
            for sql in ("INSERT INTO numbers VALUES (9)", "DELETE FROM numbers"):
                with pytest.raises(MySQLError) as failed:
                    session.query(sql)
                assert failed.value.args[0] == 1792
            with pytest.raises(MySQLError) as failed:
                session.query("SET TRANSACTION READ WRITE")
            assert failed.value.args[0] == 1568
        assert value(client, COUNT) == 1
        assert served(client) == replica
        client.query("COMMIT")
        direct.query("COMMIT")
        assert client.server_status == direct.server_status
        assert value(client, COUNT) == 2
    assert running.metric("tidegate_snapshots_split_total") == 0


def test_a_commit_opens_the_next_one(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query("SET SESSION TRANSACTION READ ONLY")
        client.autocommit(False)
        for count, end in enumerate(
            ("COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "BEGIN", "COMMIT"), 1
        ):
            assert value(client, COUNT) == count
            assert served(client) != numbers.primary.address, count
            other.query("INSERT INTO numbers VALUES (2)")
            numbers.wait_caught_up()
            assert value(client, COUNT) == count
            client.query(end)
        assert value(client, COUNT) == 6
        # Its mode counts from the next one on.
        client.query("SET SESSION TRANSACTION READ WRITE")
        other.query("INSERT INTO numbers VALUES (2)")
        numbers.wait_caught_up()
        assert value(client, COUNT) == 6
        with pytest.raises(MySQLError) as failed:
            client.query("INSERT INTO numbers VALUES (9)")
        assert failed.value.args[0] == 1792
        client.query("COMMIT")
        client.query("INSERT INTO numbers VALUES (9)")
        assert value(client, COUNT) == 8
        assert served(client) == numbers.primary.address
        client.query("ROLLBACK")
        assert value(client, COUNT) == 7
        assert served(client) == numbers.primary.address
        client.autocommit(True)
        assert value(client, COUNT) == 7
        assert served(client) != numbers.primary.address


def test_what_comes_to_no_table_opens_none(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    for begin in (["SET SESSION TRANSACTION READ ONLY"], ["SET TRANSACTION READ ONLY"]):
        with running.connect() as client, numbers.primary.connect() as direct:
            for session in (client, direct):
                session.query("SET autocommit=0")
                for sql in begin:
                    session.query(sql)
                assert value(session, "SELECT 1") == 1
                for sql in ("SELECT nosuch FROM numbers", "SELECT * FROM nosuch"):
                    with pytest.raises(MySQLError):
                        session.query(sql)
                session.query("SET SESSION TRANSACTION READ WRITE")
                session.query("SET TRANSACTION READ WRITE")
                session.query("INSERT INTO numbers VALUES (2)")
                assert value(session, COUNT) == 2
                session.query("ROLLBACK")


def test_one_shots_count_once(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    spending = (
        *("SELECT COUNT(*) FROM numbers", "SELECT @@sql_mode, n FROM numbers", "COMMIT"),
        *("CALL reading()", "START TRANSACTION; COMMIT", "SET @n = (SELECT MAX(n) FROM numbers)"),
    )
    numbers.primary.query("CREATE PROCEDURE app.reading() SELECT COUNT(*) FROM app.numbers")
    for sql in spending:
        with running.connect() as client, client.cursor() as cursor:
            client.query("SET TRANSACTION READ ONLY")
            if ";" in sql:
                for part in sql.split(";"):
                    cursor.execute(part)
            else:
                cursor.execute(sql)
            client.query("SET autocommit=0")
            assert value(client, COUNT) == 1
            assert served(client) == numbers.primary.address, sql
            client.query("INSERT INTO numbers VALUES (2)")
            client.query("ROLLBACK")


def test_own_writes_are_seen_behind_what_ended_it(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    numbers.primary.query(
        "CREATE PROCEDURE app.writing() BEGIN COMMIT; START TRANSACTION READ WRITE;"
        " INSERT INTO app.numbers VALUES (5); COMMIT; SIGNAL SQLSTATE '45000'; END"
    )
    for begin in (["START TRANSACTION READ ONLY"], BEGINNINGS["as JDBC does"]):
        with running.connect() as client:
            for sql in begin:
                client.query(sql)
            before = value(client, COUNT)
            assert served(client) != numbers.primary.address
            with pytest.raises(MySQLError):
                client.query("CALL writing()")
            assert value(client, COUNT) == int(str(before)) + 1


def test_a_change_of_settings_leaves_the_snapshot(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query("START TRANSACTION READ ONLY")
        assert value(client, COUNT) == 1
        other.query("INSERT INTO numbers VALUES (2)")
        numbers.wait_caught_up()
        for sql in ("SET SESSION TRANSACTION READ WRITE", "SET autocommit=0", "SET @a = 1"):
            client.query(sql)
            assert value(client, COUNT) == 1, sql
        client.ping()
        client.select_db("app")
        assert value(client, COUNT) == 1
        client.query("SET autocommit=1")
        assert value(client, COUNT) == 2


def test_serializable_ones_read_from_the_primary(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    with running.connect() as client:
        client.query("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY")
        for begin in ("BEGIN", "SET autocommit=0"):
            client.query(begin)
            assert value(client, COUNT) == 1
            assert served(client) == numbers.primary.address
            client.query("COMMIT")


def test_a_pooled_session_begins_anew(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    connection = mysql.connector.connect(
        host="127.0.0.1",
        port=running.port,
        user=APP_USER,
        password=APP_PASSWORD,
        database="app",
        use_pure=True,
    )
    with closing(connection), connection.cursor() as cursor:
        for _ in range(2):
            connection.start_transaction(readonly=True)
            cursor.execute(COUNT)
            assert cursor.fetchone() == (1,)
            cursor.execute("SHOW TIDEGATE LAST")
            row = cursor.fetchone()
            assert row is not None
            assert row[cursor.column_names.index("server")] != numbers.primary.address
            assert connection.in_transaction
            connection.rollback()
            connection.cmd_reset_connection()
        connection.autocommit = False
        cursor.execute("SET SESSION TRANSACTION READ ONLY")
        cursor.execute(COUNT)
        assert cursor.fetchone() == (1,)
        assert connection.in_transaction
        connection.cmd_reset_connection()
        cursor.execute("INSERT INTO numbers VALUES (2)")
        cursor.execute(COUNT)
        assert cursor.fetchone() == (2,)


STRICT = ["MONOTONIC_READS", "READ_ALL_WRITES", "STRONG", "BOUNDED_STALENESS(1ms)"]
WIDE = ["user", "application", "proxy"]
RULES = [("READ_OWN_WRITES", scope) for scope in WIDE] + [
    (level, scope) for level in STRICT for scope in ("connection", *WIDE)
]


def follow(client: Connection[Cursor], level: str, scope: str) -> None:
    """Let a session read by these rules."""
    client.query("SET tidegate_application = 'shop'")
    client.query(f"SET tidegate_consistency = '{level}', tidegate_scope = '{scope}'")


def test_at_every_level_and_scope_the_first_read_is_owed_what_there_was(
    numbers: Cluster, proxy: StartProxy
) -> None:
    running = proxy(wait_budget="5s")
    inside = 0
    for written, (level, scope) in enumerate(RULES, 1):
        with running.connect() as client, running.connect() as other:
            follow(client, level, scope)
            follow(other, level, scope)
            other.query("INSERT INTO numbers VALUES (1000)")
            client.query("START TRANSACTION READ ONLY")
            seen = value(client, COUNT)
            replica = served(client)
            if scope != "connection" or level in ("STRONG", "BOUNDED_STALENESS(1ms)"):
                assert seen == 1 + written, (level, scope)
            other.query("UPDATE numbers SET n = n + 1")
            numbers.wait_caught_up()
            for _ in range(2):
                assert value(client, COUNT) == seen, (level, scope)
                assert served(client) == replica
                assert value(client, "SELECT MIN(n) FROM numbers") == written
            inside += replica != numbers.primary.address
            client.query("COMMIT")
            assert value(client, "SELECT MIN(n) FROM numbers") == written + 1, (level, scope)
    assert inside >= len(RULES) - 4, "of the first reads hardly any leaves the replicas"
    assert running.metric("tidegate_snapshots_split_total") == 0


def test_at_read_committed_each_read_is_one_by_itself(numbers: Cluster, proxy: StartProxy) -> None:
    running = proxy(wait_budget="5s")
    for begin in (["START TRANSACTION READ ONLY"], BEGINNINGS["as JDBC does"]):
        before = int(str(numbers.primary.value("SELECT COUNT(*) FROM app.numbers")))
        with running.connect() as client, running.connect() as other:
            client.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            follow(client, "STRONG", "user")
            for sql in begin:
                client.query(sql)
            for count in range(before + 1, before + 4):
                other.query("INSERT INTO numbers VALUES (2)")
                assert value(client, COUNT) == count
                assert served(client) != numbers.primary.address
            client.query("DO 1")
            assert client.server_status & 0x2001 == 0x2001
            assert value(client, "SELECT n FROM numbers WHERE n = 2 LIMIT 1 FOR SHARE") == 2
            assert served(client) == numbers.primary.address
            other.query("INSERT INTO numbers VALUES (2)")
            assert value(client, COUNT) == before + 4
            assert served(client) != numbers.primary.address
            with pytest.raises(MySQLError) as failed:
                client.query("DELETE FROM numbers")
            assert failed.value.args[0] == 1792
            # The level is the next transaction's: reads of this one stay with the primary.
            client.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.query("INSERT INTO numbers VALUES (2)")
            assert value(client, COUNT) == before + 5
            assert served(client) == numbers.primary.address
            client.query("COMMIT")


@pytest.mark.parametrize(
    "sql", ["SELECT n FROM numbers", "SELECT CONNECTION_ID() FROM numbers", "TABLE numbers"]
)
def test_what_is_executed_by_text_takes_the_snapshot(
    numbers: Cluster, proxy: StartProxy, sql: str
) -> None:
    running = proxy()
    with running.connect() as client, running.connect() as other:
        client.query(f"PREPARE p FROM '{sql}'")
        client.query("START TRANSACTION READ ONLY")
        client.query("EXECUTE p")
        other.query("INSERT INTO numbers VALUES (2)")
        assert value(client, COUNT) == 1


@pytest.mark.parametrize("text", ["EXECUTE p", "DO 1 IN (TABLE numbers)"])
def test_what_reads_a_table_uses_a_one_shot_up(
    numbers: Cluster, proxy: StartProxy, text: str
) -> None:
    with proxy().connect() as client:
        client.query("PREPARE p FROM 'SELECT n FROM numbers'")
        client.query("SET TRANSACTION READ ONLY")
        client.query(text)
        client.query("SET autocommit = 0")
        assert value(client, COUNT) == 1
        client.query("INSERT INTO numbers VALUES (2)")
        client.query("COMMIT")
        assert value(client, COUNT) == 2


def test_a_prepared_question_reads_tables(numbers: Cluster, proxy: StartProxy) -> None:
    address = proxy().address
    with RawClient(
        address, APP_USER, APP_PASSWORD, Capability.CLIENT_DEPRECATE_EOF, "app"
    ) as client:
        sql = b"SELECT CONNECTION_ID() > 0, n FROM numbers"
        answer = client.command(Command.COM_STMT_PREPARE, sql, PREPARED)
        number = StmtPrepareOk.parse(answer[0][1], client.capabilities).statement_id
        client.query("START TRANSACTION READ ONLY")
        client.command(
            Command.COM_STMT_EXECUTE, ComStmtExecute(number, 0).serialise(False)[1:], RESULTS
        )
        numbers.primary.query("INSERT INTO app.numbers VALUES (2)")
        numbers.wait_caught_up()
        assert client.query(COUNT)[2][1] == b"\x011"


@pytest.mark.parametrize(
    ("setting", "sql"),
    [
        ("sql_mode = 'ANSI_QUOTES'", 'SELECT "n" FROM numbers'),
        ("group_concat_max_len = 4", "SELECT GROUP_CONCAT('abcdefgh') FROM numbers"),
    ],
)
def test_a_replica_is_told_of_no_statement_that_it_would_read_otherwise(
    numbers: Cluster, proxy: StartProxy, setting: str, sql: str
) -> None:
    found = []
    for address in (numbers.primary.address, proxy().address):
        with RawClient(
            address, APP_USER, APP_PASSWORD, Capability.CLIENT_DEPRECATE_EOF, "app"
        ) as client:
            client.query("BEGIN")  # so that it is prepared on the primary
            answer = client.command(Command.COM_STMT_PREPARE, sql.encode(), PREPARED)
            number = StmtPrepareOk.parse(answer[0][1], client.capabilities).statement_id
            client.query("COMMIT")
            client.query(f"SET {setting}")
            client.query("START TRANSACTION READ ONLY")
            client.query(COUNT)
            execution = ComStmtExecute(number, 0).serialise(False)[1:]
            answer = client.command(Command.COM_STMT_EXECUTE, execution, RESULTS)
            found.append([payload for _, payload in answer[:-1]])
    assert found[0] == found[1]

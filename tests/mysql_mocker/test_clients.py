"""Sessions of the usual drivers, and of the command-line client where it is at hand."""

import datetime
import decimal
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing

import mysql.connector
import pymysql
import pytest
from mysql.connector.abstracts import MySQLConnectionAbstract
from pymysql.connections import Connection

from mysql_mocker.server.server import Server
from tests.real_mysql.cluster import find_mysqld

TABLE = (
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(50), b BLOB, d DATETIME(6), "
    "x DECIMAL(8,3), f DOUBLE, j JSON, day DATE, u BIGINT UNSIGNED)"
)
VALUES = (
    "héllo 'q' \\ \"\n\t%", b"\x00\xff'\\\"\n\r\x1a", datetime.datetime(2024, 1, 2, 3, 4, 5, 60),
    decimal.Decimal("1.500"), 0.1, '{"a": 1}', datetime.date(2024, 2, 29), 2**62,
)  # fmt: skip
INSERT = "INSERT INTO t (v, b, d, x, f, j, day, u) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"


@pytest.fixture
def by_pymysql(primary: Server) -> Iterator[Connection]:
    connection = pymysql.connect(
        host="127.0.0.1", port=primary.port, user="demo", password="demo", database="test"
    )
    with closing(connection):
        yield connection


@pytest.fixture
def by_connector(primary: Server, by_pymysql: Connection) -> Iterator[MySQLConnectionAbstract]:
    # Without TLS this driver can only log in the fast way: where somebody has logged in before.
    connection = mysql.connector.connect(
        host="127.0.0.1", port=primary.port, user="demo", password="demo", database="test",
        use_pure=True, ssl_disabled=True,
    )  # fmt: skip
    with closing(connection):
        yield connection  # type: ignore[misc]


def test_pymysql_session(by_pymysql: Connection) -> None:
    with by_pymysql.cursor() as cursor:
        cursor.execute(TABLE)
        cursor.execute(INSERT, VALUES)
        assert (cursor.lastrowid, cursor.rowcount) == (1, 1)
        by_pymysql.commit()
        cursor.execute("SELECT * FROM t")
        assert cursor.fetchall() == ((1, *VALUES),)
        assert cursor.executemany("INSERT INTO t (v) VALUES (%s)", [("a",), ("b",)]) == 2
        by_pymysql.rollback()
        cursor.execute("SELECT COUNT(*) FROM t")
        assert cursor.fetchone() == (1,)
        with pytest.raises(pymysql.err.IntegrityError) as duplicate:
            cursor.execute("INSERT INTO t (id) VALUES (1)")
        assert duplicate.value.args == (1062, "Duplicate entry '1' for key 't.PRIMARY'")
        with pytest.raises(pymysql.err.ProgrammingError) as missing:
            cursor.execute("SELECT * FROM nothing")
        assert missing.value.args == (1146, "Table 'test.nothing' doesn't exist")


def test_pymysql_context_manager_and_ping(by_pymysql: Connection) -> None:
    by_pymysql.ping()
    by_pymysql.select_db("test")
    assert by_pymysql.get_server_info().startswith("9.")
    by_pymysql.autocommit(True)
    with by_pymysql.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SELECT 1 AS one, 'x' AS x, NULL AS nothing")
        assert cursor.fetchone() == {"one": 1, "x": "x", "nothing": None}
        cursor.execute("SHOW VARIABLES LIKE 'autocommit'")
        assert cursor.fetchone() == {"Variable_name": "autocommit", "Value": "ON"}


def test_connector_session(by_connector: MySQLConnectionAbstract) -> None:
    with by_connector.cursor() as cursor:
        cursor.execute(TABLE)
        cursor.execute(INSERT, VALUES)
        assert (cursor.lastrowid, cursor.rowcount) == (1, 1)
        by_connector.commit()
        cursor.execute("SELECT v, b, d, x, f, day, u FROM t")
        assert cursor.fetchall() == [(*VALUES[:5], *VALUES[6:])]
        assert by_connector.in_transaction
    by_connector.rollback()
    assert not by_connector.in_transaction
    by_connector.cmd_reset_connection()
    by_connector.cmd_change_user("demo", "demo", "test")
    assert by_connector.is_connected()
    with pytest.raises(mysql.connector.errors.Error) as refused:
        by_connector.cmd_change_user("demo", "wrong", "test")
    assert refused.value.errno == 1045


def test_connector_prepared_statements(by_connector: MySQLConnectionAbstract) -> None:
    with by_connector.cursor(prepared=True) as cursor:
        cursor.execute(TABLE)
        for _ in range(2):
            cursor.execute(INSERT.replace("%s", "?"), VALUES)
        assert cursor.rowcount == 1
        cursor.execute("SELECT id, v, b, d, x, f, day, u FROM t WHERE id = ? OR v = ?", (2, "no"))
        assert cursor.fetchall() == [(2, *VALUES[:5], *VALUES[6:])]
        cursor.execute("SELECT COUNT(*), ?, ?, ? FROM t", (None, "é", -5))
        assert cursor.fetchall() == [(2, None, "é", -5)]
        cursor.execute("UPDATE t SET x = ? WHERE id = ?", (decimal.Decimal("2.25"), 1))
        assert cursor.rowcount == 1
    by_connector.commit()


def test_connector_multi_results(by_connector: MySQLConnectionAbstract) -> None:
    with by_connector.cursor() as cursor:
        cursor.execute("CREATE TABLE t (n INT)")
        cursor.execute("CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END")
        cursor.callproc("p")
        assert [result.fetchall() for result in cursor.stored_results()] == [[(1,)], [(2,)]]


def find_client() -> str | None:
    mysqld = find_mysqld()
    return shutil.which("mysql" if mysqld is None else str(mysqld.with_name("mysql")))


@pytest.mark.real_mysql
@pytest.mark.parametrize("tls", ["DISABLED", "PREFERRED"])
def test_the_command_line_client(primary: Server, tls: str) -> None:
    program = find_client()
    if program is None:
        pytest.skip("no mysql client")
    script = (
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'one');\n"
        "SHOW TABLES; SELECT * FROM t; DESCRIBE t; SELECT @@version_comment;\n"
    )
    done = subprocess.run(
        [program, "-h127.0.0.1", f"-P{primary.port}", "-udemo", "-pdemo", f"--ssl-mode={tls}",
         "--get-server-public-key", "test"],
        input=script, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Tables_in_test\nt\nid\tv\n1\tone\nField" in done.stdout
    assert "mysql_mocker" in done.stdout

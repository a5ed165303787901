"""Sessions written by hand get the same packets from the mocker as from MySQL: each of them once
got others."""

import struct

import pytest

from protocol.constants import Capability, Command, FieldType
from protocol.response_stream import FIELDS
from tests.differential.session import Session
from tests.differential.step import (
    ChangeUser,
    Execute,
    LongData,
    Prepare,
    ResetStatement,
    Send,
    Step,
)
from tests.mysql_mocker.differential.arena import Arena
from tests.mysql_mocker.differential.schema import PASSWORD, USER
from tests.mysql_mocker.differential.written_transactions import MODERN, TRANSACTIONS, queries

OLD = Capability(0)
NO_METADATA = MODERN | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
FOUND_ROWS = MODERN | Capability.CLIENT_FOUND_ROWS

ONE = (int(FieldType.MYSQL_TYPE_LONGLONG), struct.pack("<q", 1))
TEXT = (int(FieldType.MYSQL_TYPE_VAR_STRING), b"one")


NUMBERED = "INSERT INTO items (name) VALUES ('{}')"

WRITTEN: dict[str, tuple[Capability, tuple[Step, ...]]] = {
    "columns of tables": (
        MODERN,
        queries("SELECT * FROM items", "SELECT * FROM parts", "SELECT w.* FROM side.words w"),
    ),
    "columns of expressions": (
        MODERN,
        queries(
            "SELECT qty + 1, qty * price, qty / 2, -qty, price + 1.5, weight + 1 FROM items",
            "SELECT UPPER(name), CONCAT(name, qty), LENGTH(name), LEFT(name, 3) FROM items",
            "SELECT IF(qty, name, 1), CASE qty WHEN 1 THEN 'a' END, NULLIF(qty, 1) FROM items",
            "SELECT COUNT(*), SUM(qty), AVG(price), MAX(name), MIN(made), SUM(weight) FROM items",
            "SELECT id = 1, name LIKE 'a', qty IN (1), name IS NULL, qty & 1 FROM items",
            "SELECT CAST(qty AS CHAR), CAST(id AS UNSIGNED), CAST(qty AS DECIMAL(10,2)) FROM items",
            "SELECT DATABASE(), LEFT(USER(), 6), LAST_INSERT_ID(), ROW_COUNT()",
            "SELECT @@autocommit, @@sql_mode, @@wait_timeout, @@long_query_time, @unset",
            "SELECT (SELECT 1), (SELECT MAX(qty) FROM items), EXISTS (SELECT 1)",
            "SELECT 1 AS u UNION ALL SELECT 2",
            "SELECT name FROM items UNION ALL SELECT label FROM parts ORDER BY 1",
            "SELECT x.n FROM (SELECT name AS n FROM items ORDER BY id LIMIT 1) x",
            "SELECT x.c FROM (SELECT COUNT(*) AS c FROM items) x",
        ),
    ),
    "columns that a lenient sql_mode makes": (
        MODERN,
        queries("SET sql_mode = ''", "SELECT REPEAT('x', 3), UPPER('a'), CONCAT('a', NULL)"),
    ),
    "columns of views": (
        MODERN,
        queries("CREATE VIEW v AS SELECT id, name AS n FROM items", "SELECT * FROM v ORDER BY id"),
    ),
    "columns of what is shown": (
        MODERN,
        queries(
            *("SHOW TABLES", "SHOW FULL TABLES FROM app", "SHOW TABLES LIKE 'i%'"),
            *("SHOW DATABASES LIKE 'app'", "SHOW COLUMNS FROM items", "DESCRIBE parts"),
            *("SHOW VARIABLES LIKE 'autocommit'", "SHOW GLOBAL VARIABLES LIKE 'gtid_mode'"),
            *("SHOW WARNINGS", "SHOW COUNT(*) ERRORS", "SHOW CREATE DATABASE app"),
            *("CHECK TABLE items, missing", "OPTIMIZE TABLE parts", "SHOW STATUS LIKE 'nothing'"),
        ),
    ),
    "a client that wants no metadata": (
        NO_METADATA,
        queries("SET resultset_metadata = NONE", "SELECT id FROM items", "SET @a = 1"),
    ),
    "a client that wants no metadata, but EOFs": (
        OLD | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA,
        (
            *queries("SET resultset_metadata = NONE", "SELECT id FROM items"),
            Send(Command.COM_FIELD_LIST, b"items\x00", FIELDS),
            Prepare(0, "SELECT id FROM items WHERE id = ?"),
            Execute(0, (ONE,)),
            Prepare(1, "SELECT id FROM items"),
            Prepare(2, "DO ?"),
            Prepare(3, "DO 1"),
        ),
    ),
    "EOFs": (
        OLD,
        queries("SELECT id FROM items", "SELECT 1; SELECT 2", "CALL results()", "SELECT missing"),
    ),
    "numbers that do not come back": (
        MODERN,
        queries(
            *("BEGIN", NUMBERED.format("a"), "ROLLBACK", NUMBERED.format("b")),
            *(NUMBERED.format("one"), NUMBERED.format("c")),
            "INSERT IGNORE INTO items (name) VALUES ('d'), ('one'), ('e')",
            *(NUMBERED.format("f"), "INSERT INTO items (id, name) VALUES (100, 'g')"),
            "INSERT INTO items (id, name) VALUES (NULL, 'h'), (200, 'i'), (0, 'j')",
            "INSERT INTO items (name) SELECT CONCAT(name, '!') FROM items WHERE id < 4 ORDER BY id",
            *(NUMBERED.format("k"), "UPDATE items SET id = 300 WHERE name = 'k'"),
            *(NUMBERED.format("l"), "REPLACE INTO items (name) VALUES ('one')"),
            "INSERT INTO items (name) VALUES ('two') ON DUPLICATE KEY UPDATE qty = qty + 1",
            *(NUMBERED.format("m"), "SELECT id, name FROM items ORDER BY id"),
            *("TRUNCATE items", NUMBERED.format("n"), "INSERT INTO items (missing) VALUES (1)"),
            *(NUMBERED.format("o"), "INSERT INTO items (name) SELECT name FROM items"),
            NUMBERED.format("p"),
        ),
    ),
    "duplicates": (
        MODERN,
        queries(
            "UPDATE items SET name = 'one' WHERE id = 2",
            "INSERT INTO items (name) SELECT name FROM items",
            "INSERT INTO items (id, name) VALUES (9, 'two')",
            "INSERT IGNORE INTO items (id, name) VALUES (1, 'x'), (9, 'two'), (10, 'new')",
            "SHOW WARNINGS",
            "INSERT INTO items (name) VALUES ('ÖNE'), ('öne')",
        ),
    ),
    "rows that were found": (
        FOUND_ROWS,
        queries(
            "UPDATE items SET qty = 1 WHERE id <= 2",
            "INSERT INTO items (id, qty) VALUES (1, 1) ON DUPLICATE KEY UPDATE qty = 1",
            *("SELECT ROW_COUNT()", "SELECT * FROM items ORDER BY id LIMIT 1, 1"),
            *("SELECT FOUND_ROWS()", "SELECT SQL_CALC_FOUND_ROWS id FROM items LIMIT 1"),
            *("SHOW WARNINGS", "SELECT FOUND_ROWS()"),
        ),
    ),
    "errors and where they stand": (
        MODERN,
        queries(
            *("SELECT missing FROM items", "SELECT * FROM nowhere.items"),
            *("INSERT INTO items (id, name) VALUES (1)", "INSERT INTO items VALUES (1, 2)"),
            *("INSERT INTO side.words (word) VALUES ('x')", "SELECT @@error_count"),
            *(
                "SHOW ERRORS",
                "ALTER TABLE parts DROP COLUMN missing",
                "RENAME TABLE missing TO items",
            ),
        ),
    ),
    "what a read-only transaction refuses": (
        MODERN,
        queries(
            *("START TRANSACTION READ ONLY", "START TRANSACTION", "DELETE FROM parts", "COMMIT"),
            *("SET TRANSACTION READ ONLY", "SELECT 1", "DELETE FROM parts WHERE id = 1"),
            *("DELETE FROM parts WHERE id = 2", "SET TRANSACTION READ ONLY"),
            *(
                "TRUNCATE parts",
                "SET SESSION TRANSACTION READ ONLY",
                "CREATE TEMPORARY TABLE q (i INT)",
            ),
            *("SELECT id FROM items FOR SHARE", "SELECT id FROM items FOR UPDATE", "SELECT adds()"),
            *("START TRANSACTION READ WRITE", "DELETE FROM parts", "COMMIT"),
        ),
    ),
    "definitions that fail in a transaction": (
        MODERN,
        queries(
            *("BEGIN", "DELETE FROM parts", "CREATE TABLE nowhere.t (id INT)", "ROLLBACK"),
            *("BEGIN", "DROP TEMPORARY TABLE IF EXISTS none, neither", "SELECT * FROM parts"),
            *("CREATE VIEW nowhere.v AS SELECT 1", "COMMIT"),
        ),
    ),
    "transactions in a chain": (
        MODERN,
        queries(
            *("START TRANSACTION READ ONLY", "COMMIT AND CHAIN", "DELETE FROM parts"),
            *("ROLLBACK AND CHAIN", "COMMIT", "SET TRANSACTION READ ONLY", "COMMIT AND CHAIN"),
            *("ROLLBACK", "SET SESSION TRANSACTION READ ONLY", "START TRANSACTION READ WRITE"),
            *("ROLLBACK AND CHAIN", "COMMIT", "SET TRANSACTION READ WRITE", "COMMIT AND CHAIN"),
        ),
    ),
    "what trackers tell of transactions in a chain": (
        MODERN,
        queries(
            *("SET session_track_transaction_info = 'CHARACTERISTICS'", "START TRANSACTION"),
            *("COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "ROLLBACK", "START TRANSACTION READ ONLY"),
            *("COMMIT AND CHAIN", "BEGIN", "COMMIT", "SET TRANSACTION READ ONLY"),
            *("START TRANSACTION READ WRITE", "COMMIT", "SET TRANSACTION READ ONLY"),
            *("COMMIT AND CHAIN", "COMMIT", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"),
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
            *("COMMIT AND CHAIN", "ROLLBACK"),
        ),
    ),
    "a tracker of transactions that comes late": (
        MODERN,
        queries(
            *("BEGIN", "SET session_track_transaction_info = 'CHARACTERISTICS'", "SELECT 1"),
            *("SELECT id FROM items", "COMMIT", "BEGIN", "COMMIT"),
            *("SET session_track_transaction_info = OFF", "SET TRANSACTION READ ONLY"),
            *("SET session_track_transaction_info = 'CHARACTERISTICS'", "BEGIN", "COMMIT"),
            *("BEGIN", "SET session_track_transaction_info = 'STATE'", "SELECT 1", "COMMIT"),
        ),
    ),
    "definitions without autocommit": (
        MODERN,
        queries(
            *("SET session_track_transaction_info = 'STATE'", "SET autocommit = 0"),
            *("ALTER TABLE parts DROP COLUMN extra", "DO 1", "CREATE TABLE items (id INT)", "DO 1"),
            *("CREATE TABLE fresh (id INT)", "DROP TABLE missing", "DO 1", "DROP TABLE fresh"),
            *("CREATE TABLE fresh AS SELECT id FROM items", "RENAME TABLE fresh TO fresher"),
            *("TRUNCATE parts", "CREATE INDEX w ON parts (label)", "DROP INDEX w ON parts"),
            *("CREATE INDEX w ON parts (missing)", "ALTER TABLE parts ADD COLUMN extra INT"),
            *("CREATE VIEW v AS SELECT 1", "DROP VIEW v", "CREATE PROCEDURE made() SELECT 1"),
            *("DROP PROCEDURE made", "DROP PROCEDURE made", "DROP PROCEDURE IF EXISTS made"),
            *("CREATE DATABASE app", "CREATE DATABASE fresh_schema", "DROP DATABASE fresh_schema"),
            *("ANALYZE TABLE parts", "CHECK TABLE parts", "CREATE TEMPORARY TABLE t (id INT)"),
        ),
    ),
    "a transaction that CHECK TABLE ends": (
        MODERN,
        queries(
            *("BEGIN", "CHECK TABLE items", "SELECT 1", "BEGIN", "CHECK TABLE missing"),
            *("SET autocommit = 0", "CHECK TABLE items"),
        ),
    ),
    "savepoints without a transaction": (
        MODERN,
        queries(
            *(
                "SAVEPOINT s",
                "RELEASE SAVEPOINT s",
                "SET autocommit = 0",
                "SAVEPOINT s",
                "SELECT 1",
            ),
            *("SELECT * FROM missing", "ROLLBACK TO s", "SAVEPOINT t", "RELEASE SAVEPOINT s"),
            *("RELEASE SAVEPOINT t", "SAVEPOINT s", "START TRANSACTION", "RELEASE SAVEPOINT s"),
            *("ROLLBACK", "SAVEPOINT s", "START TRANSACTION READ ONLY", "ROLLBACK TO s", "COMMIT"),
            *("SAVEPOINT s", "COMMIT", "RELEASE SAVEPOINT s", "SAVEPOINT s", "ROLLBACK"),
            *("RELEASE SAVEPOINT s", "SAVEPOINT s", "SELECT COUNT(*) FROM items", "DO 1"),
            *("DELETE FROM parts WHERE id = 1", "ROLLBACK TO s", "SELECT COUNT(*) FROM parts"),
            *("RELEASE SAVEPOINT s", "COMMIT", "SAVEPOINT s", "CREATE TABLE made (id INT)"),
            *("RELEASE SAVEPOINT s", "SAVEPOINT s", "ANALYZE TABLE parts", "RELEASE SAVEPOINT s"),
            *("SAVEPOINT s", "SET autocommit = 0", "RELEASE SAVEPOINT s", "SAVEPOINT s"),
            *("SET autocommit = 1", "RELEASE SAVEPOINT s", "BEGIN", "SAVEPOINT s"),
            *("SET autocommit = 0", "ROLLBACK TO s", "DO 1", "RELEASE SAVEPOINT s", "COMMIT"),
        ),
    ),
    "sql_mode": (
        MODERN,
        queries(
            *("SET sql_mode = 'ANSI'", "SELECT @@sql_mode", "SET sql_mode = 'traditional'"),
            *("SELECT @@sql_mode", "SET sql_mode = 'NO_ZERO_DATE'", "SHOW WARNINGS"),
            *("SET sql_mode = 'ANSI_QUOTES, ANSI'", "SET sql_mode = 4", "SELECT @@sql_mode"),
        ),
    ),
    "trackers": (
        MODERN,
        queries(
            *("SET session_track_system_variables = '*'", "SELECT 1", "SET time_zone = '+01:00'"),
            *("SET session_track_state_change = ON", "USE side", "SET @a = 1", "USE app"),
            *("SET session_track_transaction_info = 'CHARACTERISTICS'", "START TRANSACTION"),
            *("SELECT * FROM items", "DELETE FROM parts WHERE id = 1", "COMMIT"),
            *("SET session_track_gtids = OWN_GTID", "DELETE FROM parts", "BEGIN"),
            *(NUMBERED.format("x"), "BEGIN", "ROLLBACK", "SELECT adds()"),
            "SET session_track_system_variables = 'sql_mode,missing'",
            *("SHOW WARNINGS", "CREATE DATABASE fresh_schema", "USE fresh_schema"),
            *("DROP DATABASE fresh_schema", "DROP DATABASE IF EXISTS fresh_schema", "DO 1"),
        ),
    ),
    "trackers of variables that are tracked no more": (
        MODERN,
        queries(
            *("SET session_track_system_variables = '*'", "SELECT 1"),
            *("SET session_track_system_variables = 'sql_mode'", "SELECT 1"),
            *("SET session_track_system_variables = ''", "SET sql_mode = ''"),
        ),
    ),
    "temporary tables that there are not": (
        MODERN,
        queries(
            *("SET session_track_state_change = ON", "DROP TEMPORARY TABLE IF EXISTS t", "DO 1"),
            *("DROP TEMPORARY TABLE t", "DO 1", "DROP TABLE IF EXISTS t"),
        ),
    ),
    "quotes that do not end": (
        MODERN,
        queries(
            *("SELECT 'unclosed", "SHOW WARNINGS", "SELECT 'a', \"it's", "SHOW ERRORS"),
            *("SELECT `b", "SHOW ERRORS"),
        ),
    ),
    "what DESCRIBE has found, and warnings in front of errors": (
        MODERN,
        queries(
            *("DESCRIBE items", "SELECT FOUND_ROWS()"),
            *("SELECT SQL_CALC_FOUND_ROWS id FROM missing", "SHOW WARNINGS"),
            *("SELECT SQL_CALC_FOUND_ROWS missing FROM items", "SHOW COUNT(*) WARNINGS"),
        ),
    ),
    "schemas without their tracker": (
        MODERN,
        queries(
            *("SET session_track_schema = OFF", "USE side", "CREATE DATABASE fresh_schema"),
            *("USE fresh_schema", "DROP DATABASE fresh_schema", "USE app"),
            *("SET session_track_schema = ON", "USE app"),
        ),
    ),
    "what trackers tell of definitions": (
        MODERN,
        queries(
            *("SET session_track_transaction_info = 'STATE'", "ANALYZE TABLE parts"),
            *("ALTER TABLE parts ADD COLUMN extra INT", "ALTER TABLE parts DROP COLUMN extra"),
            *("CREATE INDEX w ON parts (label)", "DROP INDEX w ON parts", "OPTIMIZE TABLE parts"),
            *("CREATE TABLE fresh AS SELECT id FROM items", "CREATE TABLE fresher LIKE items"),
            *("DROP TABLE fresh, fresher", "CREATE VIEW v AS SELECT 1", "DROP VIEW v"),
            *("CREATE PROCEDURE made() SELECT 1", "DROP PROCEDURE made", "CHECK TABLE parts"),
            *("BEGIN", "SELECT id FROM items", "ALTER TABLE parts ADD COLUMN extra INT", "DO 1"),
        ),
    ),
    "empty statements": (
        MODERN,
        queries(
            *("SELECT 1", "-- nothing", "SELECT ROW_COUNT()", "DELETE FROM parts"),
            *("-- nothing", "SELECT ROW_COUNT()", ";", "SELECT ROW_COUNT()"),
        ),
    ),
    "rows replaced by the same ones": (
        MODERN,
        queries(
            *("REPLACE INTO parts (id, label) VALUES (3, 'again')",) * 3,
            *("SELECT @@global.gtid_executed", "BEGIN"),
            *("REPLACE INTO parts (id, label) VALUES (3, 'again')", "COMMIT"),
            "SELECT @@global.gtid_executed",
        ),
    ),
    "counts of rows behind commands": (
        MODERN,
        (
            Prepare(0, "SELECT 1"),
            *queries("SELECT 1"),
            Send(Command.COM_INIT_DB, b"app"),
            *queries("SELECT ROW_COUNT()"),
            Send(Command.COM_PING),
            *queries("SELECT ROW_COUNT()"),
            ResetStatement(0),
            *queries("SELECT ROW_COUNT()", "DELETE FROM parts"),
            Prepare(1, "SELECT 1"),
            *queries("SELECT ROW_COUNT()", "DELETE FROM items WHERE id = 1"),
            Send(Command.COM_SET_OPTION, b"\x00\x00"),
            *queries("SELECT ROW_COUNT()", "DELETE FROM items WHERE id = 2"),
            Send(Command.COM_FIELD_LIST, b"items\x00", FIELDS),
            *queries("SELECT ROW_COUNT()"),
        ),
    ),
    "resetting prepared statements": (
        MODERN,
        (
            Prepare(0, "SELECT 1"),
            *queries("SELECT FOUND_ROWS()"),
            ResetStatement(0),
            *queries("SHOW WARNINGS", "PREPARE p FROM 'SELECT * FROM missing'"),
            ResetStatement(0),
        ),
    ),
    "prepared statements": (
        MODERN,
        (
            Prepare(0, "SELECT id, name FROM items WHERE id = ? AND name LIKE ? LIMIT ?"),
            Prepare(1, "SELECT ?, ? AS named, ? + 1, COALESCE(?, 1)"),
            Prepare(
                2, "INSERT INTO items (price, note, made, data, weight) VALUES (?, ?, ?, ?, ?)"
            ),
            Prepare(3, "UPDATE parts SET id = ?, d = ? WHERE small BETWEEN ? AND ?"),
            Prepare(4, "SELECT name FROM items WHERE name = ?"),
            Execute(4, (TEXT,)),
            Execute(4, (TEXT,), typed=False),
            Prepare(5, "SELECT * FROM items WHERE id = ?"),
            Execute(5, (ONE,), typed=False),
            Execute(5, (ONE,)),
            Prepare(6, "SET @a = ?"),
            Execute(6, ((ONE[0], None),)),
            Prepare(7, "START TRANSACTION"),
            Prepare(7, "SELECT * FROM missing"),
            *queries(
                "PREPARE p FROM 'SELECT * FROM missing'", "EXECUTE p", "PREPARE p FROM 'SELEC'"
            ),
        ),
    ),
    "commands": (
        MODERN,
        (
            Send(Command.COM_FIELD_LIST, b"items\x00", FIELDS),
            *queries("SHOW WARNINGS"),
            Send(Command.COM_FIELD_LIST, b"missing\x00", FIELDS),
            *queries("SHOW WARNINGS", "SELECT * FROM items", "DROP TABLE missing"),
            Send(Command.COM_PING),
            Send(Command.COM_SET_OPTION, b"\x01\x00"),
            *queries("SELECT 1; SELECT 2"),
            Send(Command.COM_RESET_CONNECTION),
            *queries("SELECT FOUND_ROWS()", "SELECT ROW_COUNT()"),
            ChangeUser(USER, PASSWORD, "side"),
            *queries("SELECT DATABASE()", "SELECT ROW_COUNT()"),
            Send(0x77),
            ChangeUser(USER, "wrong", "app"),
        ),
    ),
}


SEVERAL = "SELECT 1;\nSELECT 'a;b';SELECT 3 ; "
NO_ROW = "UPDATE items SET qty = 9 WHERE "

STEPS: dict[str, tuple[Capability, tuple[Step, ...]]] = {
    "user variables that a prepared SET creates": (
        MODERN,
        (
            *(Prepare(0, "SET @a = ?"), Prepare(1, "SET @b = x'41', @c = NULL, @d = 1.5")),
            *queries("SELECT @a, @b, @c, @d", "PREPARE st1 FROM 'SET @e = ? + 1'", "SELECT @e"),
            *queries("SET @a = NULL", "SELECT @a"),
            Send(Command.COM_RESET_CONNECTION),
            *queries("SELECT @a"),
        ),
    ),
    "user variables that are NULL": (
        MODERN,
        (
            *queries("SET @a = NULL", "SET @b = 1, @b = NULL", "SET @c = 'x'", "SET @c = NULL"),
            *queries("SELECT @a, @b, @c", "SET @d = @unset", "SELECT @d, @unset", "SET @e = 1"),
            *(Prepare(0, "SET @e = ?"), Execute(0, ((ONE[0], None),)), *queries("SELECT @e")),
        ),
    ),
    "where a text of several statements is refused": (
        MODERN,
        (
            *(Prepare(0, SEVERAL), *queries("SHOW ERRORS")),
            *queries(f'PREPARE st1 FROM "{SEVERAL}"', "SHOW ERRORS"),
            *(Send(Command.COM_SET_OPTION, b"\x01\x00"), *queries(SEVERAL, "SHOW ERRORS")),
        ),
    ),
    "a READ ONLY transaction is older than its tracker": (
        MODERN,
        queries(
            *("START TRANSACTION READ ONLY", "SET session_track_transaction_info = 'STATE'"),
            *("SELECT 1", "COMMIT", "SET session_track_transaction_info = OFF"),
            "START TRANSACTION READ ONLY",
            *("SET session_track_transaction_info = 'CHARACTERISTICS'", "ROLLBACK", "SELECT 1"),
            *("SET session_track_transaction_info = OFF", "SET TRANSACTION READ ONLY"),
            *("SET session_track_transaction_info = 'CHARACTERISTICS'", "BEGIN", "COMMIT"),
        ),
    ),
    "an execution has values that long data replaces": (
        MODERN,
        (
            *(Prepare(0, "SELECT ?"), LongData(0, 0, b"long"), Execute(0, (TEXT,))),
            *(Prepare(0, "SELECT ?, ?"), LongData(0, 1, b"long"), Execute(0, (ONE, TEXT))),
            *(Prepare(0, "SELECT ?"), LongData(0, 0, b"12"), Execute(0, (ONE,))),
        ),
    ),
    "an UPDATE that runs no query": (
        MODERN,
        (
            *(Prepare(0, NO_ROW + "id = ?"), *queries("SELECT * FROM parts")),
            *(Execute(0, ((ONE[0], None),)), *queries("SELECT FOUND_ROWS()")),
            *queries("TABLE parts", NO_ROW + "FALSE", NO_ROW + "name < NULL AND qty = 1"),
            *queries(NO_ROW + "(0)", NO_ROW + "TRUE LIMIT 0", "SELECT FOUND_ROWS()"),
            *queries("TABLE parts", NO_ROW + "id = 99", "SELECT FOUND_ROWS()"),
        ),
    ),
    "commands count the warnings before an error": (
        MODERN,
        (
            *queries("SELECT SQL_CALC_FOUND_ROWS missing FROM items"),
            *(Send(Command.COM_SET_OPTION, b"\x00\x00"), Send(0x77), Send(Command.COM_PING)),
            *queries("SELECT SQL_CALC_FOUND_ROWS 1"),
            *(Send(Command.COM_INIT_DB, b"nowhere"), Send(Command.COM_DEBUG)),
            *(ResetStatement(1), Send(Command.COM_PING)),
        ),
    ),
}
"""Steps of which generated sessions found that the mocker took them otherwise."""

ALL = WRITTEN | TRANSACTIONS | STEPS

WITHOUT_SCHEMA: tuple[Step, ...] = (
    *queries("DO adds()", "SELECT @@error_count", "SELECT missing()", "SHOW ERRORS"),
    *queries("SELECT * FROM missing", "SHOW COUNT(*) WARNINGS"),
    Prepare(0, "CALL writes()"),
    *queries("TRUNCATE parts", "DROP TABLE IF EXISTS fresh", "CHECK TABLE items"),
    *queries(
        "CREATE OR REPLACE VIEW v AS SELECT 1", "DROP PROCEDURE made", "LOCK TABLES items READ"
    ),
    *queries("ALTER TABLE parts DROP COLUMN small", "TRUNCATE app.parts"),
    *(Prepare(0, "DROP TABLE fresh"), Prepare(0, "CREATE TEMPORARY TABLE fresh (id INT)")),
    *(Prepare(0, "TRUNCATE parts"), Prepare(0, "LOCK TABLES items READ")),
    *(Prepare(0, "DROP TABLE IF EXISTS app.fresh"), Prepare(0, "BEGIN")),
    *queries("PREPARE st1 FROM 'DROP TABLE fresh'", "SHOW ERRORS"),
)


@pytest.mark.real_mysql
def test_written_without_a_schema(arena: Arena) -> None:
    difference = arena.judge(Session(MODERN, None, WITHOUT_SCHEMA))
    assert difference is None, f"{WITHOUT_SCHEMA[difference.step - 1]}\n{difference}"


@pytest.mark.real_mysql
@pytest.mark.parametrize("name", ALL)
def test_written(arena: Arena, name: str) -> None:
    capabilities, steps = ALL[name]
    difference = arena.judge(Session(capabilities, "app", steps))
    assert difference is None, f"{steps[difference.step - 1]}\n{difference}"

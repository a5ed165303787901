"""Writes the binary logs in tests/vectors/binlog: ``python -m tests.real_mysql.binlog_vectors``.

Every run gives other times, UUIDs and positions; what the tests ask of the files stays.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pymysql.cursors import Cursor

from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import data_template, find_mysqld

DIRECTORY = Path(__file__).parent.parent / "vectors" / "binlog"

SOURCE = "11111111-2222-3333-4444-555555555555"
ORIGINAL_COMMIT = 1_600_000_000_123_456
"""Microseconds: what the server was told of a transaction's first commit."""

TYPES = """
CREATE TABLE kinds (
  id INT PRIMARY KEY AUTO_INCREMENT, tiny TINYINT, tiny_u TINYINT UNSIGNED, small SMALLINT,
  medium MEDIUMINT, big BIGINT, big_u BIGINT UNSIGNED, f FLOAT, d DOUBLE, price DECIMAL(20,6),
  word VARCHAR(20), long_word VARCHAR(300), fixed CHAR(10), wide CHAR(100), raw BINARY(4),
  varraw VARBINARY(8), small_text TINYTEXT, body TEXT, bytes BLOB, day DATE, clock TIME,
  clock6 TIME(6), moment DATETIME, moment3 DATETIME(3), stamp TIMESTAMP NULL,
  stamp6 TIMESTAMP(6) NULL, born YEAR, colour ENUM('red','green'), flags SET('a','b','c'),
  bits BIT(11), document JSON,
  after_year BIGINT UNSIGNED) CHARACTER SET utf8mb4
"""
INSERT = """
INSERT INTO kinds VALUES (1, -5, 250, -300, -70000, -9000000000, 18000000000000000000, 1.5, -2.25,
 -12345678901234.567890,
 'héllo', REPEAT('x', 290), 'abc', 'wide', 'ab', X'00ff10', 'tt', 'body', X'00ff', '2024-02-29',
 '-12:34:56', '12:34:56.789012', '2024-02-29 12:34:56', '2024-02-29 12:34:56.789',
 '2024-02-29 12:34:56', '2024-02-29 12:34:56.789012', 1999, 'green', 'a,c', b'10000000001',
 '{"k": [1, null, "v", -70000, 2.5, {"deep": true}]}', 18446744073709551615)
"""


class Maker:
    """One server, and the log that it writes now."""

    def __init__(self, server: RealServer) -> None:
        self.server = server

    @contextmanager
    def file(self, name: str) -> Iterator[Cursor]:
        """A session; what it did is the whole of the file `name`, up to its ROTATE event."""
        self.server.query("FLUSH BINARY LOGS")
        written = self.server.value("SHOW BINARY LOG STATUS")
        with closing(self.server.admin("app")) as connection:
            yield connection.cursor()
        self.server.query("FLUSH BINARY LOGS")
        shutil.copy(self.server.data / written, DIRECTORY / f"{name}.binlog")


def run(cursor: Cursor, statements: Sequence[str]) -> None:
    for statement in statements:
        cursor.execute(statement)


def transactions(maker: Maker) -> None:
    """GTIDs of every kind, rows, statements, and both forms of the timestamps."""
    with maker.file("transactions") as cursor:
        run(
            cursor,
            [
                "SET time_zone = '+00:00', timestamp = 1700000000.123456",
                "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60))",
                "INSERT INTO t (v) VALUES ('one'), ('two')",
                "BEGIN",
                "UPDATE t SET v = 'zwei' WHERE id = 2",
                "DELETE FROM t WHERE id = 1",
                "COMMIT",
                f"SET original_commit_timestamp = {ORIGINAL_COMMIT}",
                "INSERT INTO t (v) VALUES ('relayed')",
                "SET original_commit_timestamp = 0",
                "INSERT INTO t (v) VALUES ('unknown')",
                "SET original_commit_timestamp = DEFAULT",
                f"SET gtid_next = '{SOURCE}:7'",
                "BEGIN",
                "COMMIT",
                f"SET gtid_next = '{SOURCE}:blue:3'",
                "INSERT INTO t (v) VALUES ('tagged')",
                "SET gtid_next = 'AUTOMATIC:a_tag_of_exactly_32_characters_x'",
                f"SET original_commit_timestamp = {ORIGINAL_COMMIT}",
                "INSERT INTO t (v) VALUES ('tagged and relayed')",
                "SET original_commit_timestamp = DEFAULT",
                "SET gtid_next = 'AUTOMATIC:ddl'",
                "CREATE TABLE other (id INT PRIMARY KEY)",
                "SET gtid_next = 'AUTOMATIC'",
                "SET binlog_format = STATEMENT",
                "SET @word = 'of a variable'",
                "INSERT INTO t (v) VALUES (@word)",
                "INSERT INTO t (v) VALUES (LEFT(RAND(), 20))",
                "INSERT INTO t (v) VALUES (NOW(6))",
                "SET insert_id = 100",
                "INSERT INTO t (v) VALUES ('id 100')",
                "XA START 'x'",
                "INSERT INTO t (v) VALUES ('prepared')",
                "XA END 'x'",
                "XA PREPARE 'x'",
                "XA COMMIT 'x'",
            ],
        )


def kinds(maker: Maker) -> None:
    """Every type of a column."""
    with maker.file("kinds") as cursor:
        run(
            cursor,
            [
                "SET time_zone = '+00:00', binlog_row_image = FULL",
                TYPES,
                INSERT,
                "INSERT INTO kinds (id) VALUES (2)",
                "UPDATE kinds SET word = 'changed', document = JSON_OBJECT('t', clock6, 'd', day, "
                " 'm', moment3, 'p', price, 'b', bytes, 'l', REPEAT('x', 200)) WHERE id = 1",
                "DELETE FROM kinds",
                "DROP TABLE kinds",
            ],
        )


def main() -> None:
    """Write all files."""
    mysqld = find_mysqld()
    if mysqld is None:
        raise SystemExit("no mysqld 9: run scripts/install-mysql")
    DIRECTORY.mkdir(exist_ok=True)
    with ScratchFolder() as scratch:
        server = RealServer("vectors", mysqld, scratch)
        server.create(data_template(mysqld))
        server.start()
        maker = Maker(server)
        transactions(maker)
        server.query("SET GLOBAL binlog_row_metadata = FULL")
        kinds(maker)
        server.query("SET GLOBAL binlog_checksum = NONE")
        with maker.file("no_checksum") as cursor:
            run(cursor, ["INSERT INTO t (v) VALUES ('without a checksum')"])
        server.query("SET GLOBAL binlog_checksum = CRC32")
        with maker.file("compressed") as cursor:
            run(
                cursor,
                [
                    "SET binlog_transaction_compression = ON",
                    "INSERT INTO t (v) SELECT REPEAT('x', 20) FROM t",
                ],
            )
        for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"):
            server.query("SET GLOBAL enforce_gtid_consistency = ON")
            server.query(f"SET GLOBAL gtid_mode = {mode}")
        with maker.file("anonymous") as cursor:
            run(
                cursor,
                [
                    "INSERT INTO t (v) VALUES ('anonymous')",
                    f"SET original_commit_timestamp = {ORIGINAL_COMMIT}",
                    "INSERT INTO t (v) VALUES ('anonymous and relayed')",
                ],
            )
        server.stop()


if __name__ == "__main__":
    main()

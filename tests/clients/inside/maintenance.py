"""Dumps and their way back, and changes of tables in use, at a server.

The tables are filled once. A dump passes if what it is loaded into has the same rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate_recording import record

TABLES = ("customer", "item", "numbers")
SCHEMA = """
CREATE TABLE customer (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40) NOT NULL, doc JSON,
  picture BLOB, upper_name VARCHAR(40) GENERATED ALWAYS AS (UPPER(name)) STORED, KEY (upper_name));
CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, customer INT, amount DECIMAL(10, 2),
  at DATETIME(6), bits BIT(9), FOREIGN KEY (customer) REFERENCES customer (id));
CREATE TABLE numbers (n INT, year INT, PRIMARY KEY (n, year)) PARTITION BY RANGE (year)
  (PARTITION old VALUES LESS THAN (2000), PARTITION new VALUES LESS THAN MAXVALUE);
CREATE TABLE busy (n INT PRIMARY KEY AUTO_INCREMENT);
CREATE VIEW sums AS SELECT customer, SUM(amount) AS total FROM item GROUP BY customer;
CREATE FUNCTION next_number(n INT) RETURNS INT DETERMINISTIC RETURN n + 1;
CREATE TRIGGER no_null BEFORE INSERT ON item FOR EACH ROW SET NEW.amount = IFNULL(NEW.amount, 0);
INSERT INTO customer (name, doc, picture) VALUES ('Ann', '{"a": [1, 2]}', x'00ff27'),
  ('Bob\\'s', NULL, NULL), ('Zoë', '[]', '');
INSERT INTO item (customer, amount, at, bits) SELECT 1 + n % 3, n / 7, NOW(6), n % 512 FROM
  (WITH RECURSIVE all_numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM all_numbers
  WHERE n < 900) SELECT n FROM all_numbers) AS counted;
INSERT INTO numbers VALUES (1, 1990), (2, 2010);
"""
HOST, PORT = os.environ["TIDEGATE_HOST"], os.environ["TIDEGATE_PORT"]
USER, PASSWORD = os.environ["TIDEGATE_USER"], os.environ["TIDEGATE_PASSWORD"]
PROGRAMS = json.loads(os.environ["TIDEGATE_PROGRAMS"])
DUMPS = {
    "tables locked": (),
    "in one snapshot": ("--single-transaction", "--source-data=2", "--quick"),
    "all tables locked": ("--lock-all-tables", "--flush-logs"),
    "row by row": ("--skip-extended-insert", "--order-by-primary", "--hex-blob"),
}


def run(*command: str, sql: str = "") -> str:
    """What a program prints; raises `AssertionError` with all of it if it fails."""
    done = subprocess.run(
        command,
        input=sql,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=120,
        check=False,
        env={**os.environ, "MYSQL_PWD": PASSWORD},
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def mysql(sql: str, schema: str = "test") -> str:
    """What the statements give, tab separated."""
    return run(*_ours("mysql", "--batch", "--skip-column-names", schema), sql=sql)


def _ours(program: str, *options: str) -> list[str]:
    address = [f"--host={HOST}", f"--port={PORT}", f"--user={USER}"]
    return [PROGRAMS[program], "--no-defaults", *address, *options]


def same_rows(schema: str) -> None:
    """Compare a copy with the tables, by checksums and by what the view sums up."""
    found = [
        [
            mysql("SELECT SUM(total), next_number(1) FROM sums", name),
            *(mysql(f"CHECKSUM TABLE {table}", name).partition("\t")[2] for table in TABLES),
        ]
        for name in (schema, "test")
    ]
    assert found[0] == found[1], found


@contextmanager
def another() -> Iterator[str]:
    """A new schema for a copy."""
    mysql("DROP DATABASE IF EXISTS copied; CREATE DATABASE copied")
    yield "copied"


@contextmanager
def writer() -> Iterator[None]:
    """Somebody writes all the time."""
    ends = threading.Event()

    def write() -> None:
        while not ends.wait(0.02):
            mysql("INSERT INTO busy VALUES (); DELETE FROM busy WHERE n % 2")

    writes = threading.Thread(target=write)
    writes.start()
    try:
        yield
    finally:
        ends.set()
        writes.join()


def mysqldump(*options: str) -> None:
    """Dump with these options, and load that."""
    common = ["--routines", "--triggers", "--events", "--set-gtid-purged=OFF", "test"]
    with writer():
        dumped = run(*_ours("mysqldump", *options, *common))
    with another() as schema:
        mysql(dumped, schema)
        same_rows(schema)


def mydumper(threads: int) -> None:
    """Dump and load over several connections."""
    account = ["-h", HOST, "-P", PORT, "-u", USER, "-p", PASSWORD, "-t", str(threads)]
    with tempfile.TemporaryDirectory() as folder, another() as schema:
        with writer():
            run("mydumper", *account, "-B", "test", "-o", folder, "--triggers", "--rows", "100")
        for routines in Path(folder).glob("*-schema-post.sql"):
            routines.unlink()  # it needs a DELIMITER, which myloader does not know
        mysql("CREATE FUNCTION next_number(n INT) RETURNS INT DETERMINISTIC RETURN n + 1", schema)
        run("myloader", *account, "-B", schema, "-d", folder, "-e", "-o")
        same_rows(schema)


def toolkit(program: str, *options: str, **more: str) -> str:
    """Run one of Percona Toolkit's programs; what is named is part of the DSN."""
    account = {"h": HOST, "P": PORT, "u": USER, "p": PASSWORD, **more}
    dsn = ",".join(f"{name}={value}" for name, value in account.items())
    return run(program, *options, dsn)


def online_schema_change() -> None:
    """Add a column while others write."""
    before = mysql("SELECT COUNT(*) FROM item; CHECKSUM TABLE numbers")
    with writer():
        toolkit(
            *("pt-online-schema-change", "--execute", "--alter", "ADD COLUMN extra INT DEFAULT 5"),
            *("--recursion-method=none", "--no-check-replication-filters"),
            *("--chunk-size=100", "--preserve-triggers"),
            D="test",
            t="item",
        )
    assert mysql("SELECT COUNT(*) FROM item; CHECKSUM TABLE numbers") == before
    assert mysql("SELECT MIN(extra), MAX(extra), COUNT(extra) FROM item") == "5\t5\t900\n"


def archiver() -> None:
    """Move rows of one table into another, bit by bit."""
    mysql("CREATE TABLE archived LIKE item")
    run(
        *("pt-archiver", "--where", "id <= 200", "--limit", "30", "--commit-each"),
        *("--source", f"h={HOST},P={PORT},u={USER},p={PASSWORD},D=test,t=item"),
        *("--dest", f"h={HOST},P={PORT},u={USER},p={PASSWORD},D=test,t=archived"),
        "--no-check-charset",
    )
    counts = "SELECT COUNT(*) FROM item; SELECT COUNT(*) FROM archived"
    assert mysql(counts) == "700\n200\n"


def table_checksum() -> None:
    """Checksum all tables in chunks, over statements that replicas run again."""
    report = toolkit(
        *("pt-table-checksum", "--databases=test", "--recursion-method=none", "--chunk-size=100"),
        *("--no-check-binlog-format", "--no-check-replication-filters"),
    )
    lines = [line.split() for line in report.splitlines() if "test." in line]
    assert {line[-1] for line in lines} >= {f"test.{table}" for table in TABLES}, report
    assert all(line[1:3] == ["0", "0"] for line in lines), report  # errors, differences


def mysqladmin() -> None:
    """Make a schema, ask, and drop it again."""
    run(*_ours("mysqladmin", "create", "made"))
    assert "made" in mysql("SHOW DATABASES").split()
    for command in ("ping", "status", "extended-status", "processlist", "version"):
        assert run(*_ours("mysqladmin", command)), command
    run(*_ours("mysqladmin", "flush-tables"))
    run(*_ours("mysqladmin", "--force", "drop", "made"))
    assert "made" not in mysql("SHOW DATABASES").split()


CHECKS: dict[str, Callable[[], None]] = {
    **{f"mysqldump, {way}": lambda way=way: mysqldump(*DUMPS[way]) for way in DUMPS},
    "mydumper, 1 thread": lambda: mydumper(1),
    "mydumper, 4 threads": lambda: mydumper(4),
    "mysqladmin": mysqladmin,
    "pt-table-checksum": table_checksum,
    "pt-online-schema-change": online_schema_change,
    "pt-archiver": archiver,
}


def main() -> None:
    """Run all, in this order: the last ones change the tables."""
    mysql(SCHEMA)
    for name, check in CHECKS.items():
        try:
            check()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            record(name, "failed", str(error))
        else:
            record(name, "passed")


if __name__ == "__main__":
    main()

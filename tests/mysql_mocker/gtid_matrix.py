"""Which statements report which GTIDs: one table for the mocker and for the server it imitates."""

from dataclasses import dataclass

from protocol.gtid import GtidSet
from protocol.response import ErrPacket
from tests.mysql_mocker.raw_client import RawClient


@dataclass(frozen=True)
class Row:
    """One row of the matrix (fact 2.2).

    Attributes:
        before: statements that lead to the state in which `statement` is looked at.
        own: how many GTIDs OWN_GTID reports; they are those that the server gained.
        all: whether ALL_GTIDS reports.
        early: what ALL_GTIDS reports may lack what the statement itself added.
    """

    statement: str
    own: int
    all: bool
    before: tuple[str, ...] = ()
    early: bool = False

    def __str__(self) -> str:
        return "; ".join((*self.before, self.statement))


INSERT = "INSERT INTO a (v) VALUES ('x')"
OPEN = ("BEGIN", INSERT)
SOMEBODY = "CREATE USER IF NOT EXISTS somebody"

MATRIX = (
    Row(INSERT, 1, True),
    Row("UPDATE a SET v = 'new'", 1, True),
    Row("REPLACE INTO a VALUES (1, 'new')", 1, True),
    Row("DELETE FROM a WHERE id = 1", 1, True),
    Row("UPDATE a SET v = v", 0, True),
    Row("UPDATE a SET v = 'nobody' WHERE id = 999", 0, True),
    Row("DELETE FROM a WHERE id = 999", 0, True),
    Row("INSERT IGNORE INTO a VALUES (1, 'there')", 0, True),
    Row("BEGIN", 0, False),
    Row(INSERT, 0, False, ("BEGIN",)),
    Row("SELECT * FROM a", 0, False, OPEN),
    Row("SAVEPOINT s", 0, False, OPEN),
    Row("ROLLBACK TO s", 0, False, (*OPEN, "SAVEPOINT s")),
    Row("COMMIT", 1, True, OPEN),
    Row("COMMIT", 0, True, (*OPEN[:1], "SAVEPOINT s", INSERT, "ROLLBACK TO s")),
    Row("COMMIT", 0, True, ("BEGIN", "SELECT * FROM a")),
    Row("COMMIT", 0, True, ("BEGIN",)),
    Row("COMMIT", 0, True),
    Row("ROLLBACK", 0, False, OPEN),
    Row("ROLLBACK", 0, False),
    Row("SELECT * FROM a", 0, True),
    Row("SELECT 1", 0, True),
    Row("SHOW TABLES", 0, True),
    Row("DO 1", 0, True),
    Row("SET @x = 1", 0, True),
    Row("-- nothing at all", 0, True),
    Row("COMMIT AND CHAIN", 1, True, OPEN),
    Row("BEGIN", 1, False, OPEN),  # what fact 2.2 has otherwise: here ALL_GTIDS says nothing
    Row("LOCK TABLES a WRITE", 1, True, OPEN),
    Row("SET autocommit = 1", 1, True, ("SET autocommit = 0", INSERT)),
    Row("CREATE TABLE c (n INT)", 2, True, OPEN),
    Row("CREATE TABLE c (n INT)", 1, True),
    Row("CREATE TABLE IF NOT EXISTS a (n INT)", 1, True),
    Row("CREATE TABLE c SELECT 1 AS n", 1, True),
    Row("ALTER TABLE a ADD COLUMN w INT", 1, True),
    Row("CREATE INDEX i ON a (v)", 1, True),
    Row("DROP TABLE a", 1, True),
    Row("DROP TABLE IF EXISTS nothing", 1, True),
    Row("TRUNCATE TABLE a", 1, True),
    Row("RENAME TABLE a TO c", 1, True),
    Row("CREATE DATABASE IF NOT EXISTS test", 1, True),
    Row(SOMEBODY, 1, True, (SOMEBODY,)),
    Row("ALTER USER somebody IDENTIFIED BY 'new'", 1, True, (SOMEBODY,)),
    Row("SET PASSWORD FOR somebody = 'new'", 1, True, (SOMEBODY,)),
    Row("FLUSH TABLES", 1, True),
    Row("ANALYZE TABLE a", 1, True),
    Row("OPTIMIZE TABLE a", 1, True),
    Row("CREATE TEMPORARY TABLE t (n INT)", 0, True),
    Row("INSERT INTO t VALUES (1)", 0, True, ("CREATE TEMPORARY TABLE t (n INT)",)),
    Row("DROP TEMPORARY TABLE t", 0, True, ("CREATE TEMPORARY TABLE t (n INT)",)),
    Row(INSERT, 0, True, ("SET sql_log_bin = 0",)),
    Row("USE test", 0, True),
    Row(
        "COMMIT", 1, True,
        ("SET gtid_next = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:{unused}'", "BEGIN"),
        early=True,
    ),
    Row("SELECT f()", 1, True),
    Row("DO f()", 1, True),
    Row("SET @z = f()", 1, True),
    Row("EXECUTE s", 1, True, (f"PREPARE s FROM \"{INSERT}\"",)),
)  # fmt: skip

OF_SERVERS = (
    Row("XA PREPARE 'x'", 1, True, ("XA START 'x'", INSERT, "XA END 'x'")),
    Row("XA COMMIT 'x'", 1, True, ("XA START 'x'", INSERT, "XA END 'x'", "XA PREPARE 'x'")),
    Row("XA ROLLBACK 'x'", 1, True, ("XA START 'x'", INSERT, "XA END 'x'", "XA PREPARE 'x'")),
    Row("XA COMMIT 'x' ONE PHASE", 1, True, ("XA START 'x'", INSERT, "XA END 'x'")),
)
"""What the mocker does not know."""

LAYOUT = (
    "DROP TABLE IF EXISTS a, c",
    "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))",
    INSERT,
    "DROP FUNCTION IF EXISTS f",
    f"CREATE FUNCTION f() RETURNS INT DETERMINISTIC BEGIN {INSERT}; RETURN 7; END",
)


def lay_out(client: RawClient) -> None:
    """Makes the tables that the matrix speaks of."""
    for statement in LAYOUT:
        run(client, statement)


def run(client: RawClient, statement: str) -> None:
    """Runs a statement that must not fail."""
    for reply in client.query(statement):
        assert not isinstance(reply.end, ErrPacket), (statement, reply.end)


def reported(client: RawClient, row: Row, mode: str, unused: int) -> tuple[GtidSet | None, GtidSet]:
    """What `client` is told about `row.statement`, and the GTIDs that the server gained by it."""
    run(client, f"SET session_track_gtids = {mode}")
    for statement in row.before:
        run(client, statement.replace("{unused}", str(unused)))
    with RawClient(*client.address) as onlooker:
        executed = onlooker.executed()
        reply = client.reply(row.statement)
        assert not isinstance(reply.end, ErrPacket), reply.end
        gained = onlooker.executed() - executed
    return reply.gtids, gained


def check(client: RawClient, row: Row, mode: str, unused: int) -> None:
    """Compares one row with what happens."""
    tracked, gained = reported(client, row, mode, unused)
    assert len(gained) == row.own
    if mode == "OWN_GTID":
        assert (tracked or GtidSet()) == gained
    elif mode == "ALL_GTIDS":
        assert (tracked is not None) == row.all
        with RawClient(*client.address) as onlooker:
            missing = onlooker.executed() - (tracked or GtidSet())
        assert not row.all or not missing or (row.early and missing <= gained)
    else:
        assert tracked is None

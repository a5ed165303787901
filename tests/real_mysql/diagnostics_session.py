"""Sessions of statements and of questions about them, as raw packets."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response import ERR_HEADER
from protocol.response_stream import FETCHED, FIELDS, PREPARED, RESULTS, SIMPLE, STRING
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

Answer = list[bytes]
Step = tuple[str, Callable[["DiagnosticsSession"], Answer]]
"""A name, and what a client does."""

SCHEMA: Final = (
    "CREATE TABLE app.rows3 (a INT PRIMARY KEY, b VARCHAR(20))",
    "INSERT INTO app.rows3 VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    "CREATE TABLE app.small (a TINYINT)",
    "CREATE TABLE app.sink (n INT)",
    "CREATE TABLE app.keyed (id INT AUTO_INCREMENT PRIMARY KEY, a TINYINT)",
    "CREATE PROCEDURE app.noop() BEGIN END",
    "CREATE PROCEDURE app.counts() BEGIN UPDATE app.rows3 SET b = b; END",
    "CREATE PROCEDURE app.shows() BEGIN SELECT a FROM app.rows3; END",
    "CREATE PROCEDURE app.silent() BEGIN SELECT a FROM app.rows3 WHERE a < 2 INTO @a; END",
    "CREATE PROCEDURE app.warns() BEGIN SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'told'; END",
    "CREATE PROCEDURE app.fails() BEGIN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'failed'; END",
)


class DiagnosticsSession:
    """One client's session."""

    def __init__(self, address: str, deprecate_eof: bool = True, user: str = APP_USER) -> None:
        eof = Capability.CLIENT_DEPRECATE_EOF if deprecate_eof else Capability(0)
        self.address = address
        self.client = RawClient(address, user, APP_PASSWORD, eof, "app")
        self.statements: dict[str, bytes] = {}

    def text(self, sql: str) -> Answer:
        """COM_QUERY."""
        return _payloads(self.client.query(sql))

    def prepare(self, sql: str) -> Answer:
        """COM_STMT_PREPARE alone; the statement's id is not shown."""
        packets = self.client.command(Command.COM_STMT_PREPARE, sql.encode(), PREPARED)
        head = packets[0][1]
        if head[0] != 0:
            return _payloads(packets)
        self.statements[sql] = head[1:5]
        return [head[:1] + head[5:]]

    def execute(self, sql: str, cursor: int = 0) -> Answer:
        """COM_STMT_EXECUTE; it is prepared first, if it was not yet."""
        if sql not in self.statements:
            refused = self.prepare(sql)
            if sql not in self.statements:
                return refused
        body = self.statements[sql] + bytes([cursor]) + b"\1\0\0\0"
        return _payloads(self.client.command(Command.COM_STMT_EXECUTE, body, RESULTS))

    def command(self, code: Command, body: bytes = b"", shape: int = SIMPLE) -> Answer:
        """Any other command."""
        packets = self.client.command(code, body, shape)
        if code == Command.COM_RESET_CONNECTION:
            self.statements.clear()
        return [] if shape == STRING else _payloads(packets)

    def about(self, code: Command, sql: str, more: bytes = b"", shape: int = SIMPLE) -> Answer:
        """A command about a statement that was prepared, or about none."""
        return self.command(code, self.statements.get(sql, b"\x77\0\0\0") + more, shape)

    def fetch(self, sql: str) -> Answer:
        """An execution that opens a cursor, and two of its rows."""
        opened = self.execute(sql, 1)
        return opened + _without_status(
            self.about(Command.COM_STMT_FETCH, sql, b"\2\0\0\0", FETCHED)
        )

    def reset(self, sql: str) -> Answer:
        """COM_STMT_RESET."""
        return _without_status(self.about(Command.COM_STMT_RESET, sql))

    def close_statement(self, sql: str) -> Answer:
        """COM_STMT_CLOSE, which has no answer."""
        number = self.statements.pop(sql, b"\x77\0\0\0")
        self.client.send(frame(b"\x19" + number, 0))
        return []

    def play(self, steps: list[Step]) -> list[Answer]:
        """The answers to these steps; the last one says if the session has ended meanwhile."""
        answers: list[Answer] = []
        try:
            for _, step in steps:
                answers.append(step(self))
        except ConnectionError as error:
            answers.append([b"ENDED " + type(error).__name__.encode()])
        return answers

    def close(self) -> None:
        """Hang up."""
        self.client.close()


def _without_status(answer: Answer) -> Answer:
    """An answer of whichever server has the cursor; no transaction shows in it."""
    last = answer[-1]
    return answer if last[0] == ERR_HEADER else [*answer[:-1], last[:3] + last[5:]]


def _payloads(packets: list[Packet]) -> Answer:
    return [payload for _, payload in packets]


def text(sql: str) -> Step:
    """COM_QUERY."""
    return sql, lambda session: session.text(sql)


def execute(sql: str, cursor: int = 0) -> Step:
    """COM_STMT_EXECUTE."""
    name = f"{'cursor' if cursor else 'execute'}: {sql}"
    return name, lambda session: session.execute(sql, cursor)


def prepare(sql: str) -> Step:
    """COM_STMT_PREPARE without an execution."""
    return f"prepare: {sql}", lambda session: session.prepare(sql)


def command(name: str, code: Command, body: bytes = b"", shape: int = SIMPLE) -> Step:
    """Any other command."""
    return name, lambda session: session.command(code, body, shape)


READ: Final = "SELECT a FROM rows3"
CURSOR: Final = "SELECT a FROM rows3 WHERE a > 0"

PREPARES_READ: Final = prepare("SELECT b FROM rows3")

READS: Final = [
    text(READ),
    text("SELECT a FROM rows3 LIMIT 1"),
    text("SELECT a FROM rows3 LIMIT 1, 1"),
    text("SELECT SQL_CALC_FOUND_ROWS a FROM rows3 LIMIT 1"),
    text("SELECT a FROM rows3 WHERE a > 9"),
    text("SELECT 'x' + a FROM rows3"),
    text("SELECT 'x' + a FROM rows3 LIMIT 2"),
    text("SELECT (SELECT a FROM rows3)"),
    text("SELECT a FROM nowhere"),
    text("SELECT nothing FROM rows3"),
    text("SHOW COLUMNS FROM rows3"),
    text("SHOW CREATE TABLE rows3"),
    text("SHOW TABLES LIKE 'none'"),
    text("TABLE rows3"),
    execute(READ),
    execute("SELECT SQL_CALC_FOUND_ROWS a FROM rows3 LIMIT 1"),
    execute("SELECT a FROM rows3 WHERE a > 1"),
    execute(CURSOR, 1),
    execute("SHOW CREATE TABLE rows3"),
]
WRITES: Final = [
    text("INSERT INTO small VALUES (1), (2)"),
    text("INSERT INTO small SELECT a FROM rows3"),
    text("INSERT INTO small VALUES ((SELECT 1))"),
    text("INSERT INTO small VALUES (9999)"),
    text("INSERT IGNORE INTO small VALUES (9999), (1)"),
    text("INSERT INTO rows3 VALUES (1, 'again')"),
    text("UPDATE rows3 SET b = b"),
    text("DELETE FROM small WHERE a = 77"),
    text("DELETE FROM small WHERE a = (SELECT MAX(a) + 90 FROM rows3)"),
    text("SELECT LAST_INSERT_ID(77)"),
    text("SELECT a FROM rows3 WHERE a = 2 FOR UPDATE"),
    text("SELECT a FROM rows3 WHERE a = 2 INTO @v"),
    text("DO 1"),
    text("SET @v = 1"),
    text("SET @v = (SELECT MAX(a) FROM rows3)"),
    text("SET no_such_variable = 1"),
    text("SET NAMES utf8mb4"),
    text("USE app"),
    text("BEGIN"),
    text("COMMIT"),
    text("/* nothing */"),
    text(""),
    text("SELEC"),
    text("CALL shows()"),
    text("CALL warns()"),
    text("CALL fails()"),
    text("SELECT 1; SELECT a FROM rows3"),
    text("INSERT INTO small VALUES (1); SET @v = FOUND_ROWS()"),
    text("SELECT a FROM rows3; SELECT nothing"),
    text("PREPARE p FROM 'SELECT a FROM rows3'"),
    text("EXECUTE p"),
    text("DEALLOCATE PREPARE p"),
    text("CREATE TABLE IF NOT EXISTS small (a INT)"),
    text("SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'signalled'"),
    text("EXPLAIN SELECT 1"),
    execute("INSERT INTO small VALUES (1), (2)"),
    execute("SET @v = 2"),
    execute("CALL shows()"),
    execute("DO 1"),
]
COMMANDS: Final = [
    command("ping", Command.COM_PING),
    command("init db", Command.COM_INIT_DB, b"app"),
    command("init db that fails", Command.COM_INIT_DB, b"nowhere"),
    command("set option", Command.COM_SET_OPTION, b"\0\0"),
    command("set option that fails", Command.COM_SET_OPTION, b"\7\0"),
    command("statistics", Command.COM_STATISTICS, b"", STRING),
    command("field list", Command.COM_FIELD_LIST, b"rows3\0", FIELDS),
    command("debug", Command.COM_DEBUG),
    command("reset connection", Command.COM_RESET_CONNECTION),
    PREPARES_READ,
    prepare("INSERT INTO small VALUES (3)"),
    prepare("SELECT nothing FROM rows3"),
    prepare("SHOW WARNINGS"),
    ("fetch", lambda session: session.fetch(CURSOR)),
    ("reset statement", lambda session: session.reset(CURSOR)),
    ("reset no statement", lambda session: session.about(Command.COM_STMT_RESET, "")),
    (
        "execute no statement",
        lambda session: session.about(Command.COM_STMT_EXECUTE, "", b"\0\1\0\0\0", RESULTS),
    ),
    ("close statement", lambda session: session.close_statement("SELECT b FROM rows3")),
]
PLAIN_QUESTIONS: Final = [
    text("SELECT FOUND_ROWS()"),
    text("SELECT ROW_COUNT()"),
    text("SELECT @@warning_count, @@error_count"),
    text("SHOW WARNINGS"),
    text("SHOW ERRORS"),
    text("SHOW COUNT(*) WARNINGS"),
    text("SHOW COUNT(*) ERRORS"),
    execute("SELECT FOUND_ROWS()"),
    execute("SELECT ROW_COUNT()"),
]


def _then(first: Step, *sqls: str) -> Step:
    """A question, and what shows its answer."""

    def play(session: DiagnosticsSession) -> Answer:
        answer = first[1](session)
        for sql in sqls:
            answer += session.text(sql)
        return answer

    return first[0], play


_SHOWN: Final = ("SELECT @n, @r, @m", "SET @n = NULL, @r = NULL, @m = NULL")
_SUNK: Final = ("SELECT n FROM sink", "DELETE FROM sink")
PRIMARY_QUESTIONS: Final = [
    _then(text("SET @n = FOUND_ROWS()"), *_SHOWN),
    _then(text("SET @n = ROW_COUNT()"), *_SHOWN),
    _then(text("SET @n = @@warning_count, @r = @@error_count"), *_SHOWN),
    _then(execute("SET @n = FOUND_ROWS()"), *_SHOWN),
    _then(text("SELECT FOUND_ROWS() INTO @n"), *_SHOWN),
    _then(text("SELECT @@warning_count INTO @n"), *_SHOWN),
    _then(text("DO @n := FOUND_ROWS()"), *_SHOWN),
    _then(text("GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT"), *_SHOWN),
    _then(text("GET DIAGNOSTICS CONDITION 1 @n = MYSQL_ERRNO, @m = MESSAGE_TEXT"), *_SHOWN),
    _then(text("INSERT INTO sink SELECT FOUND_ROWS()"), *_SUNK),
    _then(text("INSERT INTO sink VALUES (FOUND_ROWS())"), *_SUNK),
    _then(text("INSERT INTO sink SELECT ROW_COUNT()"), *_SUNK),
    _then(execute("INSERT INTO sink SELECT FOUND_ROWS()"), *_SUNK),
    text("SELECT FOUND_ROWS(), LAST_INSERT_ID()"),
    text("SELECT ROW_COUNT(), LAST_INSERT_ID()"),
    text("SELECT @@warning_count, LAST_INSERT_ID()"),
    execute("SELECT FOUND_ROWS(), LAST_INSERT_ID()"),
    text("SELECT a, FOUND_ROWS() FROM rows3"),
    execute("SELECT a, FOUND_ROWS() FROM rows3"),
]
FAILING_READS: Final = READS[7:10]
QUESTIONS: Final = PLAIN_QUESTIONS + PRIMARY_QUESTIONS


def sequence(random: Random, rounds: int) -> list[Step]:
    """Rounds of a few statements and commands, each with a question at its end.

    A read that fails leaves FOUND_ROWS(), which is not asked for in advance: so it comes behind
    reads.
    """
    steps: list[Step] = []
    known = True
    for _ in range(rounds):
        for _ in range(random.randint(1, 3)):
            kind = random.choice([READS, READS, WRITES, COMMANDS, PLAIN_QUESTIONS])
            step = random.choice(kind)
            if step in FAILING_READS and not known:
                step = READS[0]
            if step not in FAILING_READS:
                known = kind is READS or kind is PLAIN_QUESTIONS or (known and kind is COMMANDS)
            steps.append(step)
        steps.append(random.choice(QUESTIONS))
        known = False
    return steps

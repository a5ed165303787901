"""Through the proxy a client gets the packets that a server sends it, whatever it negotiated."""

import pytest

from protocol.constants import Capability, Command
from protocol.response_stream import FETCHED, FIELDS, PREPARED, RESULTS, SIMPLE
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

EOF = Capability.CLIENT_DEPRECATE_EOF
TRACK = Capability.CLIENT_SESSION_TRACK
ATTRIBUTES = Capability.CLIENT_QUERY_ATTRIBUTES
METADATA = Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
FOUND_ROWS = Capability.CLIENT_FOUND_ROWS

CLIENTS = {
    "old": Capability(0),
    "deprecate-eof": EOF,
    "session-track": TRACK,
    "modern": EOF | TRACK,
    "newest": EOF | TRACK | ATTRIBUTES | METADATA,
    "found-rows": EOF | TRACK | FOUND_ROWS,
}

STATEMENTS = [
    "SELECT 1",
    "SELECT * FROM app.same ORDER BY id",
    "SELECT * FROM app.same WHERE id = 77",
    "SELECT id, REPEAT(v, 30000) FROM app.same",
    "SELECT CAST('x' AS SIGNED)",
    "SELECT 1 && 1, CAST('x' AS SIGNED)",
    "SHOW WARNINGS",
    "SELECT nothing FROM app.same",
    "SHOW ERRORS",
    "SELEC",
    "UPDATE app.same SET v = 'b' WHERE id < 3",
    "UPDATE app.same SET v = 'b' WHERE id < 3",
    "SELECT ROW_COUNT()",
    "INSERT INTO app.same (v) VALUES ('x'), ('y')",
    "SELECT LAST_INSERT_ID()",
    "SELECT * FROM app.same ORDER BY id",
    "INSERT INTO app.same (id, v) VALUES (1, 'twice')",
    "USE app",
    "SELECT DATABASE()",
    "SELECT COUNT(*) FROM same",
    "SET NAMES latin1",
    "SELECT 'ä'",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SELECT 'ä' = 'Ä'",
    "SET time_zone = '+05:30'",
    "SELECT FROM_UNIXTIME(0)",
    "SET sql_mode = 'ANSI_QUOTES'",
    'SELECT "v" FROM same WHERE "id" = 1',
    "SET sql_mode = DEFAULT",
    "SELECT SQL_CALC_FOUND_ROWS id FROM same ORDER BY id LIMIT 1",
    "SELECT FOUND_ROWS()",
    "SET @x = 5",
    "SELECT @x, @x + 1",
    "SELECT @y := 7",
    "SELECT @y",
    "CREATE TEMPORARY TABLE temp AS SELECT 1 AS a",
    "SELECT * FROM temp",
    "DROP TEMPORARY TABLE temp",
    "BEGIN",
    "INSERT INTO same (v) VALUES ('t')",
    "SELECT COUNT(*) FROM same",
    "ROLLBACK",
    "SELECT COUNT(*) FROM same",
    "SET autocommit = 0",
    "SELECT COUNT(*) FROM same",
    "COMMIT",
    "SET autocommit = 1",
    "SELECT 1; SELECT 2, 3; INSERT INTO same (v) VALUES ('m'); SELECT COUNT(*) FROM same",
    "CALL app.results()",
    "CALL app.results(); SELECT 1; SELECT CAST('x' AS SIGNED)",
    "SELECT 1; SELECT nothing",
    "SELECT 1; -- nothing more",
    "CALL app.fails()",
    "SET SESSION session_track_state_change = ON",
    "SET @z = 1",
    "SET SESSION session_track_schema = OFF",
    "USE mysql",
    "USE app",
    "SELECT COUNT(*) FROM same",
    "TABLE same ORDER BY id LIMIT 2",
    "VALUES ROW(1, 2), ROW(3, 4)",
    "(SELECT 1) UNION (SELECT 2)",
    "WITH c AS (SELECT id FROM same) SELECT COUNT(*) FROM c",
    "EXPLAIN FORMAT=TREE SELECT 1",
    "SHOW TABLES",
    "DO 1",
    "KILL QUERY 123456789",
]


def prepare(cluster: Cluster) -> None:
    for sql in (
        "DROP TABLE IF EXISTS app.same",
        "CREATE TABLE app.same (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(10))",
        "INSERT INTO app.same (v) VALUES ('a'), (NULL), ('c'), ('')",
        "DROP PROCEDURE IF EXISTS app.results",
        "CREATE PROCEDURE app.results() BEGIN SELECT 1; SELECT 2 AS b; END",
        "DROP PROCEDURE IF EXISTS app.fails",
        "CREATE PROCEDURE app.fails() BEGIN SELECT 1; SIGNAL SQLSTATE '45000'; END",
    ):
        cluster.primary.query(sql)
    cluster.wait_caught_up()


def connect(address: str, capabilities: Capability) -> RawClient:
    return RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app")


@pytest.mark.parametrize("name", CLIENTS)
def test_text_statements(cluster: Cluster, proxy: StartProxy, name: str) -> None:
    running = proxy()
    answers: dict[str, list[list[Packet]]] = {}
    for address in (cluster.primary.address, running.address):
        prepare(cluster)
        with connect(address, CLIENTS[name]) as client:
            answers[address] = [[(0, client.login)]] + [client.query(sql) for sql in STATEMENTS]
    direct, through = answers.values()
    for sql, expected, got in zip(["login", *STATEMENTS], direct, through, strict=True):
        assert got == expected, sql
    assert running.metric("tidegate_statements_total", role="replica") > 5


@pytest.mark.parametrize("name", CLIENTS)
def test_commands(cluster: Cluster, proxy: StartProxy, name: str) -> None:
    running = proxy()
    answers: dict[str, list[list[Packet]]] = {}
    for address in (cluster.primary.address, running.address):
        prepare(cluster)
        with connect(address, CLIENTS[name]) as client:
            answers[address] = run_commands(client)
    direct, through = answers.values()
    for number, (expected, got) in enumerate(zip(direct, through, strict=True)):
        assert got == expected, f"command {number}"


def run_commands(client: RawClient) -> list[list[Packet]]:
    attributes = bool(client.capabilities & ATTRIBUTES)
    no_parameters = b""
    one_integer = (b"\x01" if attributes else b"") + b"\x00\x01\x08\x00"
    one_integer += (b"\x00" if attributes else b"") + (3).to_bytes(8, "little")
    answers = [
        client.command(Command.COM_PING, shape=SIMPLE),
        client.command(Command.COM_INIT_DB, b"app", SIMPLE),
        client.command(Command.COM_INIT_DB, b"nowhere", SIMPLE),
        client.command(Command.COM_FIELD_LIST, b"same\x00", FIELDS),
        client.command(Command.COM_STMT_PREPARE, b"SELECT id, v FROM same ORDER BY id", PREPARED),
        execute(client, 1, 0, no_parameters),
        execute(client, 1, 1, no_parameters),
        client.command(Command.COM_STMT_FETCH, (1).to_bytes(4, "little") + b"\x02\0\0\0", FETCHED),
        client.command(Command.COM_STMT_FETCH, (1).to_bytes(4, "little") + b"\x09\0\0\0", FETCHED),
        client.command(Command.COM_STMT_RESET, (1).to_bytes(4, "little"), SIMPLE),
        client.command(Command.COM_STMT_PREPARE, b"SELECT v FROM same WHERE id = ?", PREPARED),
        execute(client, 2, 0, one_integer),
        client.command(Command.COM_STMT_PREPARE, b"INSERT INTO same (v) VALUES ('p')", PREPARED),
        execute(client, 3, 0, no_parameters),
        execute(client, 3, 1, no_parameters),
        client.command(Command.COM_STMT_PREPARE, b"SELECT FROM", PREPARED),
        execute(client, 99, 0, no_parameters),
        client.command(Command.COM_STMT_PREPARE, b"CALL results()", PREPARED),
        execute(client, 4, 0, no_parameters),
        execute(client, 4, 1, no_parameters),
        client.command(Command.COM_SET_OPTION, b"\x01\x00", SIMPLE),
        client.query("SELECT 1; SELECT 2"),
        client.command(Command.COM_SET_OPTION, b"\x00\x00", SIMPLE),
        client.query("SELECT 1; SELECT 2"),
        client.command(Command.COM_RESET_CONNECTION, shape=SIMPLE),
        client.query("SELECT DATABASE()"),
        client.query("SELECT COUNT(*) > 0 FROM same"),
    ]
    client.send(frame_close(1) + frame_close(2))
    answers.append(client.command(Command.COM_PING, shape=SIMPLE))
    return answers


def frame_close(statement_id: int) -> bytes:
    return b"\x05\x00\x00\x00\x19" + statement_id.to_bytes(4, "little")


def execute(client: RawClient, statement_id: int, flags: int, parameters: bytes) -> list[Packet]:
    body = statement_id.to_bytes(4, "little") + bytes((flags,)) + b"\x01\0\0\0" + parameters
    return client.command(Command.COM_STMT_EXECUTE, body, RESULTS)

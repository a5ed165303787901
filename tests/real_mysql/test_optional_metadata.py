"""Answers are whole, and the server's own, with column definitions and without.

With CLIENT_OPTIONAL_RESULTSET_METADATA and ``resultset_metadata = NONE`` a server leaves out the
definitions, but without CLIENT_DEPRECATE_EOF not the EOF packets behind them. Here the answers'
ends are found without any of the project's framing: COM_STATISTICS follows each command, and what
comes before its text is the answer.
"""

from itertools import product

import pytest

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.prepared_statement import (
    CURSOR_TYPE_READ_ONLY,
    PARAMETER_COUNT_AVAILABLE,
    ComStmtExecute,
    ComStmtFetch,
    ParameterType,
)
from protocol.response import ERR_HEADER
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import NOTHING, Packet, RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

METADATA = Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
EOF = Capability.CLIENT_DEPRECATE_EOF
ATTRIBUTES = Capability.CLIENT_QUERY_ATTRIBUTES
LONGLONG = 8

CLIENTS = {
    f"{'metadata' if metadata else 'plain'}-{'ok' if eof else 'eof'}"
    f"{'-attributes' if attributes else ''}": Capability.CLIENT_SESSION_TRACK
    | metadata
    | eof
    | attributes
    for metadata, eof, attributes in product(
        *((capability, NOTHING) for capability in (METADATA, EOF, ATTRIBUTES))
    )
}

QUERIES = [
    "SELECT id, v FROM described ORDER BY id",
    "SELECT id, v FROM described WHERE id = 99",
    "SELECT 1; SELECT 2, 3; DO 1; SELECT id FROM described",
    "SELECT nothing",
    "SET @b = 4",
    "CALL outs(@a, @b)",
    "CALL outs(@a, @b); SELECT @a, @b",
    "SHOW COLUMNS FROM described",
    "INSERT INTO described VALUES (7, 'x')",
    "DELETE FROM described WHERE id = 7",
]

PREPARED = {
    "SELECT id, v FROM described ORDER BY id": 0,
    "SELECT id FROM described WHERE id > ?": 1,
    "SELECT id + ?, v, ? FROM described ORDER BY id": 2,
    "SELECT id FROM described WHERE id = 99": 0,
    "DO 1": 0,
    "DO ?": 1,
    "INSERT INTO described SELECT ?, ? FROM described WHERE id = 99": 2,
    "CALL outs(?, ?)": 2,
    "SHOW COLUMNS FROM described": 0,
    "SELECT FROM": 0,
}


def answer(client: RawClient, command: Command, body: bytes) -> list[Packet]:
    """All that comes for a command."""
    client.send(frame(bytes((command,)) + body, 0))
    client.send(frame(bytes((Command.COM_STATISTICS,)), 0))
    packets: list[Packet] = []
    while True:
        packet = client.read()
        if packet[0] == 1 and packet[1].startswith(b"Uptime: "):
            return packets
        packets.append(packet)


def query(client: RawClient, sql: str) -> list[Packet]:
    attributes = b"\x00\x01" if client.capabilities & ATTRIBUTES else b""
    return answer(client, Command.COM_QUERY, attributes + sql.encode())


def execute(client: RawClient, statement: int, parameters: int, flags: int) -> list[Packet]:
    attributes = bool(client.capabilities & ATTRIBUTES)
    packet = ComStmtExecute(
        statement,
        flags | (PARAMETER_COUNT_AVAILABLE if attributes else 0),
        parameters,
        bytes((parameters + 7) // 8),
        (ParameterType(LONGLONG),) * parameters,
        (1).to_bytes(8, "little") * parameters,
    )
    return answer(client, Command.COM_STMT_EXECUTE, packet.serialise(attributes)[1:])


def fetch(client: RawClient, statement: int, rows: int) -> list[Packet]:
    """Its answer; an error's text without the statement's id, which is the proxy's own."""
    packet = ComStmtFetch(statement, rows).serialise()
    packets = answer(client, Command.COM_STMT_FETCH, packet[1:])
    own = f"({statement})".encode()
    return [
        (sequence_id, payload.replace(own, b"(id)") if payload[0] == ERR_HEADER else payload)
        for sequence_id, payload in packets
    ]


def play(client: RawClient, metadata: str) -> list[tuple[str, list[Packet]]]:
    """Each command's name and answer; a statement's id, which is the proxy's own, left out."""
    answers = [("SET", query(client, f"SET resultset_metadata = {metadata}"))]
    answers += [(sql, query(client, sql)) for sql in QUERIES]
    answers.append(("fields", answer(client, Command.COM_FIELD_LIST, b"described\x00")))
    for sql, parameters in PREPARED.items():
        (sequence_id, head), *rest = answer(client, Command.COM_STMT_PREPARE, sql.encode())
        if head[0] != 0:
            answers.append((sql, [(sequence_id, head), *rest]))
            continue
        answers.append((sql, [(sequence_id, head[:1] + head[5:]), *rest]))
        statement = int.from_bytes(head[1:5], "little")
        for flags in (0, CURSOR_TYPE_READ_ONLY, 0):
            executed = execute(client, statement, parameters, flags)
            answers.append((f"{sql}, flags {flags}", executed))
            if flags and executed[-1][1][0] == 0xFE:
                answers += [(f"{sql}, fetch", fetch(client, statement, rows)) for rows in (1, 9)]
    answers.append(("SET", query(client, "SET resultset_metadata = FULL")))
    answers.append((QUERIES[0], query(client, QUERIES[0])))
    return answers


@pytest.fixture(scope="module")
def described(cluster: Cluster) -> Cluster:
    for sql in (
        "CREATE TABLE app.described (id INT PRIMARY KEY, v VARCHAR(10))",
        "INSERT INTO app.described VALUES (1, 'a'), (2, 'b'), (3, NULL)",
        "CREATE PROCEDURE app.outs(OUT a INT, INOUT b INT)"
        " BEGIN SELECT id FROM described; SET a = 1; SET b = b + 1; END",
    ):
        cluster.primary.query(sql)
    cluster.wait_caught_up()
    return cluster


@pytest.mark.parametrize("metadata", ["FULL", "NONE"])
def test_every_answer_is_the_servers_own(
    described: Cluster, proxy: StartProxy, metadata: str
) -> None:
    running = proxy()
    for name, capabilities in CLIENTS.items():
        played = []
        for address in (described.primary.address, running.address):
            with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
                played.append(play(client, metadata))
        for expected, got in zip(*played, strict=True):
            assert got == expected, name
    assert running.metric("tidegate_statements_total", role="replica") > 50

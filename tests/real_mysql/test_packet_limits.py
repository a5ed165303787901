"""Packets that are too long for the primary, or just not, through Tidegate as without it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response_stream import PREPARED, SIMPLE
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

MIB = 1 << 20


def connect(address: str) -> RawClient:
    return RawClient(address, APP_USER, APP_PASSWORD, Capability.CLIENT_DEPRECATE_EOF)


def answer(client: RawClient, data: bytes) -> list[bytes]:
    """Payloads up to the one that ends a result, or up to the end of the connection."""
    with suppress(ConnectionError):  # a server hangs up before it has read what is too long
        client.send(data)
    payloads = []
    try:
        while not payloads or payloads[-1][0] not in (0xFE, 0xFF):
            payloads.append(client.read()[1])
        if payloads[-1][1:3] == b"\x81\x04":  # 1153
            client.read()
    except ConnectionError:
        payloads.append(b"the end")
    return payloads


def text(client: RawClient, size: int) -> list[bytes]:
    """A COM_QUERY whose payload has so many bytes."""
    head, tail = b"\x03SELECT LENGTH('", b"') AS length"
    return answer(client, frame(head + b"x" * (size - len(head) - len(tail)) + tail, 0))


def execution(client: RawClient, size: int) -> list[bytes]:
    """A COM_STMT_EXECUTE whose payload has so many bytes."""
    prepared = client.command(Command.COM_STMT_PREPARE, b"SELECT LENGTH(?)", PREPARED)
    head = b"\x17" + prepared[0][1][1:5] + b"\0\1\0\0\0" + b"\0\1\xfd\0\xfe"
    value = b"x" * (size - len(head) - 8)
    return answer(client, frame(head + len(value).to_bytes(8, "little") + value, 0))


def preparation(client: RawClient, size: int) -> list[bytes]:
    """A COM_STMT_PREPARE whose payload has so many bytes; the statement is wrong."""
    return answer(client, frame(b"\x16SELECT " + b"x" * (size - 8), 0))


@pytest.mark.parametrize("command", [text, execution, preparation])
def test_the_primarys_limit(proxy: StartProxy, cluster: Cluster, command: object) -> None:
    assert callable(command)
    cluster.primary.query(f"SET GLOBAL max_allowed_packet = {MIB}")
    running = proxy()
    for size in (MIB - 1, MIB, 3 * MIB, 17 * MIB):
        answers = []
        for address in (cluster.primary.address, running.address):
            with connect(address) as client:
                answers.append(command(client, size))
        assert answers[0] == answers[1], size
        assert (answers[0][-1] == b"the end") is (size >= MIB), "the test knows the limit"


@pytest.mark.parametrize("command", [text, execution])
def test_as_much_as_a_server_allows(proxy: StartProxy, cluster: Cluster, command: object) -> None:
    assert callable(command)
    cluster.primary.query(f"SET GLOBAL max_allowed_packet = {18 * MIB}")
    running = proxy()
    for size in ((1 << 24) - 1, 1 << 24, 18 * MIB - 1, 18 * MIB):
        answers = []
        for address in (cluster.primary.address, running.address):
            with connect(address) as client:
                answers.append(command(client, size))
        assert answers[0] == answers[1], size


LONG_DATA = ["LEEE", "LEV", "LRE", "LRV", "LRsE", "LVV", "LsEE", "LEsE", "LPE", "LEREV"]
"""L: too much long data; s: a little; E: an execution that relies on it; V: one with a value; R:
COM_STMT_RESET; P: COM_PING."""


def long_data(client: RawClient, sql: bytes, script: str) -> list[tuple[int, int]]:
    """Of each answer its first byte, and an error's code."""
    head = client.command(Command.COM_STMT_PREPARE, sql, PREPARED)[0][1]
    statement = head[1:5]
    found = []
    for step in script:
        if step in "Ls":
            for _ in range(3 if step == "L" else 1):
                piece = b"y" * (600_000 if step == "L" else 10)
                client.send(frame(b"\x18" + statement + b"\0\0" + piece, 0))
            continue
        if step == "R":
            payload = client.command(Command.COM_STMT_RESET, statement, SIMPLE)[-1][1]
        elif step == "P":
            payload = client.command(Command.COM_PING, shape=SIMPLE)[-1][1]
        else:
            types, value = (b"\xfd\0", b"\x03abc") if step == "V" else (b"\xfc\0", b"")
            body = statement + b"\0\1\0\0\0" + b"\0\1" + types + value
            payload = client.command(Command.COM_STMT_EXECUTE, body)[-1][1]
        found.append(
            (payload[0], int.from_bytes(payload[1:3], "little") if payload[0] > 0xFE else 0)
        )
    return found


@pytest.mark.parametrize("own", ["64M", "1M"])
def test_too_much_long_data(proxy: StartProxy, cluster: Cluster, own: str) -> None:
    """As at a server whose limit it is: nothing can be executed before a reset."""
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.long_data (v LONGTEXT)")
    cluster.wait_caught_up()
    for server in cluster.servers:
        server.query(f"SET GLOBAL max_allowed_packet = {MIB}")
    running = proxy(max_allowed_packet=own)
    for sql in (b"SELECT LENGTH(?)", b"INSERT INTO app.long_data VALUES (?)"):
        for script in LONG_DATA:
            found = []
            for address in (cluster.primary.address, running.address):
                with connect(address) as client:
                    found.append(long_data(client, sql, script))
            assert found[0] == found[1], (sql, script)

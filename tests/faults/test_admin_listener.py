"""The port for operators: who may log in, what it answers, and what it needs of servers."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.constants import Capability
from proxy.address import Address
from proxy.client.admin.listener import MOST, MOST_ARRIVING, AdminListener
from tests.faults.client import MODERN, Client
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture
from tests.faults.test_administration import connection_id_of, shown


@asynccontextmanager
async def operated(**options: Any) -> AsyncIterator[tuple[ProxyFixture, int]]:
    """A proxy, and the port for operators."""
    async with proxy_fixture(**{"admins": ("app",), **options}) as proxy:
        listener = AdminListener(proxy.shared, Address("127.0.0.1", 0))
        listening = socket.create_server(("127.0.0.1", 0))
        listener.start_at(listening)
        try:
            yield proxy, listening.getsockname()[1]
        finally:
            listener.stop()
            listener.end()
            await eventually(lambda: not listener.open)


async def operator(port: int, **options: Any) -> Client:
    client = await Client.connect(port)
    end = await client.log_in(**options)
    assert end[0] == 0x00, end
    return client


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select @@version_comment limit 1", [["Tidegate's port for operators"]]),
        ("SELECT 1", [["1"]]),
        ("select DATABASE(), USER() limit 1", [[None, "app@127.0.0.1"]]),
        ("SET NAMES utf8mb4", []),
        ("SET @@session.autocommit = 1", []),
        ("SET AUTOCOMMIT = 0", []),
        ("show databases", []),
    ],
)
async def test_what_clients_ask_at_first(sql: str, rows: list[list[str | None]]) -> None:
    async with operated() as (_, port), await operator(port) as client:
        answer = await client.query(sql)
        assert answer.packets[-1][0] != 0xFF, answer.error
        found = [[None if cell is None else cell.decode() for cell in row] for row in answer.rows]
        assert found == rows


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 2",
        "SELECT * FROM t",
        "SELECT 1, password",
        "SET PASSWORD = 'x'",
        "SET GLOBAL max_connections = 1",
        "SET NAMES utf8mb4; DROP TABLE t",
        "KILL QUERY 7",
        "DROP TABLE t",
        "",
        "SHOW TIDEGATE SCOPES",
    ],
)
async def test_nothing_else(sql: str) -> None:
    async with operated() as (proxy, port), await operator(port) as client:
        before = [len(server.statements) for server in proxy.cluster.servers]
        assert (await client.query(sql)).error.code == 1235
        assert [len(server.statements) for server in proxy.cluster.servers] == before


@pytest.mark.parametrize("capabilities", [MODERN, MODERN & ~Capability.CLIENT_DEPRECATE_EOF])
async def test_own_statements(capabilities: Capability) -> None:
    async with operated() as (proxy, port):
        victim = await proxy.session(user="other", password="word")
        async with await operator(port, capabilities=capabilities) as client:
            (name,) = [replica.address for replica in proxy.cluster.replicas]
            answer = await client.query("SHOW TIDEGATE SESSIONS")
            assert [row[0] for row in answer.rows] == [str(connection_id_of(victim)).encode()]
            answer = await client.query(f"TIDEGATE DRAIN SERVER '{name}'")
            assert answer.rows[0][0] == name.encode()
            assert (await client.query("TIDEGATE DRAIN SERVER 'x'")).error.code == 1105
            assert (await client.query("TIDEGATE DRAIN x")).error.code == 1231
            assert (await client.query("SHOW TIDEGATE DIGESTS")).packets[-1][0] != 0xFF
            assert (await client.query(f"KILL {connection_id_of(victim)}")).ok
            assert (await victim.last_error()).code == 1053
            assert (await client.query("KILL 4000000000")).error.code == 1094
            assert (await client.ping()).ok


@pytest.mark.parametrize(
    "options",
    [
        {"user": "other", "password": "word"},
        {"user": "app", "password": "wrong"},
        {"user": "nobody", "password": ""},
    ],
)
async def test_only_admins_log_in(options: dict[str, Any]) -> None:
    async with operated() as (_, port), await Client.connect(port) as client:
        end = await client.log_in(**options)
        assert end[0] == 0xFF
        assert b"Access denied for user" in end


async def test_where_no_client_has_room() -> None:
    async with operated(max_connections=1) as (proxy, port):
        await proxy.session()
        async with await operator(port) as client:
            assert len(await shown(client, "SHOW TIDEGATE SESSIONS")) == 1
            assert len(proxy.shared.sessions) == 1


async def test_so_many_operators() -> None:
    async with operated() as (_, port):
        clients = [await operator(port) for _ in range(MOST)]
        further = await Client.connect(port)
        assert b"Too many connections" in await further.log_in()
        for client in (*clients, further):
            client.abort()


async def test_who_says_nothing_keeps_no_operator_out() -> None:
    async with operated() as (_, port):
        silent = [await Client.connect(port) for _ in range(MOST_ARRIVING + 8)]
        async with await operator(port) as client:
            assert (await client.ping()).ok
        for other in silent:
            other.abort()


async def test_where_no_session_has_a_connection_left() -> None:
    options = {"max_server_connections": 1, "server_connection_timeout": 0.05}
    async with operated(replicas=0, **options) as (proxy, port):
        await proxy.session()  # has the only one
        async with await operator(port) as client:
            assert len(await shown(client, "SHOW TIDEGATE SESSIONS")) == 1


@pytest.mark.parametrize("replicas", [1, 0])
async def test_while_the_primary_is_gone(replicas: int) -> None:
    async with operated(replicas=replicas, connect_timeout=1.0) as (proxy, port):
        client = await proxy.session()  # its password is known now
        client.abort()
        await eventually(lambda: not proxy.shared.sessions)
        await proxy.cluster.primary.stop()
        async with await operator(port) as admin:
            rows = await shown(admin, "SHOW TIDEGATE SERVERS")
            assert next(row["state"] for row in rows) == "down"
        async with await Client.connect(port) as wrong:
            assert (await wrong.log_in(password="wrong"))[0] == 0xFF

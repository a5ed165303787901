"""Starts what the application needs: two Tidegate proxies with one token key before one cluster."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pymysql
from werkzeug.serving import WSGIRequestHandler, make_server

from examples.web.app import TABLE, Database, create_app
from mysql_mocker.server.cluster import Cluster
from proxy.address import Address

PROXIES: Final = 2
"""How many proxies there are, each with an application server of its own."""

_READY: Final = re.compile(r"listening on \S+:(\d+)")
_START_S: Final = 30


class StageError(Exception):
    """The stage cannot be set up; the message says why."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The MySQL servers, and how the application logs in there.

    Attributes:
        schema: the schema of the application's table.
    """

    primary: Address
    replicas: Sequence[Address]
    user: str
    password: str
    schema: str


@dataclass(frozen=True, slots=True)
class Stage:
    """The running proxies.

    Attributes:
        proxies: for each, what an application server needs to connect there.
        token_key: the key with which both proxies sign tokens.
    """

    proxies: Sequence[Database]
    token_key: bytes


@contextlib.asynccontextmanager
async def late_cluster(lag: float) -> AsyncIterator[Servers]:
    """Run a primary and two replicas in this process; no MySQL is needed.

    Args:
        lag: seconds by which the replicas are late.
    """
    user, password, schema = "web", "web", "web"
    async with Cluster(2, 0, {user: password}, (schema,)) as cluster:
        primary, *replicas = (Address("127.0.0.1", server.port) for server in cluster.servers)
        servers = Servers(primary, replicas, user, password, schema)
        await asyncio.to_thread(create_table, servers)
        for replica in cluster.replicas:
            replica.apply_delay = lag
        yield servers


@contextlib.asynccontextmanager
async def stage(servers: Servers, wait_budget: str = "2s") -> AsyncIterator[Stage]:
    """Start the proxies.

    Args:
        servers: the servers behind both proxies.
        wait_budget: how long a read may wait for a replica.

    Raises:
        StageError: a proxy does not start.
    """
    key = secrets.token_hex(32)
    with tempfile.TemporaryDirectory(prefix="tidegate-example-") as folder:
        keys = Path(folder) / "token.keys"
        keys.touch(0o600)
        keys.write_text(key + "\n")
        async with contextlib.AsyncExitStack() as running:
            proxies = [
                _database(
                    servers,
                    await running.enter_async_context(_proxy(servers, keys, wait_budget)),
                )
                for _ in range(PROXIES)
            ]
            yield Stage(proxies, bytes.fromhex(key))


def _database(servers: Servers, address: Address) -> Database:
    return {
        "host": address.host,
        "port": address.port,
        "user": servers.user,
        "password": servers.password,
        "database": servers.schema,
    }


def create_table(servers: Servers) -> None:
    """Make the application's table, and wait until all replicas have it, so that no page fails.

    Raises:
        StageError: a server cannot be reached, or refuses.
    """
    try:
        _query(servers, servers.primary, TABLE)
        executed = _query(servers, servers.primary, "SELECT @@GLOBAL.gtid_executed")
        for replica in servers.replicas:
            _query(servers, replica, f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', {_START_S})")
    except pymysql.MySQLError as error:
        raise StageError(f"the table cannot be made: {error}") from error


def _query(servers: Servers, address: Address, sql: str) -> str:
    """Ask a server directly; returns the first value of the answer."""
    with (
        pymysql.connect(**_database(servers, address)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)
        row = cursor.fetchone()
        return "" if row is None else str(row[0])


@contextlib.asynccontextmanager
async def _proxy(servers: Servers, keys: Path, wait_budget: str) -> AsyncIterator[Address]:
    """Run `tidegate run` in a process of its own; yields the address at which it listens."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "proxy.cli", "run", "--listen", "127.0.0.1:0"),
        *("--primary", str(servers.primary), "--replicas", ",".join(map(str, servers.replicas))),
        *("--token-key-file", str(keys), "--wait-budget", wait_budget),
        *("--scope", "connection"),  # the token says what else a request must see
        stderr=asyncio.subprocess.PIPE,
    )
    output = bytearray()
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    listening = asyncio.create_task(_listen(process, output, port))
    try:
        yield Address("127.0.0.1", await asyncio.wait_for(port, _START_S))
    except TimeoutError as error:
        raise StageError(f"a proxy did not start:\n{output.decode()}") from error
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await listening


async def _listen(
    process: asyncio.subprocess.Process, output: bytearray, port: asyncio.Future[int]
) -> None:
    """Read a proxy's output to its end, so that it never blocks, and find its port there."""
    if process.stderr is not None:
        async for line in process.stderr:
            output += line
            found = _READY.search(line.decode(errors="replace"))
            if found and not port.done():
                port.set_result(int(found[1]))
    if not port.done():
        port.set_exception(StageError(f"a proxy did not start:\n{output.decode(errors='replace')}"))


@contextlib.contextmanager
def application_servers(stage: Stage, *, tokens: bool) -> Iterator[list[str]]:
    """Run one application server for each proxy, in threads; yields their URLs."""

    class Quiet(WSGIRequestHandler):
        def log_request(self, *_: object) -> None:
            """Do not log requests that succeed."""

    with contextlib.ExitStack() as running:
        apps = [
            create_app(f"server {letter}", proxy, tokens=tokens)
            for letter, proxy in zip("AB", stage.proxies, strict=True)
        ]
        urls = []
        for app in apps:
            server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
            thread = threading.Thread(target=server.serve_forever, name=app.config["NAME"])
            thread.start()
            running.callback(thread.join)
            running.callback(server.shutdown)
            urls.append(f"http://127.0.0.1:{server.port}/")
        for app, other in zip(apps, reversed(urls), strict=True):
            app.config["OTHER"] = other
        yield urls

"""Clients that have left leave no memory behind in a proxy that runs as in earnest."""

import asyncio
from pathlib import Path

import pymysql

from benchmarks.churn import churn, connector, visitor
from mysql_mocker.server.cluster import Cluster
from proxy import demo

MOST = 20_000
"""Bytes per client; cycles that wait for the collector were 80,000."""


async def grown(log: Path) -> int:
    """Bytes of memory per client, of sixty."""
    async with (
        Cluster(1, 0.0, {"app": "secret"}, ("churn",)) as cluster,
        demo._proxy(cluster, demo.SETTINGS[-1], "churn", log) as proxy,
    ):
        await asyncio.to_thread(create_table, proxy.port)
        visit = visitor(connector(proxy.port, "app", "secret", "churn", tls=True))
        steps = churn(proxy.process.pid, visit, 2, 60)
        _warm, measured = await asyncio.to_thread(list, steps)
        return measured.grown // measured.clients


def create_table(port: int) -> None:
    with (
        pymysql.connect(
            host="127.0.0.1", port=port, user="app", password="secret", database="churn"
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE churn (id INT PRIMARY KEY)")


def test_memory_stays_flat_while_clients_come_and_go(tmp_path: Path) -> None:
    assert asyncio.run(grown(tmp_path)) < MOST

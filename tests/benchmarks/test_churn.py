"""Clients that have left leave no memory behind in a proxy that runs as in earnest."""

import asyncio
from pathlib import Path

import pymysql
import pytest

from benchmarks.churn import Round, churn, connector, crowds, visitor
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


@pytest.mark.not_fast
def test_memory_stays_flat_while_clients_come_and_go(tmp_path: Path) -> None:
    assert asyncio.run(grown(tmp_path)) < MOST


async def crowded(log: Path) -> list[Round]:
    """Two rounds of 300 TLS clients that are connected together."""
    async with (
        Cluster(1, 0.0, {"app": "secret"}, ("churn",)) as cluster,
        demo._proxy(cluster, demo.SETTINGS[-1], "churn", log) as proxy,
    ):
        await asyncio.to_thread(create_table, proxy.port)
        connect = connector(proxy.port, "app", "secret", "churn", tls=True)
        await asyncio.to_thread(visitor(connect))
        return await asyncio.to_thread(list, crowds(proxy.process.pid, connect, 2, 300, 15))


@pytest.mark.deep
def test_memory_comes_back_when_many_clients_have_left(tmp_path: Path) -> None:
    """With uvloop's TLS a client took 75 KB here, and none of it came back."""
    first, second = asyncio.run(crowded(tmp_path))
    assert first.peak - first.before < 300 * 60_000
    assert second.peak < 1.1 * first.peak
    assert second.after < 1.1 * first.after
    assert first.after < first.peak - (first.peak - first.before) / 4

"""A proxy in this process, in front of the mocker, and a client, to look into the proxy's work."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pymysql

from mysql_mocker.server.cluster import Cluster
from proxy.address import Address
from proxy.client.listener import Listener
from proxy.config import Config
from proxy.drain import drain
from proxy.live_config import LiveConfig
from proxy.monitor.monitor import Monitor
from proxy.observe.metrics import Metrics
from proxy.observe.routing_log import RoutingLog
from proxy.serve import build as build_shared
from proxy.tls.materials import build, make_key_ring

_PASSWORD: Final = "trace"  # of an account that lives as long as this program
SCHEMA: Final = "trace"


class Client:
    """One session of the proxy, without TLS."""

    def __init__(self, port: int) -> None:
        self._connection = pymysql.connect(
            host="127.0.0.1",
            port=port,
            user="root",
            password=_PASSWORD,
            database=SCHEMA,
            autocommit=True,
            ssl_disabled=True,
        )

    def query(self, sql: str) -> None:
        """Run a statement; blocks."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            cursor.fetchall()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@asynccontextmanager
async def serving(apply_delay: float, routing_log: Path | None = None) -> AsyncIterator[int]:
    """Run a proxy and yield its port; its replica applies transactions `apply_delay` seconds late.

    `routing_log` is where the routing log goes; None for no log.
    """
    async with Cluster(1, apply_delay, accounts={"root": _PASSWORD}, schemas=(SCHEMA,)) as cluster:
        config = Config(
            primary=_address(cluster.primary.address),
            replicas=(_address(cluster.replicas[0].address),),
            listen=Address("127.0.0.1", 0),
            server_tls="disabled",
            wait_budget=5.0,
            proof_max_age=3600.0,
        )
        materials = build(config, make_key_ring(config))
        metrics = Metrics()
        log = None if routing_log is None else RoutingLog(routing_log, "proxy", 0, metrics)
        records = None
        if log is not None:
            log.start()
            records = log.records
        proxy = build_shared(LiveConfig(config, materials), metrics, records, 0)
        monitor = Monitor(proxy)
        await monitor.start()
        await proxy.server_greeting.learn(proxy.topology.primary, config, proxy.metrics)
        listener = Listener(proxy)
        listening = socket.create_server(("127.0.0.1", 0))
        listener.start_at(listening)
        try:
            yield listening.getsockname()[1]
        finally:
            listener.stop()
            await monitor.stop()
            await drain(proxy)
            proxy.pool.close()
            if log is not None:
                await asyncio.to_thread(log.stop)


def _address(text: str) -> Address:
    return Address.parse(text, default_host="127.0.0.1", default_port=3306)

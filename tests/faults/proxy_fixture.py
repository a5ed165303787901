"""A proxy in this process, before servers that a test chooses."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from mysql_mocker.server.cluster import Cluster
from mysql_mocker.server.server import Server
from proxy.address import Address
from proxy.client.listener import Listener
from proxy.config import Config
from proxy.config_changes import follow_changes
from proxy.drain import drain
from proxy.live_config import LiveConfig
from proxy.monitor.liveness import Liveness
from proxy.monitor.monitor import Monitor
from proxy.observe.metrics import Metrics
from proxy.serve import build as build_shared
from proxy.server.view_question import AFTER, QUESTION
from proxy.shared.administration.worker_sockets import WorkerSockets
from proxy.shared.idle_release import IdleRelease
from proxy.shared.idle_timeout import IdleTimeout
from proxy.shared.shared import Shared
from proxy.tls.materials import Materials, build, make_key_ring
from routing.consistency.decision import Scope
from tests.faults import garbage
from tests.faults.client import PASSWORD, Client

ACCOUNTS = {"app": PASSWORD, "other": "word", "empty": ""}


@cache
def materials(server_tls: str = "preferred") -> Materials:
    """Keys take a while to make."""
    config = Config(Address("127.0.0.1", 1), server_tls=server_tls)  # type: ignore[arg-type] # a str
    if server_tls != "preferred":
        return replace(materials(), server_tls=build(config, make_key_ring(config)).server_tls)
    return build(config, make_key_ring(config))


class ProxyFixture:
    """A running proxy.

    Attributes:
        shared: what its sessions share.
        port: where clients connect.
        monitor: watches the servers.
        cluster: the servers, where the mocker is them.
    """

    def __init__(
        self, shared: Shared, port: int, monitor: Monitor, cluster: Cluster | None
    ) -> None:
        self.shared = shared
        self.port = port
        self.monitor = monitor
        self._cluster = cluster
        self._clients: list[Client] = []

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster

    @property
    def clients(self) -> list[Client]:
        """Those that were made here."""
        return self._clients

    async def connect(self) -> Client:
        """A connection that was not greeted yet."""
        client = await Client.connect(self.port)
        self._clients.append(client)
        return client

    async def session(self, **options: Any) -> Client:
        """A client that has logged in; options are those of `Client.log_in`."""
        client = await self.connect()
        end = await client.log_in(**options)
        assert end[0] == 0x00, end
        return client

    async def direct(self, server: Server | None = None, **options: Any) -> Client:
        """A client of a server itself, the primary unless another is named: past the proxy."""
        client = await Client.connect((server or self.cluster.primary).port)
        self._clients.append(client)
        end = await client.log_in(**options)
        assert end[0] == 0x00, end
        return client

    def count(self, family: str, *labels: str) -> float:
        """Sum the series of a family of metrics that have all these label values."""
        series = self.shared.metrics.snapshot()["values"][family]
        return sum(value for found, value in series if set(labels) <= set(found))

    def statements(self, *labels: str) -> float:
        """Statements with all these label values: role, server, reason, proof, outcome."""
        return self.count("tidegate_statements_total", *labels)

    @property
    def kept_are_clean(self) -> bool:
        """Whether nothing of a session is left on a connection that waits for the next one."""
        pool, servers = self.shared.pool, self.shared.topology.servers
        return all(kept.clean for server in servers for kept in pool.of(server))

    async def caught_up(self) -> None:
        """Wait until every replica has what the primary has."""
        executed = self.cluster.primary.gtids.executed
        await eventually(lambda: all(executed <= r.gtids.executed for r in self.cluster.replicas))

    async def end(self) -> None:
        """Every client leaves; nothing of them may stay."""
        for client in self._clients:
            client.abort()
        await eventually(lambda: not self.shared.sessions)
        limits = self.shared.client_limits
        await eventually(lambda: not limits.counts and not limits.on_trial)
        self.shared.pool.close()
        if self._cluster is not None:
            for server in self._cluster.servers:
                await eventually(lambda server=server: server.connections == 0)  # type: ignore[misc]
        slots, servers = self.shared.slots, self.shared.topology.servers
        await eventually(lambda: not any(slots.count_of(server) for server in servers))
        assert not any(self.shared.slots.giving.values())
        values = self.shared.metrics.snapshot()["values"]
        for family in (
            "tidegate_server_connections_awaited",
            "tidegate_clients_connected",
            "tidegate_server_connections",
            "tidegate_kept_connections",
        ):
            assert not any(value for _, value in values[family]), family


def statements_of(server: Server) -> list[str]:
    """The statements that a server of the mocker was sent, but for those that follow a login."""
    own = ("SET SESSION session_track_schema", "SET SESSION transaction_read_only", "SELECT @@serv")
    own += (QUESTION.decode(), AFTER.decode())
    own += ("SELECT @@character_set_client", "SHOW CREATE USER", "ROLLBACK AND", "SET @tidegate_c")
    return [text for _, text in server.statements if not text.startswith(own)]


async def eventually(condition: Callable[[], bool], limit: float = 20) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 what is waited for tells nobody
            await asyncio.sleep(0.005)


@asynccontextmanager
async def before(
    primary: str, replicas: Sequence[str] = (), cluster: Cluster | None = None, **options: Any
) -> AsyncIterator[ProxyFixture]:
    """A proxy before servers at these addresses; options are fields of `Config`."""
    settings: dict[str, Any] = {
        "connect_timeout": 5.0,
        "handshake_timeout": 10.0,
        "proof_max_age": 3600.0,  # or some reads have a question in front, by the clock
        # Tests that want others say so: with these, the fewest questions are asked.
        "scope": Scope.CONNECTION,
        "table_dependencies": "off",
        "table_dependencies_rate": 16 << 20,
    }
    if cluster is None:
        settings["view_age"] = 0.0  # scripts answer no questions about views
        settings["kept_connections"] = 0  # nor do they clean anything up
    settings["drain_timeout"] = 0.5  # tests end amid transactions
    settings["connection_sharing_delay"] = 3600.0  # what rests must not depend on the machine
    settings |= options
    log = settings.pop("log", None)  # a RecordStream
    worker = settings.pop("worker", 0)  # of several, whose shared memory is there
    config = Config(
        primary=_address(primary),
        replicas=tuple(_address(replica) for replica in replicas),
        listen=Address("127.0.0.1", 0),
        **settings,
    )
    live = LiveConfig(config, materials(config.server_tls))
    proxy = build_shared(live, Metrics(), log, worker)
    if proxy.kept_scopes is not None:
        await proxy.kept_scopes.start()
    if proxy.other_workers is not None:
        await proxy.other_workers.start(proxy.kill_targets.answer)
        assert config.state_dir is not None
        await proxy.administration.start(WorkerSockets(config.state_dir), config.workers)
    monitor = Monitor(proxy)
    idle_release = IdleRelease(live, proxy.sessions)
    idle_timeout = IdleTimeout(live, proxy.sessions, time.monotonic)
    follow_changes(proxy, monitor, idle_release, idle_timeout)
    await monitor.start()
    await proxy.server_greeting.learn(proxy.topology.primary, config, proxy.metrics)
    listener = Listener(proxy)
    signs_of_life = Liveness(proxy)
    listening = socket.create_server(("127.0.0.1", 0))
    listener.start_at(listening)
    fixture = ProxyFixture(proxy, listening.getsockname()[1], monitor, cluster)
    signs_of_life.start()
    try:
        with garbage.judged():
            yield fixture
            await monitor.stop()
            await signs_of_life.stop()
            await idle_release.stop()
            await idle_timeout.stop()
            await fixture.end()
    finally:
        listener.stop()
        await monitor.stop()
        await signs_of_life.stop()
        await drain(proxy)
        if proxy.other_workers is not None:
            proxy.other_workers.stop()
            proxy.administration.stop()
        if proxy.kept_scopes is not None:
            await proxy.kept_scopes.stop()


@asynccontextmanager
async def proxy_fixture(
    replicas: int = 1, apply_delay: float = 0.0, **options: Any
) -> AsyncIterator[ProxyFixture]:
    """A proxy before the mocker."""
    async with (
        Cluster(replicas, apply_delay, accounts=ACCOUNTS, schemas=("test", "second")) as cluster,
        before(
            cluster.primary.address,
            [replica.address for replica in cluster.replicas],
            cluster,
            **options,
        ) as running,
    ):
        yield running


def _address(text: str) -> Address:
    return Address.parse(text, default_host="127.0.0.1", default_port=3306)

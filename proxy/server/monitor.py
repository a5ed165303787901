"""Watches the servers with an account of its own: who is up, who is the primary, who has what."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from protocol.constants import Capability
from protocol.errors import ProtocolError
from protocol.gtid import EMPTY
from proxy import tasks
from proxy.channel import ChannelClosedError
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from proxy.server.filters import RIGHTS, left_out_by_applier, left_out_of_binary_log
from proxy.server.login import Login, open_connection
from proxy.server.query import identify
from routing.failover import new_primary

if TYPE_CHECKING:
    from proxy.proxy import Proxy
    from proxy.server.login import Opened
    from routing.topology import Server

_log = logging.getLogger(__name__)


class Monitor:
    """One task per server; nothing at all without a monitor-user.

    A replica's lag is the age of the oldest observation of the primary that the replica does not
    contain: it needs no privilege and no agreement of clocks, and is as fine as the interval.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._login = Login(
            username=proxy.config.monitor_user or "",
            password=proxy.config.monitor_password,
            capabilities=Capability.CLIENT_DEPRECATE_EOF,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._opened: dict[Server, Opened] = {}
        self._blind: set[Server] = set()  # may not be asked for filters, and that was said

    def start(self) -> None:
        """Begin to watch."""
        if self._proxy.config.monitor_user is None:
            return
        for server in self._proxy.topology.servers:
            self._tasks.append(tasks.start(self._watch(server), f"monitor {server.name}"))

    async def stop(self) -> None:
        """Watch no more."""
        await tasks.stop(*self._tasks)
        for server in list(self._opened):
            self._drop(server)

    def _drop(self, server: Server) -> None:
        opened = self._opened.pop(server, None)
        if opened is not None:
            opened.channel.abort()

    async def _watch(self, server: Server) -> None:
        config = self._proxy.config
        up: bool | None = None
        while True:
            try:
                async with asyncio.timeout(config.connect_timeout):
                    await self._look(server)
                cause = ""
            except (ServerUnreachableError, ServerRefusedError) as error:
                cause = str(error)
            except (TimeoutError, ChannelClosedError, ProtocolError) as error:
                cause = str(error) or "no answer in time"
            if cause:
                self._drop(server)
            if up is not (not cause):
                up = not cause
                if cause:
                    _log.warning("server %s is down: %s", server.name, cause)
                else:
                    _log.info("server %s is up (%s)", server.name, server.version)
            self._proxy.metrics.server_up(server.name, not cause)
            if cause:
                server.unreachable(self._proxy.now())
                server.lag = None
                self._proxy.metrics.lag(server.name, None)
            else:
                server.reached()
            if config.failover == "read_only":
                self._follow_primary()
            await asyncio.sleep(config.monitor_interval)

    async def _look(self, server: Server) -> None:
        proxy = self._proxy
        config = proxy.config
        asked_at = proxy.now()
        had = proxy.topology.applied_by_replicas()
        opened = self._opened.get(server)
        if opened is None:
            opened = await open_connection(server, self._login, config, proxy.materials, "OFF")
            self._opened[server] = opened
            identity = opened.identity
            await self._ask_binary_log(server, opened)
        else:
            identity = await identify(opened.channel, opened.connection, server)
        proxy.ledger.identified(server, identity)
        await self._ask_applier(server, opened)
        self._judge_filters()
        now = proxy.now()
        if server is proxy.topology.primary:
            if proxy.terms.has_begun():
                proxy.terms.judge(had, identity)
            else:
                await proxy.terms.begin(opened, self._login)
            if not server.gtids:
                proxy.stopped_naming(server)
            proxy.topology.observations.add(asked_at, identity.executed)
        else:
            server.lag = proxy.topology.observations.age(identity.executed, now)
            proxy.metrics.lag(server.name, server.lag)
        proxy.metrics.scopes(len(proxy.scopes), proxy.scopes.evicted)

    async def _ask_binary_log(self, server: Server, opened: Opened) -> None:
        filters = server.filters
        before = filters.binary_log
        try:
            filters.binary_log = await left_out_of_binary_log(opened.channel, opened.connection)
        except ServerRefusedError as error:
            filters.binary_log = None
            self._cannot_see(server, error)
        if filters.binary_log and filters.binary_log != before:
            _log.warning("server %s does not log everything: %s", server.name, filters.binary_log)

    async def _ask_applier(self, server: Server, opened: Opened) -> None:
        try:
            applier = await left_out_by_applier(opened.channel, opened.connection)
        except ServerRefusedError as error:
            server.filters.applier = None
            self._cannot_see(server, error)
        else:
            server.filters.applier = applier

    def _cannot_see(self, server: Server, error: ServerRefusedError) -> None:
        if server not in self._blind:
            self._blind.add(server)
            _log.warning(
                "the monitor may not see what replication leaves out at %s (%s), so a replica with"
                " filters would be read; %s TO %s",
                server.name,
                error,
                RIGHTS,
                self._login.username,
            )

    def _judge_filters(self) -> None:
        topology = self._proxy.topology
        primary = topology.primary
        for replica in topology.replicas:
            filters = replica.filters
            cause = filters.judge(primary.filters)
            self._proxy.metrics.filtered(replica.name, filters.lacking)
            if cause:
                _log.error(
                    "replica %s lacks writes whose GTIDs it has, since replication leaves them out"
                    " (%s); guarded reads %s",
                    replica.name,
                    cause,
                    "go there all the same (filtered-replicas = allow)"
                    if filters.allowed
                    else "do not go there until it is made anew (filtered-replicas = refuse)",
                )
        self._proxy.metrics.filtered(primary.name, lacking=False)

    def _follow_primary(self) -> None:
        """Route to a replica that has taken over."""
        proxy = self._proxy
        server = new_primary(proxy.topology, proxy.now())
        if server is not None:
            _log.warning(
                "server %s is the primary now, %s was", server.name, proxy.topology.primary.name
            )
            proxy.promote(server)
            for server in proxy.topology.servers:
                server.errant = EMPTY
                proxy.metrics.errant_gtids(server.name, 0)

"""Watches the servers with an account of its own: reachability, incarnation, applied sets, lag."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from protocol.errors import ProtocolError
from proxy import tasks
from proxy.channel import ChannelClosedError
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from proxy.server.login import Login, open_connection
from proxy.server.query import identify
from routing.topology import Role

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from proxy.proxy import Proxy
    from proxy.server.login import Opened
    from routing.topology import Server

_log = logging.getLogger(__name__)

_HISTORY: Final = 3600
"""Observations of the primary that are kept to tell how far a replica is behind."""


class Monitor:
    """One task per server; nothing at all without a monitor-user.

    A replica's lag is the age of the oldest observation of the primary that the replica does not
    contain: it needs no privilege and no agreement of clocks, and is as fine as the interval.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._tasks: list[asyncio.Task[None]] = []
        self._history: deque[tuple[float, GtidSet]] = deque(maxlen=_HISTORY)

    def start(self) -> None:
        """Begin to watch."""
        if self._proxy.config.monitor_user is None:
            return
        for server in self._proxy.topology.servers:
            self._tasks.append(tasks.start(self._watch(server), f"monitor {server.name}"))

    async def stop(self) -> None:
        """Watch no more."""
        await tasks.stop(*self._tasks)

    async def _watch(self, server: Server) -> None:
        config = self._proxy.config
        opened: Opened | None = None
        up: bool | None = None
        while True:
            try:
                async with asyncio.timeout(config.connect_timeout):
                    opened = await self._look(server, opened)
                cause = ""
            except (ServerUnreachableError, ServerRefusedError) as error:
                cause = str(error)
            except (TimeoutError, ChannelClosedError, ProtocolError) as error:
                cause = str(error) or "no answer in time"
            if cause and opened is not None:
                opened.channel.abort()
                opened = None
            if up is not (not cause):
                up = not cause
                if cause:
                    _log.warning("server %s is down: %s", server.name, cause)
                else:
                    _log.info("server %s is up (%s)", server.name, server.version)
            self._proxy.metrics.server_up(server.name, not cause)
            if cause:
                server.unreachable(self._proxy.now())
                self._proxy.metrics.lag(server.name, None)
            else:
                server.reached()
            await asyncio.sleep(config.monitor_interval)

    async def _look(self, server: Server, opened: Opened | None) -> Opened:
        proxy = self._proxy
        config = proxy.config
        if opened is None:
            login = Login(
                username=config.monitor_user or "",
                password=config.monitor_password,
                capabilities=Capability.CLIENT_DEPRECATE_EOF,
            )
            opened = await open_connection(server, login, config, proxy.materials, "OFF")
            identity = opened.identity
        else:
            identity = await identify(opened.channel, opened.connection, server)
        if identity.grew:
            proxy.ledger.proved(
                server, "probed", identity.executed, identity.asked_us, identity.answered_us
            )
        now = proxy.now()
        if server.role is Role.PRIMARY:
            self._history.append((now, identity.executed))
        else:
            proxy.metrics.lag(server.name, self._lag(identity.executed, now))
        return opened

    def _lag(self, applied: GtidSet, now: float) -> float | None:
        """Seconds that a replica with this applied set is behind; None before the primary spoke."""
        if not self._history:
            return None
        missing: float | None = None
        for observed, executed in reversed(self._history):
            if executed <= applied:
                break
            missing = observed
        return 0.0 if missing is None else now - missing

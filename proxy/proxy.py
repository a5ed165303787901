"""One worker: everything its sessions share, from its start to its stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import time
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from proxy import tasks
from proxy.client.habits import Habits
from proxy.client.known_passwords import KnownPasswords
from proxy.client.listener import Listener
from proxy.client.refusals import Refusals
from proxy.client.views import Catalogues
from proxy.observe.ledger import Ledger
from proxy.server.errors import ServerUnreachableError
from proxy.server.greeting import greet
from proxy.server.logins import Logins
from proxy.server.monitor import Monitor
from proxy.server.pool import Pool
from proxy.server.probe import Probes
from proxy.server.signs_of_life import SignsOfLife
from proxy.server.terms import Terms
from proxy.state.kept_scopes import KeptScopes
from routing.consistency.scope import Scopes
from routing.servers.topology import Topology
from routing.servers.waits import Waits
from routing.sql.classifier import Classifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.client.session import ClientSession
    from proxy.config import Config
    from proxy.observe.metrics import Metrics
    from proxy.observe.routing_log import RoutingLog
    from proxy.tls import Materials
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_DRAIN_S: Final = 5.0
"""How long a stop waits for statements that run."""
_DRAIN_TELLS_S: Final = 1.0
"""How often it says for how many."""
_DRAIN_NAMES: Final = 10
"""Clients that it names, of those that it cuts off."""

_GC_THRESHOLDS: Final = (20_000, 20, 50)

_FIRST_SESSION_ID: Final = 0x4000_0000
"""Above what servers give out, so that KILL of a proxy's id never means somebody else's thread."""

_ASSUMED_VERSION: Final = "8.4.0"
"""Told to clients while the primary was never reached; they cannot log in then anyway."""


class Proxy:
    """What the sessions of one worker share.

    Attributes:
        config: the configuration.
        worker: its number, from 0.
        materials: keys and TLS contexts.
        topology: the servers.
        scopes: the scopes wider than a connection that are alive.
        kept_scopes: keeps them for the next start; None if nobody does.
        terms: begins those of primaries.
        probes: the questions to the primary that reads share.
        pool: connections to servers that no session has.
        logins: those of sessions at servers.
        habits: what clients of a host negotiate.
        waits: the WAITs in flight, which reads may share.
        audit_credit: grows by the share of audited reads with each; at 1 one is audited.
        known_passwords: of users who have logged in.
        classifier: statements that were seen.
        catalogues: which views are plain.
        metrics: counts.
        ledger: enters statements into metrics and log.
        sessions: by the connection id that the client was given.
        refusals: clients that were turned away.
        accepting: clients that are logging in, at whatever listener.
        server_version: what clients are greeted with: the primary's.
        server_capabilities: what the primary can do; clients are not offered more.
    """

    def __init__(
        self,
        config: Config,
        materials: Materials,
        metrics: Metrics,
        routing_log: RoutingLog | None,
        worker: int,
    ) -> None:
        self.config = config
        self.worker = worker
        self.materials = materials
        self.metrics = metrics
        self.ledger = Ledger(metrics, routing_log, config.proxy_name)
        self.topology = Topology(
            str(config.primary),
            [str(replica) for replica in config.replicas],
            config.primary_fallback_rate,
            config.proof_max_age,
            allows_filters=config.filtered_replicas == "allow",
            for_primary=config.for_primary,
        )
        self.scopes = Scopes(config.scope_limit, config.scope_age)
        self.kept_scopes: KeptScopes | None = None
        if config.state_dir is not None and config.workers == 1:
            self.kept_scopes = KeptScopes(
                *(config.state_dir, self.scopes, self.topology, config.scope_limit, metrics),
                asyncio.get_running_loop().time,
            )
        self.terms = Terms(self)
        self.probes = Probes(self)
        self.waits: Waits = Waits()
        self.pool = Pool(config, metrics, asyncio.get_running_loop())
        self.logins = Logins(config, materials, metrics, self.pool)
        self.habits = Habits()
        self.audit_credit = 0.0
        self.known_passwords = KnownPasswords()
        self.classifier: Classifier = Classifier()
        self.catalogues: Catalogues = Catalogues(self)
        self.sessions: dict[int, ClientSession] = {}
        self.accepting = 0
        self.refusals = Refusals(metrics, asyncio.get_running_loop().time)
        self.server_version = _ASSUMED_VERSION
        self.server_capabilities: Capability = ~Capability(0)
        self.tasks = tasks
        loop = asyncio.get_running_loop()
        self.now: Callable[[], float] = loop.time
        self.call_later: Callable[..., asyncio.TimerHandle] = loop.call_later
        self._session_base = _FIRST_SESSION_ID + worker * 0x0100_0000
        self._session_count = secrets.randbelow(0x0001_0000)

    def session_of(self, connection_id: int) -> ClientSession | None:
        """The session that a client knows by this connection id, or None."""
        for session in self.sessions.values():
            if session.connection_id == connection_id:
                return session
        return None

    def next_session_id(self) -> int:
        """An id that no live session of this worker has."""
        while True:
            self._session_count = (self._session_count + 1) & 0x00FF_FFFF
            session_id = self._session_base + self._session_count
            if session_id not in self.sessions:
                return session_id

    def add(self, session: ClientSession) -> None:
        """Serve a session."""
        self.sessions[session.session_id] = session
        self.metrics.client_connected()

    def forget(self, session: ClientSession) -> None:
        """A session has ended."""
        if self.sessions.pop(session.session_id, None) is not None:
            self.metrics.client_disconnected()

    async def meet_primary(self) -> None:
        """Learn the primary's version and capabilities, so that clients see what it can do."""
        primary = self.topology.primary
        try:
            greeting = await greet(primary, self.config)
        except ServerUnreachableError as error:
            self.metrics.server_up(primary.name, False)
            _log.warning("the primary %s cannot be reached yet: %s", primary.name, error)
            return
        self.server_version = primary.version = greeting.server_version
        self.server_capabilities = greeting.capabilities

    def promote(self, server: Server) -> None:
        """Another server is the primary: sessions, which lived on the old one, have to end."""
        self.pool.drop_all(self.topology.primary, "changed")
        self.pool.drop_all(server, "changed")
        self.topology.promote(server)
        self.metrics.promoted()
        for session in list(self.sessions.values()):
            session.leave_primary()

    def stopped_naming(self, primary: Server) -> None:
        """The primary gives no GTIDs: what was written and not named may have no name at all."""
        primary.gtids = False
        for state in [session.state for session in self.sessions.values()]:
            if state.own_scope.unknown and not state.own_scope.unlogged:
                state.wrote_unlogged()
                self.metrics.wrote_unlogged()
        self.scopes.doubt_logging()

    async def drain(self) -> None:
        """End all sessions: idle ones at once, the others after their statement or a while."""
        self.refusals.flush()
        self.pool.close()
        now = told = time.monotonic()
        deadline = now + _DRAIN_S
        _log.info("stopping: %d sessions are open", len(self.sessions))
        while True:
            for session in list(self.sessions.values()):
                session.shut_down()
            if not self.sessions or now >= deadline:
                break
            await asyncio.sleep(0.02)
            now = time.monotonic()
            if now - told >= _DRAIN_TELLS_S:
                told = now
                _log.info("stopping: the statements of %d sessions still run", len(self.sessions))
        left = list(self.sessions.values())
        if left:
            _log.warning(
                "stopping: %d sessions are cut off, whose statements still ran after %g s: %s",
                *(len(left), _DRAIN_S),
                ", ".join(session.connection.peer for session in left[:_DRAIN_NAMES])
                + (", …" if len(left) > _DRAIN_NAMES else ""),
            )
        for session in left:
            session.connection.abort()


async def serve(
    config: Config,
    materials: Materials,
    metrics: Metrics,
    routing_log: RoutingLog | None,
    worker: int,
    stop: asyncio.Event,
    ready: Callable[[int], None],
) -> None:
    """Serve clients until `stop` is set.

    Args:
        config: the configuration.
        worker: its number, from 0.
        materials: keys and TLS contexts.
        metrics: the worker's counts.
        routing_log: where records go, started; None for nowhere.
        worker: its number, from 0.
        stop: set it to end.
        ready: called with the port of `listen` once clients can connect.

    Raises:
        OSError: an address cannot be listened on.
    """
    proxy = Proxy(config, materials, metrics, routing_log, worker)
    if proxy.kept_scopes is not None:
        await proxy.kept_scopes.start()  # before anybody writes
    monitor = Monitor(proxy)
    await monitor.start()
    await proxy.meet_primary()
    listeners = [Listener(proxy, address) for address in config.addresses]
    signs_of_life = SignsOfLife(proxy)
    ports = [await listener.start(reuse_port=config.workers > 1) for listener in listeners]
    # What the start made stays for good, and neither statements nor sessions leave cycles behind:
    # let the collector look at what is new, and seldom.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    signs_of_life.start()
    ready(ports[0])
    where = ", ".join(str(port) for port in ports)
    _log.info("worker %d (pid %d) listens on port %s", worker, os.getpid(), where)
    try:
        await stop.wait()
    finally:
        for listener in listeners:
            listener.stop()
        await monitor.stop()
        await signs_of_life.stop()
        await proxy.drain()
        if proxy.kept_scopes is not None:
            await proxy.kept_scopes.stop()

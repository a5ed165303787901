"""Servers that come and go while the proxy runs.

Theory of operation
===================

Servers of the configuration come and go when it is read anew (`Membership.configure`).

Whoever finds out which servers there are (a discovery, the members of a group) calls
`Membership.apply` with all of them, each time it has looked. Servers that were not there are
watched from then on, and others are let go; each is logged once. Servers of the configuration are
never let go. The primary is not, either, until another server has become it: then the next call
lets it go.

A server that comes *stands by* (`Topology.standby`): it is watched, and sent no statement of a
client's, until the monitor's look at it was answered, and the primary was asked what it has of this
server's transactions, so that one with transactions of its own is found before anybody reads there
(`Topology.compare`). Then it is one of `Topology.replicas`. A server that is there and must not be
used, such as a member of a group that recovers, stands by as well (`Found.fit`).

A replica that is let go, or has to stand by, gets no further statement: it is not among the
replicas, and its epoch has ended, so decisions that sessions remember do not stand, and connections
there are not used again. Kept ones are closed. A session's is closed once it is idle; so a read
under way ends normally, and a cursor gives its rows. A transaction that has its snapshot on a
replica that the configuration names no more ends there, too (`Server.last_epoch`); from one that is
gone, or not fit to be used, it is not read any further.

Each worker finds out for itself: nothing that workers share depends on the number or order of the
replicas.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from routing.servers.topology import ProbeResult

if TYPE_CHECKING:
    from collections.abc import Collection

    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.5
"""How often sessions are asked for connections to servers that are used no more."""


class Found(NamedTuple):
    """A server that should be there.

    Attributes:
        address: ``host:port``, as it is to be called and connected to.
        source: who names it, for the log, such as ``SHOW REPLICAS of primary:3306``.
        uuid: its `@@server_uuid`, where the source knows it: a server of the configuration with
            that UUID is the same one by another name. Else empty.
        fit: whether it may be sent statements.
        why: why it may not, for the log.
    """

    address: str
    source: str
    uuid: str = ""
    fit: bool = True
    why: str = ""


class Watch(Protocol):
    """Looks at servers, again and again."""

    def watch(self, server: Server) -> None:
        """Begin to look at a server."""

    def unwatch(self, server: Server) -> None:
        """Look at it no more, and forget what was found."""


class Membership:
    """Which servers there are, for one worker.

    Attributes:
        configured: those that are named in the configuration.
        unwanted: those that nothing names any more, and that are still the primary.
    """

    def __init__(self, shared: Shared, watch: Watch) -> None:
        """Begin with the servers of the configuration, which `watch` looks at already."""
        self._shared = shared
        self._watch = watch
        self.configured = frozenset(shared.topology.watched)
        self.unwanted: frozenset[Server] = frozenset()
        self._unfit: set[Server] = set()
        self._leaving: set[Server] = set()  # sessions may still have connections there
        self._lets_go = False

    def configure(self) -> None:
        """Let the servers of the present configuration be there.

        Those that it names no more are let go: by the next `apply`, if there is anybody who finds
        out which servers there are, and else at once. The primary is let go once it is a replica.
        """
        shared = self._shared
        config, topology = shared.config, shared.topology
        names = {str(address) for address in (config.primary, *config.replicas)}
        for name in sorted(names - {server.name for server in topology.watched}):
            server = self._come(Found(name, "the configuration"))
            if config.monitor_user is None:
                self.use(server)  # nobody looks at it before: it is used as at a start
        before = self.configured
        self.configured = frozenset(server for server in topology.watched if server.name in names)
        if config.topology == "static":
            self.unwanted = (self.unwanted | before) - self.configured
            self._let_unwanted_go()
            for server in self.unwanted:
                _log.warning(
                    "server %s stays until another one is the primary, though the configuration"
                    " does not name it any more",
                    server.name,
                )

    def _let_unwanted_go(self) -> None:
        for server in self.unwanted:
            if server is not self._shared.topology.primary:
                self.unwanted -= {server}
                server.last_epoch = server.epoch
                self._go(server)

    def apply(self, found: Collection[Found]) -> None:
        """Let these servers be there, and those of the configuration, and no others.

        Servers of the configuration that are not named are taken to be fit.
        """
        topology = self._shared.topology
        wanted: set[Server] = set(self.configured)
        unfit: dict[Server, str] = {}
        for entry in found:
            server = self._known(entry)
            if server is None:
                server = self._come(entry)
            wanted.add(server)
            if not entry.fit:
                unfit[server] = entry.why
        self._unfit = set(unfit)
        for server in topology.watched:
            if server is topology.primary:
                continue
            if server not in wanted:
                self._go(server)
            elif server in unfit and server in topology.replicas:
                self._leave(server)
                _log.warning("server %s serves no reads for now: %s", server.name, unfit[server])
        self.admit()

    def admit(self) -> None:
        """Use the servers that stood by and may be used now; to be called after each look."""
        topology = self._shared.topology
        if self.unwanted:
            self._let_unwanted_go()
        for server in topology.standby:
            if (
                server.compared
                and server.probe_result is ProbeResult.ANSWERED
                and server not in self._unfit
                and not any(server.uuid == other.uuid for other in topology.servers)
            ):
                self.use(server)
                _log.info("server %s serves reads from now on", server.name)

    def use(self, server: Server) -> None:
        """Let a server that stands by be one of the replicas."""
        topology = self._shared.topology
        topology.add_replica(server)
        self._leaving.discard(server)
        self._shared.sessions.on_replica_added(topology)

    def _known(self, entry: Found) -> Server | None:
        """The server that was found, if it is there already, perhaps by another name."""
        if entry.uuid:
            for server in self.configured:
                if server.uuid == entry.uuid:
                    return server
        servers = self._shared.topology.watched
        return next((server for server in servers if server.name == entry.address), None)

    def _come(self, entry: Found) -> Server:
        server = self._shared.topology.meet(entry.address)
        self._shared.metrics.server_came(server.name)
        self._shared.metrics.server_known(server.name, server.role)
        _log.info("server %s has come: %s names it", server.name, entry.source)
        self._watch.watch(server)
        return server

    def _go(self, server: Server) -> None:
        shared = self._shared
        if server in shared.topology.replicas:
            self._leave(server)
        shared.topology.forget(server)
        self._watch.unwatch(server)
        shared.ledger.forget(server)
        shared.slots.forget(server)
        shared.primary_epoch.forget(server)
        shared.metrics.server_went(server.name)
        _log.warning("server %s has gone: nothing names it any more", server.name)

    def _leave(self, server: Server) -> None:
        """A replica is to be sent nothing more."""
        shared = self._shared
        index = shared.topology.remove_replica(server)
        shared.sessions.on_replica_removed(index, shared.topology)
        shared.pool.forget(server)
        self._leaving.add(server)
        self._let_go()

    def _let_go(self) -> None:
        """Close the sessions' connections that are idle, and come back for the others."""
        shared = self._shared
        for server in list(self._leaving):
            answers = [session.leave_replica(server) for session in shared.sessions]
            if all(answers):
                self._leaving.discard(server)
        if self._leaving and not self._lets_go:
            self._lets_go = True
            shared.call_later(_AGAIN_S, self._let_go_again)

    def _let_go_again(self) -> None:
        self._lets_go = False
        self._let_go()

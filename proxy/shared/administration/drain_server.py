"""Takes a replica out of use in one worker, and lets it be used again.

A server that is drained is still watched: it may become the primary, and its lag is known when it
is used again. It gets no new read. A statement under way ends there, and so does a transaction that
has its snapshot there. Connections of sessions are closed once they are idle, kept ones at once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from routing.servers.topology import Role

if TYPE_CHECKING:
    from proxy.server.pool import Pool
    from proxy.shared.administration.drained_servers import DrainedServers
    from proxy.shared.sessions import Member, Sessions
    from proxy.tasks import CallLater
    from routing.servers.topology import Server, Topology

_log = logging.getLogger(__name__)

_AGAIN_S: Final = 0.5
"""How often sessions are asked for connections to servers that are drained."""


class ServerDrain:
    """What one worker does for the names in `DrainedServers`."""

    def __init__(
        self,
        drained: DrainedServers,
        topology: Topology,
        sessions: Sessions,
        pool: Pool,
        call_later: CallLater,
    ) -> None:
        self._drained = drained
        self._topology = topology
        self._sessions = sessions
        self._pool = pool
        self._call_later = call_later
        self._looks_again = False
        self.apply()

    def find(self, name: str) -> Server | None:
        """The server that an operator names, ``host:port``, or ``host`` for the usual port."""
        names = (name, f"{name}:3306")
        return next((server for server in self._topology.watched if server.name in names), None)

    def refresh(self) -> None:
        """Follow the file, and servers that have come or changed their role."""
        self._drained.refresh()
        self.apply()

    def apply(self) -> None:
        """Let exactly the servers whose names are there be drained."""
        for server in self._topology.watched:
            draining = server.name in self._drained.names and server.role is not Role.PRIMARY
            if draining is server.draining:
                continue
            server.set_draining(draining)
            if draining:
                _log.warning(
                    "replica %s is drained: it gets no reads until TIDEGATE UNDRAIN SERVER '%s'",
                    server.name,
                    server.name,
                )
            else:
                _log.info("server %s is no longer drained", server.name)
        self._let_go()

    def refusal(self, name: str, *, drain: bool) -> str:
        """Why a server cannot be drained, or undrained; empty if it can."""
        server = self.find(name)
        if server is None:
            if not drain and name in self._drained.names:
                return ""  # it is gone, and need not be remembered
            known = ", ".join(known.name for known in self._topology.watched)
            return f"there is no server {name[:100]}; there are {known}"
        if drain and server.role is Role.PRIMARY:
            return (
                f"{server.name} is the primary, which serves the writes; make another server the"
                " primary first, then drain this one"
            )
        return ""

    def change(self, name: str, *, drain: bool) -> str:
        """Drain a server, or undrain it, for all workers; return a note, if there is one.

        Raises:
            OSError: that cannot be written down, and nothing has changed.
        """
        server = self.find(name)
        self._drained.change(name if server is None else server.name, drained=drain)
        self.apply()
        if drain and all(replica.draining for replica in self._topology.replicas):
            return "it was the last replica in use: all reads go to the primary"
        return ""

    def _let_go(self) -> None:
        """Close connections that are idle, and come back for the others."""
        left = False
        for server in self._topology.watched:
            if server.draining:
                self._pool.drop_all(server, "changed")
                for session in self._sessions:
                    if _needs(session, server) or not session.leave_replica(server):
                        left = True
        if left and not self._looks_again:
            self._looks_again = True
            self._call_later(_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._looks_again = False
        self._let_go()


def _needs(session: Member, server: Server) -> bool:
    """Whether a transaction of the session has its snapshot there."""
    snapshot = session.state.transaction.snapshot
    return snapshot is not None and snapshot.server is server

"""Begins the terms of primaries: a term is a primary and its incarnation.

Theory of operation
===================

A primary that comes back without its last transactions gives their GTIDs to others. From then on no
set shows that a replica has another transaction under a GTID, or that what a scope must see is
gone. So nothing of a new incarnation is used before it was compared: the first login under it waits
until the replicas were asked what they have, and then the primary. What a replica had before the
primary was asked, and the primary neither has nor is committing, is errant; if the GTID is under
the primary's own UUID, that replica has diverged (`Topology.compare`). Acknowledged writes that the
primary lacks are lost (`ScopeState.compare_with_primary`).

Other logins wait for the first one's comparison. Clients that do not come through this worker are
not held up: what they write before it asks may hide a loss.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from protocol.gtid import EMPTY

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from proxy.observe.ledger import Ledger
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.shared.executed_gtids import ExecutedGtids
    from proxy.shared.sessions import Sessions
    from proxy.state.kept_scopes import KeptScopes
    from routing.consistency.sharing import Sharing
    from routing.servers.topology import Held, Server, Topology

_log = logging.getLogger(__name__)


class PrimaryEpoch:
    """The terms of one worker, one after the other."""

    def __init__(
        self,
        topology: Topology,
        sessions: Sessions,
        executed_gtids: ExecutedGtids,
        sharing: Sharing | None,
        kept_scopes: KeptScopes | None,
        ledger: Ledger,
        metrics: Metrics,
    ) -> None:
        """Those of what `proxy.shared.shared` tells of; `executed_gtids` asks the servers."""
        self._topology = topology
        self._sessions = sessions
        self._executed_gtids = executed_gtids
        self._sharing = sharing
        self._kept_scopes = kept_scopes
        self._ledger = ledger
        self._metrics = metrics
        self._begun: int | None = None  # the term in which all was compared
        self._comparing = asyncio.Lock()
        self._diverged: set[Server] = set()  # as the log says

    def share(self, sharing: Sharing | None) -> None:
        """Scopes are shared from now on, or no more."""
        self._sharing = sharing
        if sharing is not None and self.has_begun():
            sharing.on_compared(self._topology.primary)

    def forget(self, server: Server) -> None:
        """A server is there no more."""
        self._diverged.discard(server)

    async def begin(self, connection: ServerConnection, login: Login) -> None:
        """Return when the present term has begun; the first caller does the comparison.

        Args:
            connection: a connection to the primary that awaits nothing.
            login: as whom the replicas are asked.

        Raises:
            ServerUnreachableError, ServerRefusedError: the primary does not answer, or says no; the
                connection is closed.
        """
        topology = self._topology
        if self.has_begun():
            return
        try:
            async with self._comparing:
                # The term may end meanwhile; this connection says nothing about another primary.
                while not self.has_begun() and connection.server is topology.primary:
                    await self._compare(connection, login)
        except BaseException:
            connection.abort()
            raise

    def has_begun(self) -> bool:
        """Whether the present term has."""
        return self._begun == self._topology.term

    async def _compare(self, connection: ServerConnection, login: Login) -> None:
        topology = self._topology
        term = topology.term
        self._sessions.leave_primary()  # their answers are of an earlier term
        held = topology.held_by_replicas(await self._executed_gtids.of_replicas(topology, login))
        scopes = self._sessions.scopes()
        before = [(scope, scope.everything, scope.doubted) for scope in scopes]
        sharing = self._sharing
        contributions = [] if sharing is None else sharing.required()
        must_have = [required for _, required, _ in before] + [
            required for _, required in contributions
        ]
        if any(entry.gtids for entry in held) or any(must_have):
            identity = await self._executed_gtids.of_primary(connection)
            if topology.term != term:
                return
            has = identity.executed | topology.committed(identity.owned)
            self.judge(held, identity.executed | identity.owned)
            reported = EMPTY
            for scope, required, doubted in before:
                if scope.term != term:
                    lost = scope.compare_with_primary(has, required, term, doubted)
                    if lost:
                        reported |= lost
                        self._ledger.record_loss(scope, lost)
            for contribution, required in contributions:
                lost = contribution.compare_with_primary(has, required) - reported
                if lost:  # lost in a scope that only other workers have
                    reported |= lost
                    self._ledger.record_loss(contribution.state, lost)
        if sharing is not None:
            sharing.on_compared(topology.primary)
        topology.observations.clear()  # what is lost is in none of those that follow
        self._begun = term

    def on_reset(self, server: Server) -> None:
        """A server has done RESET BINARY LOGS AND GTIDS for a client; is it the primary still?

        From its next transaction on it gives the same GTIDs again. Its sessions go on, so that does
        not wait for a login: nothing of what replicas have is the primary's now.
        """
        topology = self._topology
        if server is topology.primary and server.gtids:
            server.distrust(server.epoch)
            self.judge(topology.held_by_replicas([]), EMPTY)

    def judge(self, held: list[Held], has: GtidSet) -> None:
        """Compare what replicas had before the primary was asked with what it has, or commits."""
        watched = self._topology.watched
        held = [entry for entry in held if entry.replica in watched]
        known = {entry.replica: entry.replica.errant for entry in held}
        self._topology.compare(held, has)
        if self._kept_scopes is not None:
            self._kept_scopes.on_compared()
        for replica, errant in known.items():
            self._metrics.errant_gtids(replica.name, replica.errant.count())
            if replica.errant and replica.errant != errant:
                _log.error(
                    "replica %s has transactions that the primary has not: %s",
                    replica.name,
                    replica.errant.text,
                )
            if replica.has_diverged and replica not in self._diverged:
                self._diverged.add(replica)
                _log.error(
                    "replica %s has other transactions than the primary under names that the"
                    " primary gives (it lost its own); no guarded read goes there until it is made"
                    " anew",
                    replica.name,
                )
            elif not replica.has_diverged and replica in self._diverged:
                self._diverged.remove(replica)
                _log.warning(
                    "replica %s has none of its own transactions any more under names that the"
                    " primary gives; it is read again",
                    replica.name,
                )

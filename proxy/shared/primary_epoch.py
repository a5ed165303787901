"""Begins the terms of primaries: a term is a primary and its incarnation.

Theory of operation
===================

A primary that comes back without its last transactions gives their GTIDs to others. From then on no
set shows that a replica has another transaction under a GTID, or that what a scope must see is
gone. So nothing of a new incarnation is used before it was compared: the first login under it waits
until the replicas were asked what they have, and then the primary. What a replica had before the
primary was asked, and the primary neither has nor is committing, is errant; if the GTID is under
the primary's own UUID, that replica has diverged (`Topology.compare`). Acknowledged writes that the
primary lacks are lost (`ScopeState.verified`).

Other logins wait for the first one's comparison. Clients that do not come through this worker are
not held up: what they write before it asks may hide a loss.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from protocol.errors import ProtocolError
from protocol.gtid import EMPTY
from proxy.channel import ChannelClosedError
from proxy.server.connect.opening import open_connection
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from proxy.server.query import identify

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.gtid import GtidSet
    from proxy.config import Config
    from proxy.observe.ledger import Ledger
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.identity import Identity
    from proxy.server.login import Login
    from proxy.shared.sessions import Sessions
    from proxy.state.kept_scopes import KeptScopes
    from proxy.tls.materials import Materials
    from routing.consistency.scope import Scopes
    from routing.consistency.sharing import Sharing
    from routing.servers.topology import Held, Server, Topology

_log = logging.getLogger(__name__)

_REPLICA_S: Final = 1.0
"""How long a replica may take to say what it has; after that the set it is known to have is
used."""


class PrimaryEpoch:
    """The terms of one worker, one after the other."""

    def __init__(
        self,
        config: Config,
        materials: Materials,
        topology: Topology,
        sessions: Sessions,
        scopes: Scopes,
        kept_scopes: KeptScopes | None,
        sharing: Sharing | None,
        ledger: Ledger,
        metrics: Metrics,
        now: Callable[[], float],
    ) -> None:
        """Those of what `proxy.shared.shared` tells of; `now` is monotonic, s."""
        self._config = config
        self._materials = materials
        self._topology = topology
        self._sessions = sessions
        self._scopes = scopes
        self._kept_scopes = kept_scopes
        self._sharing = sharing
        self._ledger = ledger
        self._metrics = metrics
        self._now = now
        self._begun: int | None = None  # the term in which all was compared
        self._comparing = asyncio.Lock()
        self._diverged: set[Server] = set()  # as the log says

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
        replicas = [replica for replica in topology.replicas if self._now() >= replica.down_until]
        applying = await asyncio.gather(*(self._ask(replica, login) for replica in replicas))
        about_to_have = dict(zip(replicas, applying, strict=True))
        held = [
            one._replace(gtids=one.gtids | about_to_have.get(one.replica, EMPTY))
            for one in topology.held_by_replicas()
        ]
        scopes = self._scopes.states()
        scopes += [session.state.own_scope for session in self._sessions]
        asked = [(scope, scope.everything, scope.doubted) for scope in scopes]
        sharing = self._sharing
        entered = [] if sharing is None else sharing.required()
        must_have = [required for _, required, _ in asked] + [required for _, required in entered]
        if any(one.gtids for one in held) or any(must_have):
            identity = await self._identify(connection)
            if topology.term != term:
                return
            has = identity.executed | identity.owned
            self.judge(held, identity)
            told = EMPTY
            for scope, required, doubted in asked:
                if scope.term != term:
                    lost = scope.verified(has, required, term, doubted)
                    if lost:
                        told |= lost
                        self._ledger.lost(scope, lost)
            for contribution, required in entered:
                lost = contribution.verified(has, required) - told
                if lost:  # lost in a scope that only other workers have
                    told |= lost
                    self._ledger.lost(contribution.state, lost)
        if sharing is not None:
            sharing.began(topology.primary)
        topology.observations.clear()  # what is lost is in none of those that follow
        self._begun = term

    async def _identify(self, connection: ServerConnection) -> Identity:
        """Ask the primary what it has."""
        limit = self._config.connect_timeout
        try:
            async with asyncio.timeout(limit):
                return await identify(connection)
        except TimeoutError as error:
            raise ServerUnreachableError(
                f"no answer within {limit:g} s (connect-timeout)"
            ) from error
        except (ChannelClosedError, ProtocolError) as error:
            raise ServerUnreachableError(str(error) or type(error).__name__) from error

    async def _ask(self, replica: Server, login: Login) -> GtidSet:
        """Learn what a replica has, with what it is about to have."""
        try:
            async with asyncio.timeout(_REPLICA_S):
                connection = await open_connection(
                    replica, replace(login, database=None), self._config, self._materials, "OFF"
                )
        except (ServerUnreachableError, ServerRefusedError, TimeoutError) as error:
            _log.info(
                "replica %s is compared by what it is known to have: %s",
                replica.name,
                error or "no answer in time",
            )
            return EMPTY
        connection.channel.close()
        return connection.identity.executed | connection.identity.owned

    def judge(self, held: list[Held], identity: Identity) -> None:
        """Compare what replicas had before the primary was asked with what it said."""
        known = {one.replica: one.replica.errant for one in held}
        self._topology.compare(held, identity.executed | identity.owned)
        if self._kept_scopes is not None:
            self._kept_scopes.judged()
        for replica, errant in known.items():
            self._metrics.errant_gtids(replica.name, replica.errant.count())
            if replica.errant and replica.errant != errant:
                _log.error(
                    "replica %s has transactions that the primary has not: %s",
                    replica.name,
                    replica.errant.text,
                )
            if replica.diverged and replica not in self._diverged:
                self._diverged.add(replica)
                _log.error(
                    "replica %s has other transactions than the primary under names that the"
                    " primary gives (it lost its own); no guarded read goes there until it is made"
                    " anew",
                    replica.name,
                )
            elif not replica.diverged and replica in self._diverged:
                self._diverged.remove(replica)
                _log.warning(
                    "replica %s has none of its own transactions any more under names that the"
                    " primary gives; it is read again",
                    replica.name,
                )

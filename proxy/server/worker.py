"""What the servers' side needs of its worker and of the sessions that it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from protocol.gtid import GtidSet
    from proxy.config import Config
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.identity import Identity
    from proxy.server.pool import Pool
    from proxy.tls import Materials
    from routing.consistency.scope import Scopes, ScopeState
    from routing.servers.lag import Look, Transaction
    from routing.servers.topology import Server, Topology
    from routing.session.session import Session as SessionState


class Session(Protocol):
    """A client's session.

    Attributes:
        state: what it must see.
    """

    state: SessionState

    @property
    def waiting_replica(self) -> ServerConnection | None:
        """The connection whose answer its client waits for, if that is a replica's."""
        ...

    @property
    def answered(self) -> bool:
        """Its client has begun to get the answer."""
        ...

    @property
    def paused(self) -> bool:
        """Its client takes no more for now."""
        ...

    def leave_primary(self) -> None:
        """Its primary is not the one any more, or not as it was."""
        ...


class Evidence(Protocol):
    """Enters what servers say outside of statements; `proxy.observe.ledger` is it."""

    def proved(
        self, server: Server, proof: str, gtids: GtidSet, asked_us: int, answered_us: int
    ) -> None:
        """What a server showed, asked and answered at so many UTC µs."""
        ...

    def measured(
        self,
        server: Server,
        look: Look,
        applied: Sequence[Transaction],
        asked_us: int,
        answered_us: int,
    ) -> None:
        """What a look told of a replica's lag."""
        ...

    def identified(self, server: Server, identity: Identity) -> None:
        """What a server said of itself."""
        ...

    def lost(self, scope: ScopeState, gtids: GtidSet) -> None:
        """Acknowledged transactions that are gone from the primary."""
        ...


class Worker(Protocol):
    """What its sessions share, as far as it concerns servers.

    Attributes:
        config: the configuration.
        worker: its number, from 0.
        materials: keys and TLS contexts.
        metrics: counts.
        topology: the servers.
        scopes: those wider than a connection.
        pool: connections to servers that no session has.
        now: the monotonic clock, s.
    """

    config: Config
    worker: int
    materials: Materials
    metrics: Metrics
    topology: Topology
    scopes: Scopes
    pool: Pool
    now: Callable[[], float]

    @property
    def ledger(self) -> Evidence:
        """What enters evidence into the log."""
        ...

    @property
    def sessions(self) -> Mapping[int, Session]:
        """By the connection id that the client was given."""
        ...

    def promote(self, server: Server) -> None:
        """Another server is the primary."""
        ...

    def stopped_naming(self, primary: Server) -> None:
        """The primary gives no GTIDs."""
        ...

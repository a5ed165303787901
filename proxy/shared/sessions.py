"""The sessions of one worker, as the rest of the worker sees them."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final, Protocol

from proxy.short_lived import ShortLived

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.response import ErrPacket
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.shared.activity import Activity
    from proxy.shared.client_limits import Admission
    from routing.consistency.scope import Scopes, ScopeState
    from routing.request.command import Command
    from routing.servers.topology import Server, Topology
    from routing.session.session import Session

_FIRST_SESSION_ID: Final = 0x4000_0000
"""Above the ids that servers give out, so that KILL of a proxy's id never ends another thread."""
_IDS: Final = 0x0100_0000
"""How many ids each worker has."""


class Member(Protocol):
    """One session."""

    @property
    def session_id(self) -> int:
        """Its id in logs; no other session of this worker has it."""

    @property
    def connection_id(self) -> int:
        """The connection id that its client was told."""

    @property
    def state(self) -> Session:
        """What routing knows of it."""

    @property
    def peer(self) -> str:
        """Its client's address, for the log."""

    @property
    def activity(self) -> Activity:
        """What it does now, for operators."""

    @property
    def keeps_waiting(self) -> ServerConnection | None:
        """The connection to a replica that its client waits for, if there is one."""

    def thread_of(self, username: str) -> int:
        """The primary's id of the session, for a KILL by this user.

        A statement of the session on a replica is ended here. 0 if there is no such id: then the
        session is about to end.
        """

    def keep_alive(self) -> None:
        """Let the primary hear of the session, if its client works without it."""

    def leave_stuck_write(self, why: str) -> None:
        """End, if the client waits for the primary to answer what may write: it will not."""

    def leave_primary(self) -> None:
        """End, if the primary has changed, or was restarted: the session was on the old one."""

    def on_primary_gone(self) -> None:
        """The primary is found not to be there: do without it, if it has no connection to it."""

    def on_primary_back(self) -> None:
        """The primary is found to be there: do without it no more."""

    def prefer_replica(self, index: int) -> None:
        """Let its reads ask the replica with this index first."""

    def leave_replica(self, server: Server) -> bool:
        """Close the connection to a server that is used no more; False while a read is under way.

        Rows that a cursor there has still to give are such a read, and so is a transaction that has
        its snapshot there, if nothing is wrong with the server (`Server.last_epoch`).
        """

    def on_config_changed(self) -> None:
        """Other options count from its next command on."""

    def shut_down(self) -> None:
        """The proxy stops: end, if no statement runs and no transaction is open."""

    @property
    def last_command(self) -> Command | None:
        """Its last command, if its client waits for nothing."""

    def end_idle(self, seconds: float) -> None:
        """End, since the client has sent nothing for so long."""

    @property
    def is_away(self) -> bool:
        """Whether it has lent its connection to the primary to others for now."""

    async def wake(self) -> ErrPacket | None:
        """Have a connection to the primary again; the error of a server that is full, or None."""

    def rest(self) -> None:
        """Give the connections back, if no command came since the last call."""

    def cut_off(self) -> None:
        """End at once, whatever the client does."""


class Sessions:
    """The open sessions of one worker.

    Attributes:
        accepting: number of clients that are logging in, at all listeners together.
        without_primary: number of sessions that do without the primary for now.
    """

    def __init__(self, worker: int, metrics: Metrics, scopes: Scopes) -> None:
        """Begin without sessions.

        Args:
            worker: its number, from 0.
            metrics: counts them.
            scopes: the scopes wider than a connection.
        """
        self._metrics = metrics
        self._scopes = scopes
        self.without_primary = 0
        self._members: dict[int, Member] = {}
        self._told: dict[int, Member] = {}  # by the connection id that the client was told
        self._admissions: dict[int, Admission] = {}
        self._short_lived = ShortLived(metrics, time.monotonic)
        self._following: set[int] = set()  # sessions that began soon after one that wrote
        self._base = _FIRST_SESSION_ID + worker * _IDS
        self._count = secrets.randbelow(0x0001_0000)
        self.accepting = 0

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        """All of them, as they are now; some may end meanwhile."""
        return iter(list(self._members.values()))

    def next_id(self) -> int:
        """An id that no open session of this worker has."""
        while True:
            self._count = (self._count + 1) % _IDS
            session_id = self._base + self._count
            if session_id not in self._members:
                return session_id

    def add(self, session: Member, admission: Admission) -> None:
        """Add a session that has begun; its admission ends with it."""
        self._members[session.session_id] = session
        self._admissions[session.session_id] = admission
        self._told[session.connection_id] = session
        if self._short_lived.follows(session.state):
            self._following.add(session.session_id)
        self._metrics.client_connected()

    def forget(self, session: Member) -> None:
        """Remove a session that has ended."""
        if self._members.pop(session.session_id, None) is not None:
            if self._told.get(session.connection_id) is session:
                del self._told[session.connection_id]
            self._short_lived.on_end(session.state, session.session_id in self._following)
            self._following.discard(session.session_id)
            self._admissions.pop(session.session_id).leave()
            self._metrics.client_disconnected()

    def admission(self, session_id: int) -> Admission | None:
        """The admission of a session; None if it has ended."""
        return self._admissions.get(session_id)

    def known_by(self, connection_id: int) -> Member | None:
        """The session that a client knows by this connection id, or None."""
        return self._told.get(connection_id)

    def scopes(self) -> list[ScopeState]:
        """The scopes wider than a connection that are alive, and the sessions' own."""
        return [*self._scopes.states(), *(session.state.own_scope for session in self)]

    def leave_primary(self) -> None:
        """End the sessions whose primary has changed, or was restarted."""
        for session in self:
            session.leave_primary()

    def leave_stuck_writes(self, why: str) -> None:
        """End the sessions that wait for the answer to a write, which the primary will not give."""
        for session in self:
            session.leave_stuck_write(why)

    def on_placed(self, topology: Topology) -> None:
        """The order in which servers are asked has changed."""
        for session in self:
            session.prefer_replica(topology.number_of(session.session_id))

    def on_replica_added(self, topology: Topology) -> None:
        """There is one more replica, the last; some of the sessions prefer it now."""
        if topology.placement is not None:
            self.on_placed(topology)
            return
        count = len(topology.replicas)
        for session in self:
            if session.session_id % count == count - 1:
                session.prefer_replica(count - 1)

    def on_replica_removed(self, index: int, topology: Topology) -> None:
        """The replica that had this index is gone. Sessions keep to the others."""
        if topology.placement is not None:
            self.on_placed(topology)
            return
        for session in self:
            preferred = session.state.preferred
            if preferred > index:
                session.prefer_replica(preferred - 1)
            elif preferred == index:
                session.prefer_replica(topology.number_of(session.session_id))

    def on_config_changed(self) -> None:
        """Other options count: each session takes them over when its next command comes."""
        for session in self:
            session.on_config_changed()

    def on_primary_silent(self) -> None:
        """The primary is found not to answer: the fast path is to look at that again."""
        for session in self:
            session.state.plain = False

    def on_primary_gone(self) -> None:
        """The primary is found not to be there: who has no connection to it cannot get one."""
        for session in self:
            session.on_primary_gone()

    def on_primary_back(self, primary: Server) -> None:
        """It is found to be there: nobody need do without it any more."""
        primary.set_reachable()
        if self.without_primary:
            for session in self:
                session.on_primary_back()

    def stopped_naming(self, primary: Server) -> None:
        """The primary gives no GTIDs: writes for which none was reported may have none at all."""
        primary.gtids = False
        for session in self:
            state = session.state
            if state.own_scope.unknown and not state.own_scope.unlogged:
                state.record_unlogged_write()
                self._metrics.wrote_unlogged()
        self._scopes.doubt_logging()

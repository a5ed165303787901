"""One session's connections to servers: to the primary, and to replicas that it has read from.

The primary's is the session as the server knows it. Those to replicas are opened when a read first
needs them. Every part that wants a connection asks here; no other part may assume that the session
has one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from protocol.constants import AUTOCOMMIT, IN_TRANS, IN_TRANS_READONLY, Capability
from protocol.tracker_view import TrackerView
from proxy.channel import ChannelClosedError
from proxy.client.statements import transaction as transaction_statements
from proxy.server.connection import Owner
from proxy.server.errors import (
    NoDescriptorError,
    ServerFullError,
    ServerRefusedError,
    ServerUnreachableError,
)
from proxy.server.kill import kill
from proxy.server.login import Login
from proxy.server.slots import Holder
from routing.consistency.decision import Reason
from routing.session.init_connect import leaves_nothing
from routing.sql.session_locks import PinReason

if TYPE_CHECKING:
    from collections.abc import Collection

    from proxy.client.connection import ClientConnection
    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server, Topology
    from routing.session.session import Session

_log = logging.getLogger(__name__)
_OF_TRANSACTIONS: Final = IN_TRANS | IN_TRANS_READONLY | AUTOCOMMIT
"""Flags of the server status that tell of the session's transaction."""


class Conductor(Owner, Holder, Protocol):
    """The session that the connections belong to."""


class Servers:
    """The connections of one session.

    Attributes:
        login: as whom they were opened.
        primary: the connection to the primary; None when that is lost.
        active: the one that answers the command, or is being sent it; None if there is none.
    """

    def __init__(
        self,
        shared: Shared,
        client: ClientConnection,
        login: Login,
        state: Session,
        owner: Conductor,
    ) -> None:
        """None is open yet; `owner` will get their answers, and `client` waits for them."""
        self._shared = shared
        self._client = client
        self._state = state
        self._owner: Conductor | None = owner
        self._replicas: dict[Server, ServerConnection] = {}
        self._paused = False
        self.login = login
        self.primary: ServerConnection | None = None
        self.active: ServerConnection | None = None

    # All of them

    @property
    def connections(self) -> list[ServerConnection]:
        """All that are open."""
        others = self.replicas
        return others if self.primary is None else [self.primary, *others]

    def activate(self, connection: ServerConnection) -> None:
        """This one answers the command."""
        self.active = connection
        if self._paused:
            connection.pause_reading()

    def deactivate(self) -> None:
        """None answers the command any more."""
        self.active = None

    def on_idle(self, connection: ServerConnection) -> None:
        """The active one has answered."""
        self.deactivate()
        if self._paused:
            connection.resume_reading()

    def pause(self) -> None:
        """The client reads slower than the server sends: let the server wait."""
        self._paused = True
        if self.active is not None:
            self.active.pause_reading()

    def resume(self) -> None:
        """The client reads again."""
        self._paused = False
        if self.active is not None:
            self.active.resume_reading()

    @property
    def keeps_waiting(self) -> ServerConnection | None:
        """The active one, if it leads to a replica that the client waits for."""
        return None if self._paused else self.active_replica

    @property
    def active_replica(self) -> ServerConnection | None:
        """The active one, if it leads to a replica."""
        active = self.active
        return active if active is not None and active is not self.primary else None

    def kill_active(self, name: str, *, query_only: bool = False) -> None:
        """End what runs on a replica for the session, by a task of this name."""
        replica, shared = self.active_replica, self._shared
        if replica is not None:
            replica.keepable = False  # the KILL may come late: nobody else may get it
            login = self.replica_login()
            work = kill(replica, login, shared.config, shared.materials, query_only=query_only)
            shared.start(work, name)

    def drop(self, connection: ServerConnection) -> None:
        """Close one."""
        connection.close()
        self._client.resume_reading()  # it may have been this one that took no more
        self._shared.metrics.server_disconnected(connection.server.name)

    def on_lost(self, connection: ServerConnection) -> None:
        """One broke."""
        self._shared.metrics.server_disconnected(connection.server.name)
        self._client.resume_reading()  # it may have been this one that took no more
        if connection is not self.primary:
            self._forget(connection)

    def leave(self, *, clean: bool) -> None:
        """The session ends: give them to others, if none of its state is left there."""
        connections = self.replicas if self.primary is None else [*self.replicas, self.primary]
        self.primary = None
        self._replicas.clear()
        for connection in connections:
            if clean:
                self._release(connection)
            else:
                self.drop(connection)

    @property
    def unanswered(self) -> ServerConnection | None:
        """The primary's connection, if it owes the client an answer."""
        primary = self.primary
        if primary is None or primary.lost or primary is not self.active:
            return None
        return primary if primary.owes_answer else None

    def take_primary_away(self) -> None:
        """Somebody else has the primary's connection from now on."""
        self.primary = None
        self.deactivate()

    def drop_owner(self) -> None:
        """Let go of the owner."""
        self._owner = None
        self.deactivate()

    # The primary

    def take_primary(self, connection: ServerConnection) -> None:
        """Use this connection to the primary, in place of a previous one.

        Raises:
            ChannelClosedError: it broke meanwhile.
        """
        owner, old = self._owner, self.primary
        if connection.server is not self._shared.topology.primary or owner is None:
            connection.abort()
            raise ChannelClosedError("another server has become the primary")
        self._begin_session(connection)
        self._use_primary(connection, owner)
        if old is not None:
            self.drop(old)

    def begin_without_primary(self, connection: ServerConnection) -> None:
        """Begin the session as a replica began it for this login; its connection is given up.

        Whatever the session had before has ended.
        """
        old, self.primary = self.primary, None
        self._begin_session(connection)
        self._state.transaction.status = connection.stream.status
        connection.channel.close()
        connection.close()
        if old is not None:
            self.drop(old)

    def _begin_session(self, connection: ServerConnection) -> None:
        """Take over what a session begins with on a server that it has logged in to."""
        identity, state = connection.identity, self._state
        self._client.server_allows(identity.max_allowed_packet)
        state.on_connect(
            identity.sql_mode,
            identity.autocommit,
            identity.character_set,
            identity.isolation,
            identity.defaults,
            identity.wait_timeout,
        )
        if identity.init_connect and not leaves_nothing(identity.init_connect):
            state.pins.acquire(PinReason.VARIABLE, "init_connect")
        if connection.opening.several:
            state.pins.acquire(PinReason.UNKNOWN)
        state.set_login_roles(identity.roles)
        state.set_schema(connection.mirror.schema)

    def _use_primary(self, connection: ServerConnection, owner: Conductor) -> None:
        state, metrics = self._state, self._shared.metrics
        connection.view = TrackerView(
            self._client.capabilities, state.trackers.shown, state.trackers.shown_variables
        )
        connection.hand_over(owner)
        if connection.slot is not None:
            connection.slot.use(owner)
        self.primary = connection
        state.transaction.status = connection.stream.status
        if not connection.kept:
            metrics.server_opened(connection.server.name)
        metrics.server_connected(connection.server.name)

    def may_cascade(self) -> bool:
        """Whether the primary's connection is one on which enable_cascade_triggers has an effect.

        As far as that depends on the proxy; the user's next sessions get such connections.
        """
        self._shared.pool.cascades(self.login.username)
        return self.primary is None or not self.primary.renewed

    def use_leased(self, connection: ServerConnection) -> None:
        """Use this connection to the primary, on which all is as it was on the one before.

        Raises:
            ChannelClosedError: it broke meanwhile.
        """
        owner = self._owner
        if connection.server is not self._shared.topology.primary or owner is None:
            connection.abort()
            raise ChannelClosedError("another server has become the primary")
        identity, state = connection.identity, self._state
        self._use_primary(connection, owner)
        self._client.server_allows(identity.max_allowed_packet)
        if "wait_timeout" not in state.variables:
            state.wait_timeout = max(1, identity.wait_timeout)

    def release(self, client_thread_id: int, kept: Collection[Server | None]) -> None:
        """Give others the connection to the primary, and the idle ones to replicas.

        Nobody else is to have one with the id that the client was told: a KILL of it would end
        somebody else's statement.

        Args:
            client_thread_id: the id that the client was told.
            kept: replicas whose connections stay.
        """
        primary = self.primary
        self.primary = None
        if primary is None:
            return
        if primary.thread_id == client_thread_id:
            self.drop(primary)
        else:
            self._release(primary)
        for connection in self.replicas:
            if connection.server not in kept and not connection.busy:
                self.release_replica(connection)

    def release_replica(self, connection: ServerConnection) -> None:
        """Give others an idle connection to a replica."""
        self._forget(connection)
        self._release(connection)

    def _release(self, connection: ServerConnection) -> None:
        self._shared.metrics.server_disconnected(connection.server.name)
        self._shared.pool.release(connection, self.login.username)

    @property
    def primary_thread_id(self) -> int:
        """The primary's id of the session, or 0."""
        return 0 if self.primary is None else self.primary.thread_id

    def primary_for_probe(self) -> ServerConnection | None:
        """The primary's connection, if it can be used to ask what the primary has."""
        primary = self.primary
        if primary is None or primary.lost:
            return None
        return primary if primary.server is self._shared.topology.primary else None

    @property
    def cause(self) -> str:
        """Why the session cannot go on with its connection to the primary; "" if it can."""
        primary = self.primary
        if primary is None:
            return ""
        return left_behind(primary.server, primary.epoch, self._shared.topology)

    def abandon_primary(self) -> None:
        """Close the primary's connection."""
        if self.primary is not None:
            self.drop(self.primary)
            self.primary = None

    # Replicas

    @property
    def replicas(self) -> list[ServerConnection]:
        """All that are open to replicas."""
        return list(self._replicas.values())

    @property
    def idle(self) -> list[Server]:
        """Replicas that a statement could be sent to at once."""
        found = [self.replica(server) for server in self._replicas]
        return [
            connection.server
            for connection in found
            if connection is not None and not connection.busy
        ]

    def replica(self, server: Server) -> ServerConnection | None:
        """The connection to this incarnation of a replica, fit for the session's schema."""
        connection = self._replicas.get(server)
        if connection is None:
            return None
        if connection.epoch != server.epoch and not self.has_open_snapshot(connection):
            return None
        if connection.mirror.schema and not self._state.schema:
            return None  # a selected schema cannot be unset
        return connection

    def has_open_snapshot(self, connection: ServerConnection) -> bool:
        """Whether a replica that was taken out of use has the snapshot of an open transaction.

        That goes on there until it ends, on the connection that it began on.
        """
        server, snapshot = connection.server, self._state.transaction.snapshot
        return (
            snapshot is not None
            and snapshot.server is server
            and connection.epoch == server.last_epoch
            and not connection.lost
        )

    def open_to(self, server: Server) -> ServerConnection | None:
        """The connection to a replica, whether it can be used or not."""
        return self._replicas.get(server)

    def open_by_lent_login(self, server: Server) -> ServerConnection | None:
        """A connection for which the replica need not be asked; None if there is none.

        (`proxy.server.verified_login`)
        """
        shared, state = self._shared, self._state
        if server.left:
            return None
        lent = shared.logins.lend(server, self.replica_login(), self._tracking, state.schema)
        if lent is None:
            return None
        self._drop_stale(server)
        shared.metrics.server_connected(server.name)
        self._take(lent)
        return lent

    async def open(self, server: Server) -> Reason | None:
        """Connect to a replica; the reason why it cannot be used, or None."""
        shared = self._shared
        if server.left:
            return Reason.REPLICA_LOST
        login = self.replica_login()
        server.begin_attempt(shared.now() + shared.config.connect_timeout)
        self._drop_stale(server)
        try:
            connection = await shared.logins.open_connection(
                server, login, self._tracking, self._state.schema, shared.config.longest_wait
            )
            self._take(connection)
        except NoDescriptorError:
            shared.metrics.server_connect_failed(server.name, "no_descriptor")
            return Reason.REPLICA_FULL  # no other replica could be connected to, either
        except (ServerUnreachableError, ChannelClosedError) as error:
            server.set_unreachable(shared.now())
            shared.metrics.server_connect_failed(server.name, "unreachable")
            shared.metrics.server_up(server.name, False)
            _log.warning("replica %s cannot be reached: %s", server.name, error)
            return Reason.REPLICA_LOST
        except ServerFullError:
            shared.metrics.server_connect_failed(server.name, "full")
            return Reason.REPLICA_FULL
        except ServerRefusedError as error:
            shared.pool.login_cache.on_refused(login.username, error.error.code)
            self._state.avoided |= {server}
            self._state.plain = False
            shared.metrics.server_connect_failed(server.name, "refused")
            _log.warning("replica %s refused user %r: %s", server.name, login.username, error)
            return Reason.REPLICA_REFUSED
        server.set_reachable()
        if not connection.kept:
            shared.metrics.server_opened(server.name)
        shared.metrics.server_connected(server.name)
        shared.metrics.server_up(server.name, True)
        if server.left:  # meanwhile
            self._drop_stale(server)
            return Reason.REPLICA_LOST
        return None

    def _take(self, connection: ServerConnection) -> None:
        """Use a connection to a replica; ChannelClosedError if it is gone."""
        owner = self._owner
        if owner is None:
            connection.abort()
            raise ChannelClosedError("the session has ended")
        if connection.mirror.tracks_all:
            # It has CLIENT_SESSION_TRACK, whether the client has or not.
            connection.view = TrackerView(self._client.capabilities, self._state.trackers.shown)
        identity = connection.identity
        connection.hand_over(owner)
        if connection.slot is not None:
            connection.slot.use(owner)
        mirror = connection.mirror
        mirror.defaults = identity.defaults
        mirror.begin(self._state)
        mirror.login_roles = identity.roles
        mirror.look_up_again(self._state)  # the login may have found less than a read must see
        self.put(connection)

    def put(self, connection: ServerConnection) -> None:
        """Use a connection to a replica that was opened."""
        self._replicas[connection.server] = connection

    def replica_login(self) -> Login:
        """How the session logs in to replicas: the schema is selected after the WAIT."""
        login = self.login
        return Login(
            username=login.username,
            password=login.password,
            capabilities=login.capabilities,
            character_set=login.character_set,
            database=None,
            attributes=login.attributes,
            own_attributes=login.own_attributes,
        )

    def give_up(self, connection: ServerConnection) -> None:
        """Close one to a replica, of unknown state, or with an answer not worth reading on."""
        self._forget(connection)
        if not connection.lost:
            self.drop(connection)

    def track(self) -> None:
        """Show the client the trackers that it now asks for; close what tracks others."""
        state = self._state
        tracks_all = self._tracking == "ALL_GTIDS"
        for connection in self.replicas:
            if connection.mirror.tracks_all is not tracks_all:
                self.give_up(connection)
            elif connection.view is not None:
                connection.view.show(state.trackers.shown, state.trackers.shown_variables)

    def end_transactions(self) -> None:
        """The transaction has ended, or goes on at the primary: end what is open on replicas."""
        self._state.transaction.on_replicas_ended()
        for connection in self._replicas.values():
            self.end_transaction(connection)

    def end_transaction(self, replica: ServerConnection) -> None:
        """End the transaction on a replica, if one is open; what it still answers comes first."""
        batch = transaction_statements.end_transaction(replica.mirror, replica.query_attributes)
        if batch and not replica.lost:
            replica.send(batch)
        replica.show_status(0)

    def show_status(self, replica: ServerConnection) -> None:
        """Let what a replica answers tell the status that the session has on the primary.

        Outside the session's transaction a replica has autocommit on; and a transaction there that
        has ended for the client may linger.
        """
        transaction, reads = self._state.transaction, replica.mirror.transaction_reads
        status = transaction.status & _OF_TRANSACTIONS
        if reads is None and status == AUTOCOMMIT:
            replica.show_status(0)
        elif reads is not None and reads is transaction.reads:
            # The client is not told that its transaction, which may write, is READ ONLY here.
            replica.show_status(IN_TRANS_READONLY if reads.may_write else 0)
        else:
            replica.show_status(_OF_TRANSACTIONS, status)

    def reset_replicas(self) -> None:
        """The session was reset; each connection follows before its next statement."""
        for connection in self._replicas.values():
            connection.mirror.session_reset(self._state)

    def drop_replicas(self) -> None:
        """Close all to replicas; they are opened again, as another user's."""
        replicas = self.replicas
        self._replicas.clear()
        for connection in replicas:
            self.drop(connection)

    def _drop_stale(self, server: Server) -> None:
        stale = self._replicas.pop(server, None)
        if stale is not None:
            self.drop(stale)

    def _forget(self, connection: ServerConnection) -> None:
        if self._replicas.get(connection.server) is connection:
            del self._replicas[connection.server]

    @property
    def _tracking(self) -> str:
        """The session_track_gtids of replicas' connections.

        Without CLIENT_DEPRECATE_EOF a read's end tells no GTIDs. That the server showed something
        is remembered all the same, and later reads go by that (`routing.consistency.scope`).
        """
        tells = self.login.capabilities & Capability.CLIENT_DEPRECATE_EOF
        return self._state.trackers.gtids if tells else "OFF"


def left_behind(server: Server, epoch: int, topology: Topology) -> str:
    """Why no session can go on with this incarnation of a primary; "" if it can."""
    if server is not topology.primary:
        return "another server has become the primary"
    return "the primary was restarted" if epoch < server.started_epoch else ""

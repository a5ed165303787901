"""Lets a session be without its connection to the primary, and borrow one for its next command.

An idle session gives its connections back (connection-sharing); and any session can lose the one to
the primary with that server (without-primary).

First the primary is asked what the session carries (`proxy.client.statements.saved_state`), which
takes a round trip. A command that comes meanwhile is held until the answer is there, and then finds
the connection as it was.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.command import query_text_offset
from protocol.constants import Command as Code
from protocol.errors import ServerErrorCode
from protocol.response import ErrPacket
from proxy import tasks
from proxy.channel import ChannelClosedError
from proxy.client.servers import left_behind
from proxy.client.sharing.portable_state import PortableState, select_known_id
from proxy.client.sharing.reconnect import ChangedError, reopen
from proxy.client.statements.saved_state import ask_state
from proxy.server.errors import (
    NoDescriptorError,
    NoPrimaryError,
    ServerFullError,
    ServerRefusedError,
    ServerUnreachableError,
)
from proxy.server.logins import FULL
from routing.consistency.decision import Reason
from routing.request.stage import DONE
from routing.sql.statement import StatementReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.response_stream import ResponseStream
    from proxy.client.session_context import SessionContext
    from proxy.server.connection import ServerConnection
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.servers.topology import Server


_log = logging.getLogger(__name__)

_PATIENCE_S: Final = 1.0
"""How long a command waits at least for a connection to a primary that is not known to be gone."""

_LOOK_S: Final = 0.1
"""How often it is looked at whether it says something."""

_WITH_TEXT: Final = (Code.COM_QUERY, Code.COM_STMT_PREPARE, Code.COM_STMT_EXECUTE)


class _Borrowed(NamedTuple):
    """How borrowing has ended: with a connection, or with one of these.

    No exception is kept: it would keep the session alive.

    Attributes:
        refusal: the session has to end, and this is what its client is told.
        full: there may be a connection later, but there are too many now.
        absent: there is no primary now, for this cause.
    """

    refusal: ErrPacket | None = None
    full: ErrPacket | None = None
    absent: str = ""


class ConnectionLease:
    """The giving back and borrowing of one session.

    Attributes:
        asking: commands are held: the primary was asked what the session carries, or it is being
            found out whether it is gone.
    """

    def __init__(self, session: SessionContext, connection_id: int) -> None:
        """The session has a connection to the primary; `connection_id` is its client's."""
        self._shared = session.shared
        self._state = session.state
        self._servers = session.servers
        self._settings = session.settings
        self._prepared = session.prepared
        self._query_attributes = session.query_attributes
        self._current = session.current
        self._connection_id = connection_id
        self._portable = PortableState(session, connection_id)
        self._seen: Command | None = None  # the last command when the session was looked at
        self._idle_since = 0.0  # when that was seen first, monotonic s
        self._told = ""  # why it could not give its connection back then
        self._held: Callable[[], None] | None = None  # what is to follow the answer
        self._in_time: asyncio.TimerHandle | None = None  # for what is held
        self._going: asyncio.Task[_Borrowed] | None = None  # a connection is borrowed
        self._shares = session.shared.config.shares_connections
        self._reads_on = session.shared.config.without_primary == "read"
        self._login_began: float | None = None  # for it, monotonic s; None before
        self._received = 0  # how often the primary had said something then
        self._lost = False  # the connection was lost with the primary, not given back
        self._in_doubt = False  # that is still to be found out
        self._doubt_ended: asyncio.Event | None = None  # while it is
        self.asking = False
        self._keep_own()

    def configure(self) -> None:
        """Other options count: who shares may stop, but nobody begins amid a session."""
        config = self._shared.config
        self._shares = self._shares and config.shares_connections
        self._reads_on = config.without_primary == "read"

    def _keep_own(self) -> None:
        """Without connection-sharing nothing is given back that need not be."""
        if not self._shares:
            self._portable.keep("not shared")

    # The session works

    def began(self) -> None:
        """Somebody logged in."""
        self._rests_no_more()
        self._portable.began()
        self._keep_own()

    def began_without_primary(self) -> None:
        """Somebody logged in at a replica, since the primary is gone."""
        self._rests_no_more()
        self._portable.began_without(self._shared.topology.primary, self._state.wait_timeout)
        self._keep_own()
        self._idle_since = self._shared.now()
        self._begin_without_primary()

    def reset_without_primary(self) -> None:
        """The session, which is without a primary, was reset."""
        self._portable.reset_without_primary()

    def changed_without_primary(self) -> None:
        """A command was carried out in the primary's place, which is to be told of its effect."""
        self._portable.changed_without_primary()

    def ended(
        self, command: Command, outcome: CommandOutcome, connection: ServerConnection
    ) -> None:
        """A command has ended on a server: see whether it leaves state that cannot be carried."""
        if (
            outcome.reason is Reason.SESSION
            and connection is not self._servers.primary
            and not (outcome.error or _only_asks(command))
        ):
            self.changed_without_primary()
        self._portable.ended(command, outcome, connection)

    @property
    def is_unnamed(self) -> bool:
        """Whether CONNECTION_ID() does not tell the id that the client was told."""
        return self._portable.unnamed

    def may_ask_what_is_lost(self, packet: bytes) -> bool:
        """Whether a packet with a statement may name what was lost with a primary."""
        return self._portable.asks_what_is_lost(packet)

    def lost_by(self, command: Command, missing: int) -> str:
        """What a command asks for that was lost with a primary, for its client; "" if nothing.

        `missing`: the parts of the diagnostics area that it asks about and no server has.
        """
        if missing and self._portable.lacks_diagnostics:
            return "what the statement before has left"
        prepared = command.prepared
        text = command.text if prepared is None else prepared.sql
        if self._portable.asks_what_is_lost(text):
            return "LAST_INSERT_ID()"
        return ""

    def shows_other_id(self, text: bytes) -> bool:
        """Whether a statement's text shows the id of a connection that the client was not told."""
        return self._portable.shows_other_id(text)

    def command_shows_other_id(self, command: Command) -> bool:
        """Likewise, of a command that has a text and came whole; what is long may be anything."""
        if not (self.is_unnamed and command.code in _WITH_TEXT):
            return False
        return self.shows_other_id(self._text_of(command) if command.packet else command.text)

    def _text_of(self, command: Command) -> bytes:
        if command.prepared is not None:
            return command.text
        payload = command.packet[4:]
        is_query = command.is_query
        return payload[query_text_offset(payload, self._query_attributes) if is_query else 1 :]

    def select_known_id(self, command: Command) -> bytes | None:
        """What to run in place of a SELECT of the connection's id, so that it shows the client's.

        None for anything else, and where the server itself shows that.
        """
        if not (command.is_query and command.packet and self._portable.unnamed):
            return None
        return select_known_id(self._text_of(command), self._connection_id)

    def killed(self) -> None:
        """A KILL was sent for what the session runs: it must find the session's connection."""
        self._portable.keep("killed")

    # It rests

    def rest(self, command: Command) -> None:
        """Begin to give the connections back, if no other command came since the last call.

        `command` is its last one, which has ended.
        """
        seen, self._seen = self._seen, command
        if seen is not command:
            self._idle_since = self._shared.now()
            return
        primary = self._servers.primary
        if self.is_away:
            for replica in self._servers.replicas:
                self._release_replica(replica)
        if primary is None or self.asking or not self._shares:
            return
        if primary.server.is_silent(self._shared.now()):
            return  # it would not answer
        reason = self._portable.reason()
        if not reason:
            self._take_leave(primary)
        elif reason != self._told:
            self._shared.metrics.not_given_back(reason)
        self._told = reason

    def let_others(self, *, rests: bool) -> None:
        """Others wait for connections: give back those that the session has had for long enough.

        A command has just ended. `rests`: the client waits for nothing.
        """
        slots = self._shared.slots
        for connection in self._servers.connections:
            slot = connection.slot
            if slot is not None and slots.wants(slot):
                self.give_way(connection.server, rests=rests)

    def give_way(self, server: Server, *, rests: bool) -> None:
        """Begin to give back a connection to this server, since others wait for one.

        `rests`: the client waits for nothing.
        """
        if not (rests or self.holds_command or self.is_under_way):
            return
        primary = self._servers.primary
        if not self.is_away and (primary is None or not self._shares or self._portable.reason()):
            return
        replica = self._servers.replica(server)
        if primary is not None and server is primary.server:
            if not self.asking:
                self._take_leave(primary)
            if primary.slot is not None:
                primary.slot.gives(giving=True)
        elif replica is not None:
            self._release_replica(replica)

    def _release_replica(self, replica: ServerConnection) -> None:
        """Give back a connection to a replica, unless the session has something there."""
        if not (
            replica.busy
            # Also a session that is away may have opened a transaction there.
            or replica.mirror.transaction_reads is not None
            or replica.server in self._asked_about
            or self._prepared.has_cursor_on(replica)
        ):
            self._servers.release_replica(replica)

    def _take_leave(self, primary: ServerConnection) -> None:
        self.asking = True
        self._state.plain = False  # what comes now is held
        primary.send(ask_state(primary.query_attributes))

    def holds(self, follow: Callable[[], None]) -> bool:
        """Whether a command has to wait for the primary's answer; `follow` serves it then.

        It does not wait longer than for a replica: perhaps it needs no primary that says nothing.
        """
        if self.asking:
            self._held = follow
            if self._in_time is None and not self._in_doubt:
                budget = self._shared.config.longest_wait
                self._in_time = self._shared.call_later(budget, self._unanswered)
        return self.asking

    @property
    def holds_command(self) -> bool:
        """Whether a command waits for that."""
        return self._held is not None

    def _unanswered(self) -> None:
        """The primary does not say what the session carries: it keeps its connections.

        Until the answer has come the primary's is busy, so it is not asked again.
        """
        self._in_time = None
        primary, follow = self._servers.primary, self._held
        if not self.asking or follow is None:
            return
        self.asking, self._held = False, None
        if primary is not None and primary.slot is not None:
            primary.slot.gives(giving=False)
        follow()

    def _hold_no_more(self) -> None:
        self._held = None
        if self._in_time is not None:
            self._in_time.cancel()
            self._in_time = None

    def said(self, primary: ServerConnection, stream: ResponseStream) -> None:
        """Take from the primary's answer what the session carries.

        An ERR that is no answer to anything, which its number shows, ends the session: the server
        was closing the connection, such as for its wait_timeout, when it was asked.
        """
        if stream.error is not None and stream.sequence_id == 0:
            primary.give_up(str(ErrPacket.parse(stream.error)), stream.error)
        elif self.asking and not self._in_doubt:
            self._portable.save(primary, stream)

    def answered(self, connection: ServerConnection) -> bool:
        """Whether a complete answer was to that question: the connections are given back now.

        If a command came meanwhile, it is served instead, or after others who wait.
        """
        if not self.asking or connection is not self._servers.primary:
            return False
        self.asking = False
        carrying, follow = self._portable, self._held
        carried = carrying.carried
        self._hold_no_more()
        slot = connection.slot
        wanted = slot is not None and slot.giving
        if slot is not None:
            slot.gives(giving=False)
        if (follow is None or wanted) and carried is not None and not carrying.is_kept:
            self._servers.release(self._connection_id, self._asked_about)
            self._shared.metrics.given_back(connection.server.name)
            if follow is not None:
                follow()
            return True
        carrying.carried = None
        if follow is not None:
            follow()
        return True

    @property
    def _asked_about(self) -> tuple[Server | None, ...]:
        """The servers whose connections the next statement may ask about the one before."""
        return self._state.diagnostics.bound  # elsewhere the same can be made

    def left(self) -> None:
        """The client, or the primary, is gone: nothing is to follow any more."""
        self._doubt_no_more()
        self._hold_no_more()
        self._rests_no_more()
        self._portable.carried = None

    def _rests_no_more(self) -> None:
        if not self.is_away:
            return
        self._set_without_primary(without=False)
        if self._lost:
            self._lost = False
        else:
            self._shared.metrics.rests_no_more()

    def _set_without_primary(self, *, without: bool) -> None:
        """What the session wants of the primary is refused, or done without it; or no more."""
        shared = self._shared
        if self._state.without_primary is not without:
            self._state.without_primary = without
            shared.sessions.without_primary += 1 if without else -1
            if self._lost:
                shared.metrics.lacks_primary() if without else shared.metrics.has_primary()

    def on_primary_back(self) -> None:
        """The primary was found to be there: the next command that wants it has a connection.

        A transaction that reads on a replica goes on there.
        """
        if self._state.transaction.is_nowhere:
            self._set_without_primary(without=False)

    def on_primary_gone(self) -> None:
        """The primary was found not to be there."""
        if self.is_away and self._reads_on:
            self._set_without_primary(without=True)

    # It loses its primary

    def lacking(self, primary: ServerConnection) -> str:
        """What the session has lost for good if this connection's server is gone; "": nothing."""
        return self._portable.lacking(primary)

    def doubt(self, primary: ServerConnection) -> None:
        """The connection is lost, perhaps with its server: hold commands until that is known.

        The session lacks nothing.
        """
        if self._in_time is not None:
            self._in_time.cancel()
            self._in_time = None
        self._portable.outlive(primary)
        self._state.plain = False  # what comes now is held
        self.asking = self._in_doubt = True
        self._doubt_ended = asyncio.Event()
        self._idle_since = self._shared.now()
        self._begin_without_primary()

    def _begin_without_primary(self) -> None:
        self._lost = True
        self._set_without_primary(without=True)

    def _doubt_no_more(self) -> None:
        self.asking = self._in_doubt = False
        if self._doubt_ended is not None:
            self._doubt_ended.set()
            self._doubt_ended = None

    @property
    def in_doubt(self) -> bool:
        """Whether it is being found out if the primary is gone, of which the connection is lost."""
        return self._in_doubt

    def outlives(self) -> None:
        """The primary is gone, and the session lives on: serve what was held."""
        follow = self._held
        self._doubt_no_more()
        self._hold_no_more()
        if follow is not None:
            follow()

    # It has no connection

    @property
    def is_away(self) -> bool:
        """Whether the session has no connection to the primary for now."""
        return self._portable.carried is not None

    @property
    def is_expired(self) -> bool:
        """Whether the server would have ended the session by now, since no command came."""
        carried = self._portable.carried
        if carried is None or self._going is not None:
            return False
        limit = self._state.wait_timeout if self._lost else carried.wait_timeout
        return self._shared.now() - self._idle_since >= limit

    @property
    def is_under_way(self) -> bool:
        """Whether it is about to have one again."""
        return self._going is not None

    @property
    def cause(self) -> str:
        """Why the session cannot go on; "" if it has a connection, or may get one again."""
        carried = self._portable.carried
        if carried is None or self._going is not None:
            return ""  # who is borrowing is told then
        if self._reads_on:
            return ""
        return left_behind(carried.server, carried.epoch, self._shared.topology)

    async def borrow(self) -> ErrPacket | None:
        """Have a connection to the primary again; what to tell the client if the session must end.

        While it is in doubt whether the primary is gone, none is: perhaps the session was killed.
        Callers that come while a connection is being borrowed wait for the same one. It goes on
        being borrowed for those who have waited long enough: the next command may find it.

        Raises:
            ServerFullError: it may have one later.
            NoPrimaryError: there is no primary now; the session stays.
        """
        if self._doubt_ended is not None:
            await self._doubt_ended.wait()
        shared = self._shared
        primary, now = shared.topology.primary, shared.now()
        if self._going is None:
            if not self.is_away:
                return None
            if not primary.may_be_tried(now):
                self._set_without_primary(without=self._reads_on)
                raise NoPrimaryError("it cannot be reached")
            primary.on_try(now)
            self._going = tasks.start(self._work(), "borrow a connection")
        going = self._going
        await asyncio.wait([going], timeout=self._patience)
        while not going.done():
            if self._is_silent(primary):
                primary.set_silent(shared.now() + _PATIENCE_S)
                shared.sessions.on_primary_silent()
                self._set_without_primary(without=self.is_away and self._reads_on)
                raise NoPrimaryError(f"it does not answer within {self._patience:g} s")
            await asyncio.wait([going], timeout=_LOOK_S)
        result = going.result()
        if result.full is not None:
            raise ServerFullError(result.full)
        if result.absent:
            self._set_without_primary(without=self.is_away and self._reads_on)
            raise NoPrimaryError(result.absent)
        return result.refusal

    @property
    def _patience(self) -> float:
        """How long a primary may say nothing to a login, s."""
        return max(_PATIENCE_S, self._state.rules.wait_budget)

    def _is_silent(self, primary: Server) -> bool:
        """Whether it has said nothing at all for long enough since the login began."""
        since = self._login_began
        if since is None or self._shared.now() - since < self._patience:
            return False  # there is no room for a connection yet
        return primary.packets_received == self._received

    def _has_spoken(self, primary: Server) -> bool:
        """Whether it has said anything since the login began, on whatever connection."""
        return self._login_began is not None and primary.packets_received != self._received

    async def _work(self) -> _Borrowed:
        """As `borrow`, without a time limit of its own."""
        topology = self._shared.topology
        primary = topology.primary
        try:
            try:
                await self._borrow()
            except (ServerUnreachableError, ChannelClosedError):
                # Another one may have become the primary; or this one is there, and a KILL that
                # came late, or for another session, has ended the connection amid the login.
                if primary is topology.primary and not self._has_spoken(primary):
                    raise
                primary = topology.primary
                await self._borrow()
        except ServerFullError as error:
            return _Borrowed(full=error.error)
        except ServerRefusedError as error:
            code = error.error.code
            if code in FULL:
                return _Borrowed(full=error.error)
            if code == ServerErrorCode.ER_SERVER_SHUTDOWN.code:
                return _Borrowed(absent=str(error))
            self._shared.pool.login_cache.on_refused(self._servers.login.username, code)
            return _Borrowed(error.error)
        except ChangedError as error:
            return _Borrowed(_ended(ServerErrorCode.ER_SERVER_SHUTDOWN, f"{error}; connect again"))
        except NoDescriptorError as error:
            return _Borrowed(absent=str(error))  # it says nothing about the server
        except (ServerUnreachableError, ChannelClosedError) as error:
            self._on_unreachable(primary)
            return _Borrowed(absent=str(error) or "it cannot be reached")
        finally:
            self._going = self._login_began = None
        return _Borrowed()

    def _on_unreachable(self, primary: Server) -> None:
        """A connection to the primary could not be opened."""
        shared = self._shared
        if self._has_spoken(primary):
            return
        if not primary.is_gone(shared.now()):
            _log.warning("the primary %s cannot be reached", primary.name)
            shared.sessions.on_primary_gone()
        primary.set_unreachable(shared.now())
        shared.metrics.server_connect_failed(primary.name, "unreachable")
        shared.metrics.server_up(primary.name, False)

    @property
    def _is_substituted(self) -> bool:
        """Whether a replica runs a command in the primary's place, whose effect is not known yet.

        The primary must have that effect before its next command.
        """
        current = self._current
        return (
            current.stage != DONE
            and current.outcome.reason is Reason.SESSION
            and self._servers.active_replica is not None
        )

    async def _borrow(self) -> None:
        servers, carrying = self._servers, self._portable
        carried = carrying.carried
        if carried is None:
            return
        tracking = self._state.trackers.gtids  # the level may become another one meanwhile
        shared = self._shared
        slot = await shared.logins.acquire_slot(shared.topology.primary)
        self._login_began = shared.now()
        self._received = slot.server.packets_received
        try:
            connection, named = await reopen(
                shared, servers.login, self._state, carried, self._connection_id, tracking, slot
            )
        except (ServerRefusedError, ChangedError):
            if carrying.carried is carried:
                raise
            await self._borrow()  # that was about what the session was before
            return
        while self._is_substituted and carrying.carried is carried:  # noqa: ASYNC110 it is rare
            await asyncio.sleep(_LOOK_S)
        if carrying.carried is not carried:
            # Another user has logged in meanwhile, or what the connection was told is out of date.
            connection.abort()
            await self._borrow()
            return
        servers.use_leased(connection)
        shared.sessions.on_primary_back(connection.server)
        self._rests_no_more()
        carrying.carried = None
        carrying.unnamed = not named
        self._seen = None  # or a KILL, for which no command came, would find it resting again
        self._settings.on_connect(tracking)
        if self._state.trackers.are_the_clients:
            self._settings.restore()
        self._shared.metrics.borrowed(connection.server.name)


def _only_asks(command: Command) -> bool:
    """Whether a command about the session is a question."""
    statement = command.statement
    return statement is not None and statement.reason in (
        StatementReason.SYSTEM_VARIABLE,
        StatementReason.SESSION_FUNCTION,
    )


def _ended(code: ServerErrorCode, message: str) -> ErrPacket:
    return ErrPacket(code.code, code.sqlstate, f"Tidegate: {message}")

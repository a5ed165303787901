"""One connection of the proxy to a MySQL server, after its login.

Theory of operation
===================

Commands may be written back to back: commands that prepare a statement (COM_RESET_CONNECTION, SET,
WAIT), the statement, and commands that follow it. A MySQL server answers in order, so each expected
answer is an `Exchange` in a queue (`proxy.server.exchange`), and `data_received` gives every
response to the exchange at its head: the answer that the client is to get goes to the owner chunk
by chunk as it comes, the others are reported when they are complete.

This is the fast path: no task, no future, no exception in the ordinary case. Where still less needs
to be done, a `Taker` is given the whole answer at once, if that is an ordinary one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, cast

from protocol.constants import Capability
from protocol.errors import MalformedPacketError, ProtocolError
from protocol.response import ErrPacket
from protocol.response_stream import RESULTS, ResponseStream
from protocol.tracker_view import ALL_TRACKERS, TrackerView
from protocol.whole_answer import take
from proxy.channel import ChannelClosedError
from proxy.error_text import error_text
from proxy.server.account import Requirement
from proxy.server.connection_stage import (
    CLOSED,
    IDLE,
    IN_USE,
    LENT,
    LOGGED_IN,
    READY,
    SANDBOX,
    next_stage,
)
from proxy.server.exchange import FORWARD, SETUP, WAIT, Purpose
from proxy.server.mirror import Mirror
from proxy.server.tcp import be_patient
from routing.session.diagnostics_area import ConnectionArea
from routing.unexpected_event import UnexpectedEventError

if TYPE_CHECKING:
    from proxy.channel import PacketChannel
    from proxy.server.connection_stage import Stage
    from proxy.server.exchange import Batch, Exchange
    from proxy.server.identity import Identity
    from proxy.server.settings import Settings
    from proxy.server.slots import Slot
    from proxy.server.verified_login import VerifiedLogin
    from routing.servers.topology import Server

# As numbers: flags of an enum take a microsecond each.
_QUERY_ATTRIBUTES: Final = int(Capability.CLIENT_QUERY_ATTRIBUTES)
_DEPRECATE_EOF: Final = int(Capability.CLIENT_DEPRECATE_EOF)
_SESSION_TRACK: Final = int(Capability.CLIENT_SESSION_TRACK)
_OPTIONAL_METADATA: Final = int(Capability.CLIENT_OPTIONAL_RESULTSET_METADATA)


class Owner(Protocol):
    """The user of a server connection."""

    def answer(self, connection: ServerConnection, data: bytes, received: int) -> None:
        """Take bytes of the answer to a FORWARD; `connection.stream` tells how far it has come.

        `data` is what the client gets, `received` how many bytes the server sent for it.
        """

    def aside(self, connection: ServerConnection, purpose: Purpose) -> None:
        """Take note that another answer is complete; `connection.stream` holds it."""

    def on_idle(self, connection: ServerConnection) -> None:
        """Take note that nothing is awaited any more."""

    def server_lost(self, connection: ServerConnection, cause: str, error: bytes | None) -> None:
        """Take note that the connection is gone; `error` is the ERR packet it ended with."""

    def server_paused(self, connection: ServerConnection) -> None:
        """Take note that the server reads slower than it is written to."""

    def server_resumed(self, connection: ServerConnection) -> None:
        """Take note that it can be written to again."""


class Taker:
    """Can take the whole answer to a FORWARD in one step, in the owner's place.

    Also that to a WAIT in front of it.
    """

    def on_wait(self, connection: ServerConnection) -> bool:
        """Take the answer to a WAIT in front of it, which the connection's stream tells of.

        Returns:
            False, if the owner has to take it.
        """
        raise NotImplementedError

    def on_answer(self, connection: ServerConnection, data: bytes) -> bool:
        """Take an answer that has come whole, and that `protocol.whole_answer` knows.

        Args:
            connection: awaits nothing more; its stream tells of the answer.
            data: as the server sent it.

        Returns:
            False, with nothing done, if the owner has to take it.
        """
        raise NotImplementedError

    def on_declined(self, connection: ServerConnection) -> None:
        """Take note that the owner will be given the answer, or hear that there is none."""
        raise NotImplementedError


class Opening:
    """What is known of a connection, and needed, only until a session has it.

    Attributes:
        channel: what it is written to and read from; None while it is lent.
        settings: what a sandbox has refused.
        refusal: how.
        identity: what the server said of itself.
        requirement: what the primary could not check of the client, since it saw the proxy's TLS.
        prepared: how many statements a client has prepared in the sandbox: their ids are taken.
        several: a text of several statements has ended there, of which nobody knows what they did.
    """

    __slots__ = (
        *("channel", "identity", "prepared", "refusal", "requirement", "settings"),
        "several",
    )

    def __init__(
        self,
        channel: PacketChannel | None,
        identity: Identity | None = None,
        requirement: Requirement = Requirement.NOTHING,
    ) -> None:
        self.channel = channel
        self.settings: Settings | None = None
        self.refusal: ErrPacket | None = None
        self.identity = identity
        self.requirement = requirement
        self.prepared = 0
        self.several = False


class ServerConnection:
    """A connection from its login to its end (`proxy.server.connection_stage`).

    Until a session has it, statements go over its `channel` (`proxy.server.query`).

    Attributes:
        server: which server it leads to.
        epoch: the server's incarnation that it was opened to.
        thread_id: the server's id of it.
        address: which of the server's addresses it leads to; empty if that is not known.
        opened_at: when, monotonic s.
        kept: it was opened for an earlier login (`proxy.server.pool`).
        renewed: the proxy has begun its session by COM_RESET_CONNECTION or COM_CHANGE_USER, where
            its client began a new connection (`Identity.renewable`).
        keepable: another session may get it after this one; False once something was done that no
            reset undoes, or its id must not go to anybody else.
        slot: the session's right to it, if a session has it; ends with the connection.
        verified_login: the login that the server let in; None if it may not be lent to another.
        settings: the SET statement that made it fit for its purpose.
        max_packet: its max_allowed_packet, bytes.
        stream: the state of the response that is being read.
        view: what the client sees of trackers, where it did not ask for all of them.
        silent: results end without trackers: CLIENT_DEPRECATE_EOF was not negotiated.
        mirror: what it was told of the session that uses it.
        area: what of that session's diagnostics area is true on it.
        packets_received: how many times the server has sent something.
        drained: bytes read of an answer that nobody waits for any more.
        overdue: it owes the answer to a probe that nobody waits for any more.
        late_waits: how many answers to a WAIT_FOR_OWNED it owes that nobody waits for any more.
        lost: it cannot be used any more.
    """

    def __init__(
        self,
        server: Server,
        capabilities: Capability,
        thread_id: int,
        channel: PacketChannel | None = None,
    ) -> None:
        self.server = server
        self.capabilities = capabilities
        self.thread_id = thread_id
        self.address = ""
        self.epoch = 0
        self.opened_at = 0.0
        # Flags side by side take a byte each.
        self.kept = False
        self.renewed = False
        self.keepable = False
        self.overdue = False
        self.lost = False
        flags = int(capabilities)
        self.query_attributes = flags & _QUERY_ATTRIBUTES != 0
        self.silent = flags & _DEPRECATE_EOF == 0
        self._begun = False  # the stream reads the answer to `_current`
        self.verified_login: VerifiedLogin | None = None
        self.slot: Slot | None = None
        self.settings = b""
        self.max_packet = 1024
        self.mirror = Mirror()
        self.area = ConnectionArea(server)
        self.packets_received = 0
        self.late_waits = 0
        self.drained = 0
        self.stream = ResponseStream(
            deprecate_eof=not self.silent,
            session_track=flags & _SESSION_TRACK != 0,
            optional_metadata=flags & _OPTIONAL_METADATA != 0,
        )
        self.view: TrackerView | None = None
        self._owner: Owner | None = None
        self._transport: asyncio.Transport | None = None
        self._current: Exchange | None = None
        self._taker: Taker | None = None  # of the client's answer that is awaited
        self._next: Exchange | None = None  # awaited behind the current one
        self._later: list[Exchange] = []  # seldom any; an empty deque takes 760 bytes
        self._preface: tuple[bytes, ...] = ()  # goes in front of whatever is sent first
        self._preface_answer = SETUP
        self._ahead = b""  # the same, once the answers are registered
        self._stage: Stage = LOGGED_IN
        self._opening: Opening | None = None if channel is None else Opening(channel)

    def __repr__(self) -> str:
        """Where it stands."""
        words = [self.stage.replace("_", " "), f"id {self.thread_id}", f"epoch {self.epoch}"]
        awaited = [] if self._current is None else [self._current, *self._queue()]
        words += [f"awaits {exchange.purpose.value}" for exchange in awaited]
        words += ["has a transaction"] if self.mirror.transaction_reads is not None else []
        words += ["to be reset"] if self.mirror.needs_reset else []
        words += ["overdue"] if self.overdue else []
        return f"<ServerConnection to {self.server.name}: {', '.join(words)}>"

    # Until a session has it

    @property
    def stage(self) -> Stage:
        """Where it stands."""
        return CLOSED if self.lost else self._stage

    @property
    def opening(self) -> Opening:
        """What is known of it until a session has it.

        Raises:
            UnexpectedEventError: a session has it, or has had it.
        """
        if self._opening is None:
            raise UnexpectedEventError("a question before its session", self.stage)
        return self._opening

    @property
    def channel(self) -> PacketChannel:
        """What it is written to and read from until a session has it.

        Raises:
            ChannelClosedError: it was lent, and is gone.
            UnexpectedEventError: it is lent, or a session has it, or has had it.
        """
        channel = self.opening.channel
        if channel is not None:
            return channel
        if self.lost:
            raise ChannelClosedError("the connection is closed")
        raise UnexpectedEventError("a question over a channel", self.stage)

    @property
    def identity(self) -> Identity:
        """What the server said of itself, until a session has it.

        Raises:
            UnexpectedEventError: it has not said that yet, or a session has it, or has had it.
        """
        identity = self.opening.identity
        if identity is None:
            raise UnexpectedEventError("who the server is", self.stage)
        return identity

    def enter(self, stage: Stage) -> None:
        """It goes on to this stage.

        Raises:
            UnexpectedEventError: it cannot.
        """
        self._stage = next_stage(self.stage, stage)

    def enter_sandbox(self, settings: Settings, refusal: ErrPacket) -> None:
        """The server takes no settings before the account has a new password."""
        self.enter(SANDBOX)
        self.opening.settings, self.opening.refusal = settings, refusal

    def become_ready(self, identity: Identity, requirement: Requirement) -> None:
        """The settings are made; what the server said of itself, and what the account requires."""
        self.enter(READY)
        self.opening.identity, self.opening.requirement = identity, requirement

    def hand_over(self, owner: Owner) -> None:
        """Let a session have it from now on.

        Raises:
            ChannelClosedError: it is gone.
            UnexpectedEventError: it is not ready, nor lent.
        """
        channel = self.opening.channel
        if self.lost:
            raise ChannelClosedError("the connection is closed")
        stage = next_stage(self._stage, IN_USE)
        if channel is None:
            self._owner = owner
        else:
            self.attach(channel.hand_over(self), owner)
        self._stage, self._opening = stage, None

    def attach(self, transport: asyncio.Transport, owner: Owner) -> None:
        """Start to serve `owner` over `transport`."""
        self._transport = transport
        self._owner = owner

    def abandon_to(self, owner: Owner) -> None:
        """Let `owner` await what is still answered, and tell the server that nothing more comes.

        So the server ends what it ends where a client has left, and the connection behind it.
        """
        self._owner, self._taker, self.view = owner, None, None
        if self.slot is not None:
            self.slot.keep()
        self.resume_reading()
        transport = self._transport
        if transport is not None and transport.can_write_eof():
            transport.write_eof()

    def abort(self) -> None:
        """Drop it at once if it goes over a channel, else close it."""
        if self._opening is not None and self._opening.channel is not None:
            self._opening.channel.abort()
        self.close()

    # In use

    @property
    def unsent(self) -> bool:
        """Whether the server has yet to read something of what it was sent."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    @property
    def busy(self) -> bool:
        """Whether an answer is awaited."""
        return self._current is not None

    @property
    def is_free(self) -> bool:
        """Whether it awaits no answer, and nothing has to go in front of what is sent now."""
        return self._current is None and not self._preface and not self.lost

    @property
    def is_late(self) -> bool:
        """Whether an answer is awaited that may take its time: to all but a setting."""
        current = self._current
        if current is None:
            return False
        if current.purpose is not Purpose.SETUP:
            return True
        return any(exchange.purpose is not Purpose.SETUP for exchange in self._queue())

    @property
    def owes_answer(self) -> bool:
        """Whether an answer to a command of the client's is awaited."""
        current = self._current
        if current is not None and current.forwarded:
            return True
        return any(exchange.forwarded for exchange in self._queue())

    def _queue(self) -> list[Exchange]:
        """What is awaited behind the current answer."""
        return [] if self._next is None else [self._next, *self._later]

    @property
    def awaiting(self) -> Purpose | None:
        """What the answer that is being read is for."""
        return None if self._current is None else self._current.purpose

    def take_preface(self) -> tuple[bytes, ...]:
        """What is to go in front of whatever is sent first, packets; the caller sends it."""
        packets, self._preface = self._preface, ()
        return packets

    def begin_with(self, exchange: Exchange, *packets: bytes) -> None:
        """Send these commands in one write with the next one, or never if none follows."""
        self._preface = packets
        self._preface_answer = exchange

    @property
    def unused(self) -> bool:
        """Whether nothing was sent since `begin_with`."""
        return bool(self._preface)

    def expect(self, exchange: Exchange) -> None:
        """Register a command; its bytes must be written in the same order (`write`)."""
        if self._preface:
            packets, self._preface = self._preface, ()
            self._ahead = b"".join(packets)
            for _ in packets:
                self.expect(self._preface_answer)
        if exchange.disturbs:
            self.area.disturb(exchange.disturbs)
        if self._current is None:
            self._current = exchange
            self._begun = False
        elif self._next is None:
            self._next = exchange
        else:
            self._later.append(exchange)

    def register(self, batch: Batch) -> bytes:
        """Register commands; returns their bytes, which must be written in the same order."""
        for exchange, _ in batch:
            self.expect(exchange)
        return b"".join([packets for _, packets in batch])

    def send(self, batch: Batch) -> None:
        """Register commands, and write them at once."""
        self.write(self.register(batch))

    def ask(self, taker: Taker, command: bytes) -> None:
        """Send a command of the client's, of shape RESULTS; the connection `is_free`."""
        self._current = FORWARD[RESULTS]
        self._begun = False
        self._taker = taker
        if self._transport is not None:
            self._transport.write(command)

    def ask_behind(self, taker: Taker, wait: bytes, command: bytes) -> None:
        """The same with a WAIT in front, in one write."""
        self._current = WAIT
        self.area.holds = 0
        self._begun = False
        self._next = FORWARD[RESULTS]
        self._taker = taker
        if self._transport is not None:
            self._transport.write(wait + command)

    def give_to(self, taker: Taker) -> None:
        """Let the answer to the client's command be taken; the command was registered."""
        self._taker = taker

    def write(self, data: bytes) -> None:
        """Send bytes of registered commands."""
        if self._ahead:
            data = self._ahead + data
            self._ahead = b""
        if self._transport is not None:
            self._transport.write(data)

    def show_status(self, hidden: int, shown: int = 0) -> None:
        """Show the client these flags of the server status in place of the hidden ones."""
        stream = self.stream
        if not hidden and not stream.tells_status:
            return
        stream.tells_status = hidden != 0
        if self.view is None:
            self.view = TrackerView(self.capabilities, ALL_TRACKERS)
        self.view.hidden, self.view.shown = hidden, shown

    def pause_reading(self) -> None:
        """The client takes no more for now."""
        if self._transport is not None and not self.lost:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """The client takes more."""
        if self._transport is not None and not self.lost:
            self._transport.resume_reading()

    # Behind its session

    def detach(self, following: Stage) -> tuple[asyncio.Transport, bool]:
        """Give up the transport; the connection goes on as another object at that stage.

        Code that still holds this one, such as a question that went over it, sees that it is lost.

        Returns:
            The transport, and whether TLS protects it.

        Raises:
            ChannelClosedError: it is gone.
            UnexpectedEventError: it cannot go on at that stage.
        """
        transport = self._transport
        if transport is None or self.lost or transport.is_closing():
            raise ChannelClosedError("the connection is closed")
        next_stage(self._stage, following)
        self._owner = None
        self._transport = None
        self._end()
        return transport, transport.get_extra_info("ssl_object") is not None

    def pass_on(self, owner: Owner) -> ServerConnection:
        """The same connection as another object, idle; this one is used up.

        Raises:
            ChannelClosedError: it is gone.
        """
        transport, _ = self.detach(IDLE)
        other = self._copy(IDLE)
        transport.set_protocol(cast("asyncio.BaseProtocol", other))
        other.attach(transport, owner)
        other.resume_reading()
        return other

    def lend(self, identity: Identity, requirement: Requirement) -> None:
        """An idle one serves a login without asking the server, which has told this before."""
        self.enter(LENT)
        self._opening = Opening(None, identity, requirement)

    def pass_on_to(self, channel: PacketChannel) -> ServerConnection:
        """A lent one as another object, with its slot, to be asked something over a channel first.

        What is to go in front of whatever is sent first goes in front of that.

        Raises:
            ChannelClosedError: it is gone.
        """
        slot = self.take_slot()
        opening = self.opening
        transport, secure = self.detach(READY)
        other = self._copy(READY)
        other.slot = slot
        other._opening = Opening(channel, opening.identity, opening.requirement)
        other._preface, other._preface_answer = self._preface, self._preface_answer
        channel.adopt(transport, 0, secure=secure)
        channel.read_ahead()
        return other

    def _copy(self, stage: Stage) -> ServerConnection:
        other = ServerConnection(self.server, self.capabilities, self.thread_id)
        other._stage = stage
        other.address = self.address
        other.epoch = self.epoch
        other.opened_at = self.opened_at
        other.keepable = self.keepable
        other.verified_login = self.verified_login
        other.kept = True
        other.renewed = self.renewed
        other.settings = self.settings
        other.mirror.schema = self.mirror.schema
        other.max_packet = self.max_packet
        other.stream.status = self.stream.status
        return other

    def close(self) -> None:
        """Say goodbye; the owner hears nothing more."""
        self._owner = self._taker = None
        transport = self._transport
        if transport is not None and not self.lost:
            if self._current is None:
                transport.write(b"\x01\x00\x00\x00\x01")  # COM_QUIT
                transport.close()
            else:
                transport.abort()
        self._end()

    def take_slot(self) -> Slot | None:
        """Have its right outlast it."""
        slot, self.slot = self.slot, None
        return slot

    def _end(self) -> None:
        self.lost = True
        slot = self.take_slot()
        if slot is not None:
            slot.free()

    def give_up(self, cause: str, error: bytes | None = None) -> None:
        """Break the connection, and tell the owner; `error` is the server's last word."""
        self._fail(cause, error)

    def be_patient(self) -> None:
        """Let the server read what it is sent as slowly as it likes, from now on."""
        if self._transport is not None and not self.lost:
            self.keepable = False
            be_patient(self._transport)

    # asyncio.Protocol

    def data_received(self, data: bytes) -> None:  # noqa: C901, PLR0912 hot: one walk
        """Walk what came and give it to its exchanges."""
        owner = self._owner
        if owner is None:
            return
        self.packets_received += 1
        self.server.packets_received += 1
        position = 0
        size = len(data)
        stream = self.stream
        try:
            while True:
                current = self._current
                if current is None:
                    self._unsolicited(data[position:])
                    return
                end = 0
                if not self._begun:
                    if current.shape == RESULTS:
                        end = take(stream, data, position, current.keeps_row)
                    if end == 0:
                        self._begun = True
                        stream.begin(current.shape, current.keeps_row, current.asks_cursor)
                if end == 0:
                    end = stream.feed(data, position)
                if current.forwarded:
                    taker = self._taker
                    if taker is not None:
                        self._taker = None
                        if not self._begun and end == size and self._next is None:
                            self._current = None
                            if taker.on_answer(self, data[position:] if position else data):
                                return
                            self._current = current
                        taker.on_declined(self)
                    if self.view is not None:
                        owner.answer(self, self.view.client_bytes(stream), end - position)
                    else:
                        whole = position == 0 and end == size
                        owner.answer(self, data if whole else data[position:end], end - position)
                    if not stream.done:
                        return
                else:
                    if stream.infile:
                        raise MalformedPacketError("it asked the proxy for a local file")
                    if not stream.done:
                        return
                    taker = self._taker
                    if current is not WAIT or taker is None or not taker.on_wait(self):
                        owner.aside(self, current.purpose)
                if self.lost:
                    return
                following = self._next
                if following is not None:
                    behind_client = current.forwarded
                    self._current = current = following
                    self._next = self._later.pop(0) if self._later else None
                    self._begun = False
                    if behind_client and current.disturbs:
                        self.area.disturb(current.disturbs)  # what the answer before it has left
                else:
                    self._current = None
                    if end == size:
                        owner.on_idle(self)
                        return
                if end == size:
                    return
                position = end
        except ProtocolError as error:
            self._fail(f"it broke the protocol: {error}", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; only a connection that changes its protocol object gets here."""
        self._transport = cast("asyncio.Transport", transport)

    def eof_received(self) -> bool:
        """Let the transport close."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The server is gone."""
        self._fail(
            "the connection broke"
            if error is None
            else f"the connection broke: {error_text(error)}",
            None,
        )

    def pause_writing(self) -> None:
        """The server reads slower than it is written to."""
        if self._owner is not None:
            self._owner.server_paused(self)

    def resume_writing(self) -> None:
        """The server can be written to again."""
        if self._owner is not None:
            self._owner.server_resumed(self)

    def protocol_broken(self, error: ProtocolError) -> None:
        """What the server sends cannot be decompressed."""
        self._fail(f"it broke the protocol: {error}", None)

    def _unsolicited(self, data: bytes) -> None:
        """A server says why before it closes an idle connection (fact 7.1: ERR 4031)."""
        payload = data[4:]
        cause = "it spoke out of turn"
        if payload[:1] == b"\xff" and len(payload) == int.from_bytes(data[:3], "little"):
            try:
                cause = str(ErrPacket.parse(payload))
            except MalformedPacketError:
                payload = b""
        else:
            payload = b""
        self._fail(cause, payload or None)

    def _fail(self, cause: str, error: bytes | None) -> None:
        if self.lost:
            return
        self._end()
        owner = self._owner
        self._owner = None
        if self._transport is not None:
            self._transport.abort()
        taker, self._taker = self._taker, None
        if taker is not None:
            taker.on_declined(self)
        if owner is not None:
            owner.server_lost(self, cause, error)

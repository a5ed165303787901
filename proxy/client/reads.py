"""Drives the read of a session (`routing.request.read`).

What happens to it becomes events; its steps become probes, timers, connections, statements to
servers and answers to the client; what is noted becomes metrics and log.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, Literal

from protocol.gtid import EMPTY
from protocol.response import ErrPacket
from proxy.client.confirmation import UNANSWERED, parsed
from proxy.client.preparation import end_transaction
from routing.consistency.decision import Proof, Reason
from routing.request.read import Read
from routing.request.stage import ASKING
from routing.request.step import Ask, Delay, End, Join, Known, Note, Open, Pass, Refuse, Send, Step

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from protocol.gtid import GtidSet
    from protocol.response_stream import ResponseStream
    from proxy.client.confirmation import Said
    from proxy.client.session import ClientSession
    from proxy.server.connection import ServerConnection
    from proxy.server.probe import Answer
    from proxy.shared import Shared
    from routing.request.judgement import WaitResult
    from routing.servers.topology import Server
    from routing.servers.waits import Wait

_log = logging.getLogger(__name__)

_REACHED: Final = (b"\x010\x011", b"\x011\x011")
"""The first two values of an answer to a WAIT (`preparation.wait`) by which the set is there. What
counts is the second: under some settings a WAIT itself takes a set for an empty one, and is
content."""
_TIMED_OUT: Final = b"\x011\x010"
_VALUES: Final = 4
"""How long those two are in a row, bytes; behind them are the confirmation's, if it was asked."""

_HAS: Final = b"\x011"
_HAS_NOT: Final = b"\x010"


class Reads:
    """The reads of one session; there is one at a time.

    Attributes:
        read: the machine that knows what is next.
    """

    def __init__(self, shared: Shared, session: ClientSession) -> None:
        self._shared = shared
        self._session = session
        self.read = Read(session.state, shared.topology, shared.waits, shared.config.on_lost_writes)
        self._timer: asyncio.TimerHandle | None = None  # of the one thing that it waits for
        self._wait: Wait | None = None  # in flight in front of it
        self._joined: Wait | None = None  # another read's

    def route(self) -> None:
        """Let the policy decide about the request's statement, and go on."""
        command = self._session.command
        statement = command.statement
        if statement is None:
            return
        read = self.read
        step = read.begin(statement, command.rules, self._shared.now())
        if isinstance(step, Send) and read.note is None:
            self._session.trail.required = read.required
            self._session.dispatch.to(step.decision)
        else:
            self._perform(step)

    def ask(self, resume: Callable[[], None]) -> None:
        """Have the primary asked what it has (`Read.probed`); `resume` follows."""
        self._session.resume = resume
        self._perform(self.read.ask(self._shared.now()))

    # Steps

    def _perform(self, step: Step) -> None:
        session = self._session
        trail = session.trail
        read = self.read
        trail.required = read.required
        if read.note is not None:
            self._count(read.note)
            read.note = None
        if isinstance(step, Send):
            trail.dispatched_us = time.time_ns() // 1000
            session.dispatch.to(step.decision)
        elif isinstance(step, Ask):
            self._shared.probes.ask(session)
        elif isinstance(step, Join):
            self._joined = step.wait
            step.wait.joined.append(self)
            self._timer = self._shared.call_later(step.seconds, self._out_of_time)
        elif isinstance(step, Open):
            session.start(self._open(step.server), "open replica")
        elif isinstance(step, Delay):
            self._timer = self._shared.call_later(step.seconds, self._turn_came)
        elif isinstance(step, Refuse):
            self._refuse(step)
        elif isinstance(step, End):
            session.replies.end_lost(step.cause)
        elif isinstance(step, Known) and session.resume is not None:
            session.resume()

    def _refuse(self, step: Refuse) -> None:
        session = self._session
        if session.command.packet:
            session.replies.refuse(step.code, step.message, reason=step.reason)
        else:  # when it has come whole
            session.long_command.give(
                _nowhere,
                then=lambda: session.replies.refuse(step.code, step.message, reason=step.reason),
            )

    def _count(self, note: Note) -> None:
        """Count and log what an event brought."""
        metrics = self._shared.metrics
        if note.left is not None and note.why is not None:
            said = f"{note.left.name}:{note.why.value}"
            trail = self._session.trail
            trail.fallbacks += f",{said}" if trail.fallbacks else said
            metrics.fallback(note.left.name, note.why.value)
            if note.proved is not None:
                sent_us = trail.dispatched_us
                answered_us = sent_us + trail.wait_us
                self._shared.ledger.proved(note.left, "waited", note.proved, sent_us, answered_us)
        if note.crowded is not None:
            metrics.crowded(note.crowded)
        if note.stale:
            metrics.stale_given()
        if note.scope is not None:
            self._shared.ledger.lost(note.scope, note.lost)

    def _in_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What it waits for

    @property
    def pending(self) -> bool:
        """Whether a read waits for anything but its answer."""
        return self._timer is not None or self.read.stage == ASKING

    def probed(self, answer: Answer | None) -> None:
        """What the primary has, by a question that was sent after `Ask`; None if it cannot say."""
        self._session.trail.dispatched_us = time.time_ns() // 1000
        executed = None if answer is None else answer.executed
        owned = EMPTY if answer is None else answer.owned
        self._perform(self.read.probe_answered(executed, owned, self._shared.now()))

    def released(self) -> None:
        """The WAIT that was joined has ended, well or not."""
        if self._joined is not None:
            self._part("shared")
        self._perform(self.read.released(self._shared.now()))

    def _out_of_time(self) -> None:
        self._part("timeout")
        self._perform(self.read.out_of_time(self._shared.now()))

    def _part(self, result: Literal["shared", "timeout"]) -> None:
        """Rely on the joined WAIT no more."""
        self._leave_joined()
        waited_us = round((self._shared.now() - self.read.joined_at) * 1e6)
        self._session.trail.wait_us += waited_us
        if self.read.decision is not None:
            self._shared.metrics.wait(self.read.decision.server.name, result, waited_us)

    def _leave_joined(self) -> None:
        self._in_time()
        joined = self._joined
        self._joined = None
        if joined is not None and self in joined.joined:
            joined.joined.remove(self)

    def _turn_came(self) -> None:
        self._timer = None
        self._perform(self.read.turn_came(self._shared.now()))

    def leave(self) -> None:
        """The client or its primary is gone."""
        self._leave_joined()
        asking = self.read.stage == ASKING
        decision = self.read.decision
        self.read.left()
        if decision is not None:
            self._end_wait(decision.server)
        if asking:
            self._shared.probes.leave(self._session)

    # Its connection

    def absent(self) -> None:
        """There is no connection to the server that was chosen."""
        self._perform(self.read.absent(self._shared.now()))

    def unfit(self, reason: Reason) -> None:
        """The connection to the server that was chosen is of no use now."""
        self._perform(self.read.unfit(reason, self._shared.now()))

    async def _open(self, server: Server) -> None:
        """Open this session's connection to a replica."""
        session = self._session
        failed = await session.replicas.open(server)
        session.task = None
        self._perform(self.read.opened(failed, self._shared.now()))

    # What a replica says in front of the answer

    def wait_sent(self, replica: ServerConnection, gtids: GtidSet, budget: float) -> None:
        """A WAIT is in front of the read; the replica is not relied on to end it."""
        shared = self._shared
        self._wait = shared.waits.begin(replica.server, gtids, shared.now())
        self._timer = shared.call_later(
            budget + shared.config.connect_timeout, self._silent, replica
        )

    def _silent(self, replica: ServerConnection) -> None:
        """It did not even say that the wait's budget ran out."""
        self._shared.metrics.wait(replica.server.name, "failed", self._since_dispatch())
        _log.warning("replica %s does not answer", replica.server.name)
        self._leave(replica, self.read.silent(self._shared.now()))
        self._session.replicas.give_up(replica)

    def waited(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The WAIT before the statement was answered."""
        trail = self._session.trail
        read = self.read
        trail.wait_us = waited_us = self._since_dispatch()
        self._in_time()
        confirm = read.decision is not None and read.decision.confirm
        row = stream.row if stream.error is None and stream.rows == 1 else None
        result: WaitResult = "failed"
        said = UNANSWERED
        if row is not None:
            asked = confirm or read.asks_order
            values = row[:_VALUES] if asked else row
            if values in _REACHED:
                result = "reached"
            elif values == _TIMED_OUT:
                result = "timeout"
            if asked and result != "failed":
                said = self._said(connection, stream, row[_VALUES:], confirm=confirm)
        self._shared.metrics.wait(connection.server.name, result, waited_us)
        step = read.wait_answered(
            result, said.still, said.ordered, connection.epoch, waited_us / 1e6, self._shared.now()
        )
        if isinstance(step, Pass) and read.note is not None and read.note.stale:
            trail.reason = Reason.WAIT_TIMEOUT
            trail.proof = Proof.NONE
        self._judged(connection, step)

    def confirmed(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The question before the statement was answered."""
        alone = stream.error is None and stream.rows == 1
        values = stream.row or b"" if alone else b""
        said = self._said(connection, stream, values, confirm=True)
        now = self._shared.now()
        step = self.read.confirm_answered(said.still, said.ordered, connection.epoch, now)
        self._judged(connection, step)

    def _said(
        self, connection: ServerConnection, stream: ResponseStream, values: bytes, *, confirm: bool
    ) -> Said:
        """What a replica says of itself, counted and logged."""
        said = parsed(values, confirm=confirm)
        server = connection.server
        metrics = self._shared.metrics
        if said.still is False:
            metrics.confirmed(server.name, "lost")
            if connection.epoch == server.epoch:
                _log.error(
                    "replica %s does not have any more what it had proved: it was rebuilt, or lost"
                    " transactions; until it has them again, reads that need them go elsewhere",
                    server.name,
                )
        elif said.ordered is None:
            metrics.confirmed(server.name, "unanswered")
            _log.warning(
                "replica %s does not say whether it still has what it had proved (%s); the read"
                " goes elsewhere",
                server.name,
                _error(stream, "no answer"),
            )
        elif said.still:
            metrics.confirmed(server.name, "held")
        return said

    def audits(self) -> bool:
        """Whether this read is one of those that are audited."""
        audits = self._shared.audits
        if not audits.on or not self._session.trail.required or self.read.bound:
            return False
        return audits.due()

    def audited(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The replica was asked whether it has what the read that follows must see."""
        trail = self._session.trail
        if trail.proof is Proof.NONE:
            return  # the answer is given openly as stale
        has: bool | None = None
        if stream.error is None and stream.rows == 1 and stream.row in (_HAS, _HAS_NOT):
            has = stream.row == _HAS
        if has:
            self._shared.metrics.audited("held")
        elif has is False:
            # The proxy took the replica for newer than it is: this must never happen.
            self._shared.metrics.audited("stale")
            self._shared.metrics.stale_proven()
            required = "" if trail.required is None else trail.required.text
            _log.error(
                "replica %s does not have what it was taken to have (%s): %s; the read goes to the"
                " primary",
                connection.server.name,
                trail.proof,
                required[:1000],
            )
        else:
            self._shared.metrics.audited("unanswered")
            _log.warning(
                "replica %s does not say whether it has what a read must see (%s); the read goes to"
                " the primary",
                connection.server.name,
                _error(stream, "no answer"),
            )
        step = self.read.audit_answered(has, connection.epoch, self._shared.now())
        self._judged(connection, step)

    def _judged(self, connection: ServerConnection, step: Step) -> None:
        """A replica's answer to a question of the proxy's own was judged."""
        if isinstance(step, Pass):
            self._end_wait(connection.server)
            self._perform(step)
        else:
            self._leave(connection, step)

    # On the primary, which may show less than a replica did

    def settled(self, primary: ServerConnection, stream: ResponseStream) -> None:
        """The WAIT on the primary before a statement was answered: does it show what was seen?

        A statement that may write follows it on the wire, and runs in any case. Any other waits for
        what is decided here.
        """
        session = self._session
        command = session.command
        trail = session.trail
        shows = stream.error is None and stream.rows == 1 and stream.row == b"\x010"
        if not shows:
            cause = _error(stream, "the wait budget ran out")
            _log.warning("the primary has not finished what it was committing: %s", cause)
        if primary.owes_answer:
            if shows:
                session.state.own_scope.settled(primary.server, primary.epoch)
            else:
                trail.unsettled = True
            return
        now_us = time.time_ns() // 1000
        trail.wait_us += now_us - trail.dispatched_us
        trail.dispatched_us = now_us
        # Of a long command nobody has the whole.
        idle = session.replicas.idle if command.packet else []
        step = self.read.settled(shows, primary.epoch, idle, self._shared.now())
        if not isinstance(step, Send) or step.decision.server is not primary.server:
            trail.observed = EMPTY  # the primary's, which does not answer
            session.deactivate()
        self._perform(step)

    def shown_unsettled(self) -> None:
        """What the primary showed, or shows in the transaction that began, may be older."""
        self._session.trail.proof = Proof.NONE
        self._shared.metrics.stale_given()

    # Elsewhere

    def refused(self, connection: ServerConnection, reason: Reason) -> None:
        """A replica cannot run it, or not as the session is."""
        self._leave(connection, self.read.refused(reason, self._shared.now()))

    def lost(self, connection: ServerConnection, cause: str) -> bool:
        """A replica's connection broke; whether the read goes on elsewhere."""
        step = self.read.lost(cause, self._shared.now())
        if isinstance(step, End):
            return False
        self._leave(connection, step)
        return True

    def _leave(self, connection: ServerConnection, step: Step) -> None:
        """A replica's answer does not count: what is next?

        The answer itself may still come, and is drained; until then the replica is not asked.
        """
        session = self._session
        trail = session.trail
        answer = session.answer
        self._end_wait(connection.server)
        connection.drained = 0
        snapshot = session.state.snapshot
        if snapshot is not None and snapshot is connection.snapshot:
            # It was to be taken by this very read.
            snapshot.server = None
            if snapshot.implied:
                session.state.snapshot = None
            end_transaction(connection)
        trail.received = 0
        answer.held = b""
        session.deactivate()
        self._perform(step)

    def _end_wait(self, server: Server) -> None:
        """The WAIT in front is over: those who joined it need not wait any more."""
        self._in_time()
        wait = self._wait
        if wait is not None:
            self._wait = None
            self._shared.waits.end(server, wait)

    def _since_dispatch(self) -> int:
        return time.time_ns() // 1000 - self._session.trail.dispatched_us


def _nowhere(data: bytes) -> None:
    """It is not to run."""


def _error(stream: ResponseStream, otherwise: str) -> str:
    """What a server's error says, if there is one."""
    return otherwise if stream.error is None else str(ErrPacket.parse(stream.error))

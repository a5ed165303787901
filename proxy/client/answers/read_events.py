"""What happens to a session's read, told to its machine (`routing.request.read`).

Each event is judged, counted and timed here, and gives the machine's next step, which the session
takes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.gtid import EMPTY
from proxy.client.statements.audit import audit_result
from proxy.client.statements.confirmation import confirmation_result
from proxy.client.statements.probe import probe_result
from proxy.client.statements.wait import wait_result
from proxy.client.statements.wait_for_owned import shows_all
from proxy.wall_clock import utc_us
from routing.consistency.decision import Proof, Reason
from routing.request.step import Pass, Send

if TYPE_CHECKING:
    from typing import Literal

    from proxy.client.session_context import SessionContext
    from proxy.server.connection import ServerConnection
    from proxy.server.gtid_question import Answer as ProbeAnswer
    from routing.request.step import Note, Step
    from routing.servers.topology import Server
    from routing.servers.waits import Follower

    Joined = Literal["shared", "timeout"]

_log = logging.getLogger(__name__)


class ReadEvents:
    """Tells the machine what happens to one session's reads."""

    def __init__(self, session: SessionContext) -> None:
        shared = session.shared
        self._shared = shared
        self._now = shared.now
        self._metrics = shared.metrics
        self._current = session.current
        self._read = session.read
        self._read_timers = session.read_timers
        self._servers = session.servers
        self._state = session.state

    def count(self, note: Note) -> None:
        """Count and log what an event brought."""
        metrics, ledger, outcome = self._metrics, self._shared.ledger, self._current.outcome
        if note.left is not None and note.why is not None:
            fallback = f"{note.left.name}:{note.why.value}"
            outcome.fallbacks += f",{fallback}" if outcome.fallbacks else fallback
            metrics.fallback(note.left.name, note.why.value)
            if note.proved is not None:
                ledger.record_wait(note.left, note.proved, outcome)
        if note.crowded is not None:
            metrics.crowded(note.crowded)
        if note.stale:
            metrics.stale_given()
        if note.scope is not None:
            ledger.record_loss(note.scope, note.lost)
        if note.observation is not None:
            ledger.record_observation(self._shared.topology.primary, note.observation)

    # It waits for its turn, or for what others asked

    def on_probe(self, answer: ProbeAnswer | None) -> Step:
        """What the primary has, by a question that was sent after `Ask`; None if it cannot say."""
        self._read_timers.cancel_timer()
        self._current.outcome.dispatched_us = utc_us()
        executed = None if answer is None else answer.executed
        owned = EMPTY if answer is None else self._shared.topology.committed(answer.owned)
        return self._read.probe_answered(executed, owned, self._now())

    def primary_silent(self) -> Step:
        """The primary did not say what it has, or not within the read's budget."""
        self._read_timers.cancel_timer()
        self._current.outcome.dispatched_us = utc_us()
        return self._read.primary_silent(self._now())

    def on_released(self, follower: Follower) -> Step:
        """The WAIT that was joined has ended, well or not."""
        if self._read_timers.joined:
            self._leave_joined("shared", follower)
        return self._read.released(self._now())

    def out_of_time(self, follower: Follower) -> Step:
        """The WAIT that was joined did not end in time."""
        self._leave_joined("timeout", follower)
        return self._read.out_of_time(self._now())

    def _leave_joined(self, result: Joined, follower: Follower) -> None:
        """Rely on the joined WAIT no more."""
        read = self._read
        self._read_timers.leave(follower)
        waited_us = round((self._now() - read.joined_at) * 1e6)
        self._current.outcome.wait_us += waited_us
        if read.decision is not None:
            self._metrics.wait(read.decision.server.name, result, waited_us)

    def turn_came(self) -> Step:
        """The delay is over."""
        self._read_timers.cancel_timer()
        return self._read.turn_came(self._now())

    # Servers answer questions in front of it

    def silent(self, replica: ServerConnection) -> Step:
        """The replica did not even say that the wait's budget ran out."""
        self._metrics.wait(replica.server.name, "failed", self._since_dispatch())
        _log.warning("replica %s does not answer", replica.server.name)
        step = self._read.silent(self._now())
        self.leave(replica)
        return step

    def on_wait(self, replica: ServerConnection) -> Step:
        """The WAIT in front of the statement was answered."""
        read, outcome = self._read, self._current.outcome
        outcome.wait_us = waited_us = self._since_dispatch()
        self._read_timers.cancel_timer()
        decision = read.decision
        confirm = decision is not None and decision.confirm
        result, confirmation = wait_result(
            replica,
            waited_us,
            self._metrics,
            confirm=confirm,
            order=read.asks_order,
            killed=self._current.killed_at >= outcome.sent_at,
            is_brief=decision is not None and decision.is_brief,
        )
        if result == "interrupted":
            # The KILL met the WAIT, and the server has gone on with the statement behind it.
            self._servers.kill_active("kill what follows an interrupted wait")
        step = read.wait_answered(
            result,
            confirmation.still,
            confirmation.ordered,
            replica.epoch,
            waited_us / 1e6,
            self._now(),
        )
        if isinstance(step, Pass) and result == "reached" and decision is not None:
            self._shared.ledger.record_remainder(decision, outcome)
        if isinstance(step, Pass) and read.note is not None and read.note.stale:
            outcome.reason = Reason.WAIT_TIMEOUT
            outcome.proof = Proof.NONE
            snapshot = self._state.transaction.snapshot
            if snapshot is not None and snapshot is replica.mirror.transaction_reads:
                snapshot.stale = True
        return self._after_check(replica, step)

    def on_confirmation(self, replica: ServerConnection) -> Step:
        """The question in front of the statement was answered."""
        confirmation = confirmation_result(replica, self._metrics)
        now = self._now()
        step = self._read.confirm_answered(
            confirmation.still, confirmation.ordered, replica.epoch, now
        )
        return self._after_check(replica, step)

    def on_audit(self, replica: ServerConnection) -> Step | None:
        """The replica was asked whether it has what the read that follows must see."""
        if self._current.outcome.proof is Proof.NONE:
            return None  # the answer is given openly as stale
        has = audit_result(replica, self._current.outcome, self._metrics)
        step = self._read.audit_answered(has, replica.epoch, self._now())
        return self._after_check(replica, step)

    def _after_check(self, replica: ServerConnection, step: Step) -> Step:
        """A replica's answer to one of the proxy's questions was judged."""
        if isinstance(step, Pass):
            self._read_timers.end_wait()
        else:
            self.leave(replica)
        return step

    def on_wait_for_owned(self, primary: ServerConnection) -> Step | None:
        """The WAIT on the primary in front of a statement was answered: does it show what was seen?

        A statement that may write follows it on the wire, and runs in any case. Any other waits for
        what is decided here.
        """
        outcome = self._current.outcome
        shows = shows_all(primary.stream)
        if primary.owes_answer:
            if shows:
                self._state.own_scope.on_primary_settled(primary.server, primary.epoch)
            else:
                outcome.unsettled = True
            return None
        idle = self._after_settling()
        return self._leave_primary(
            primary, self._read.settled(shows, primary.epoch, idle, self._now())
        )

    def unsettled(self, primary: ServerConnection) -> Step:
        """The primary did not even say that this WAIT ran out."""
        primary.late_waits += 1
        _log.warning("the primary %s does not answer", primary.server.name)
        return self._leave_primary(
            primary, self._read.unsettled(self._after_settling(), self._now())
        )

    def _after_settling(self) -> list[Server]:
        """The WAIT is over; which replicas could be sent the statement at once."""
        self._read_timers.cancel_timer()
        outcome, now_us = self._current.outcome, utc_us()
        outcome.wait_us += now_us - outcome.dispatched_us
        outcome.dispatched_us = now_us
        # A long command cannot be run again: nobody has all of it.
        return self._servers.idle if self._current.command.packet else []

    def _leave_primary(self, primary: ServerConnection, step: Step) -> Step:
        """Leave it, unless the statement is to be sent there."""
        outcome, servers = self._current.outcome, self._servers
        if not isinstance(step, Send) or step.decision.server is not primary.server:
            outcome.observed = EMPTY  # the primary's, which does not answer
            servers.deactivate()
        return step

    def primary_told(self, primary: ServerConnection) -> None:
        """Its `gtid_executed`, asked in front of a read; without it what is required is unknown."""
        answer = probe_result(primary)
        if answer is None:
            return
        executed, server, shared = answer.executed, primary.server, self._shared
        if not answer.names:
            shared.sessions.stopped_naming(server)
        self._state.on_probe(executed, shared.topology.committed(answer.owned))
        server.add_proof(executed, primary.epoch)
        asked_us, answered_us = self._current.outcome.dispatched_us, utc_us()
        shared.ledger.record_proof(server, "probed", executed, asked_us, answered_us)

    def _since_dispatch(self) -> int:
        return utc_us() - self._current.outcome.dispatched_us

    # It goes elsewhere

    def on_opened(self, failed: Reason | None) -> Step:
        """There is a connection to the replica, or a reason why not."""
        return self._read.opened(failed, self._now())

    def on_refused(self, replica: ServerConnection, reason: Reason) -> Step:
        """A replica cannot run the read, or not with the session's state."""
        step = self._read.refused(reason, self._now())
        self.leave(replica)
        return step

    def leave(self, replica: ServerConnection) -> None:
        """A replica's answer does not count.

        The answer itself may still come, and is drained; until then the replica is not asked.
        """
        transaction, outcome = self._state.transaction, self._current.outcome
        self._read_timers.end_wait()
        replica.drained = 0
        decision = outcome.decision
        inside = decision is not None and decision.reason is Reason.TRANSACTION
        if transaction.withdraw_read(replica.mirror.transaction_reads, inside=inside):
            self._servers.end_transaction(replica)
        outcome.received = 0
        self._current.answer.held = b""
        self._servers.deactivate()

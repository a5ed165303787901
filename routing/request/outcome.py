"""What became of a command, for the routing log, the metrics and SHOW TIDEGATE LAST."""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Decision, Proof, Reason
from routing.consistency.independence import Independence
from routing.request.command import Command

_NOTHING: Final[frozenset[str]] = frozenset()
_NONE: Final[list[tuple[int, bytes]]] = []


class CommandOutcome:
    """What became of one command, from its arrival on.

    Attributes:
        may_write: it may have written, judging by its class or by its answer.
        decision: where it went last.
        reason: why; differs from the decision's where the wait timed out and policy let the answer
            pass.
        proof: what allowed the answer.
        required: what a read had to see; None if unknown.
        dispatched_us: when it went to the server that answered it, UTC us.
        sent_at: when it was sent to a replica, with what stands in front of it, monotonic s.
        wait_us: how long it waited for a replica.
        fallbacks: servers that were tried before, and why they were left.
        unsettled: the primary had not finished what it was committing, and it ran all the same.
        received: bytes of the answer, as the server sent it.
        rows: of the answer.
        error: the code that the answer ended with, or 0.
        warnings: of the answer.
        own: GTIDs that the server reported as its own.
        observed: the server's whole set at its end, where that is tracked.
        unnamed: OK packets of the answer that told of rows and of no GTID (`ResponseStream`).
        tracked_variables: system variables of which trackers told the value.
        state_changed: a tracker said that the session's state changed.
        untracked_change: an OK packet said so, but not what changed.
        snapshot_us: when the snapshot was asked for that it shares with others, UTC us; else 0.
        conflicts: it may have shown another state than earlier reads of its transaction.
        unlogged: it may have written something without a GTID.
        ended_us: when it had ended, UTC us; with the next two, set when it is recorded in the log.
        ordinal: its number among its session's.
        own_known: `own` names whatever it may have committed.
    """

    def __init__(self, command: Command, decision: Decision | None = None) -> None:
        """Of a command that has come, and for which this was decided already."""
        self.may_write = command.may_write
        self.decision = decision
        self.reason: Reason | None = None
        self.proof: Proof | None = None
        if decision is not None:
            self.reason = decision.reason
            self.proof = decision.proof
        self.required: GtidSet | None = EMPTY
        self.dispatched_us = command.arrived_us
        self.sent_at = 0.0
        self.wait_us = 0
        self.fallbacks = ""
        self.unsettled = False
        self.received = 0
        self.rows = 0
        self.error = 0
        self.warnings = 0
        self.own = EMPTY
        self.observed = EMPTY
        self.unnamed = _NONE
        self.tracked_variables = _NOTHING
        self.state_changed = False
        self.untracked_change = False
        self.snapshot_us = 0
        self.conflicts = False
        self.unlogged = False
        self.ended_us = 0
        self.ordinal = 0
        self.own_known = True

    def set_decision(self, decision: Decision) -> None:
        """It goes to this server, and no longer shares another server's snapshot."""
        self.decision = decision
        self.reason = decision.reason
        self.proof = decision.proof
        self.snapshot_us = 0

    def on_remainder(self) -> None:
        """A WAIT for what remained of the required set has ended well; the rest does not matter."""
        self.proof = Proof.INDEPENDENT

    @property
    def independence(self) -> Independence | None:
        """What the answer does not depend on; None if its proof is no independent one."""
        decision = self.decision
        if decision is None or self.proof is not Proof.INDEPENDENT:
            return None
        return decision.independence

    @property
    def proof_set(self) -> GtidSet | None:
        """What its server was taken to have, or was waited for to have; None if nothing."""
        decision = self.decision
        if decision is None:
            return None
        gtids, independence = decision.proof_set, self.independence
        if gtids is None or independence is None:
            return gtids
        return gtids | independence.known  # it may have waited for a part alone

    def forget_changes(self) -> None:
        """What trackers told so far of the session's state was taken over."""
        self.state_changed = False
        self.tracked_variables = _NOTHING

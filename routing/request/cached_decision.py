"""Where a plain read of a plain session goes: where the last one went, or as the policy says anew.

The policy (`routing.policy`) looks at all that a session and the servers are. For a plain session
(`routing.session.plain`) little of that changes from one read to the next: what must be seen, if
something was written, and whether the replica that was chosen can still be asked. While what was
looked at is the same, so is the decision, and it need not be made again. It stands only if the
replica is the first that the session asks: of another one the policy would not think again before
it had thought of the first.

Where none stands, as behind a write, only the replicas are to be thought of anew, and the policy is
asked for that part alone. So it says which replica the read waits for.
"""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Decision, Level, Proof, Reason, Scope
from routing.consistency.requirement import Requirement
from routing.consistency.rules import Rules
from routing.consistency.scope import ScopeState
from routing.policy import among_replicas
from routing.request import wait_results
from routing.request.wait_results import WaitResult
from routing.servers.topology import Topology
from routing.servers.waits import Waits
from routing.session.session import Session

# Looked up once.
_OWN_WRITES: Final = Level.READ_OWN_WRITES
_CONNECTION: Final = Scope.CONNECTION
_KNOWN: Final = Proof.KNOWN
_WAITED: Final = Proof.WAITED
_READ: Final = Reason.READ


class CachedDecision:
    """That of one session.

    Attributes:
        scope: the one that the last plain read was decided about in. What that must see is all of
            the scope's own.
        relies: that is something.
        requirement: what the last plain read must see for which no decision stood.
    """

    def __init__(self, session: Session, topology: Topology, waits: Waits) -> None:
        """None stands yet; `waits` are those of all sessions."""
        self._session = session
        self._topology = topology
        self._waits = waits
        self.scope = session.own_scope
        self.relies = False
        self.requirement: Final = Requirement(session.rules)
        self._required: GtidSet = EMPTY  # by the decision that stands
        self._relies = False  # that is something
        self._decision: Decision | None = None
        self._epoch = 0
        self._term = 0

    def decided(self, decision: Decision, scope: ScopeState, level: Level) -> None:
        """The policy has decided about a read in a scope, at this level."""
        session, topology = self._session, self._topology
        if decision.proof is not _KNOWN or decision.confirm or level is not _OWN_WRITES:
            return
        replicas = topology.replicas
        first = session.preferred if session.preferred < len(replicas) else 0
        if decision.server is replicas[first]:
            self._decision = decision
            self._required = required = scope.own
            self._relies = bool(required)
            self._epoch = decision.server.epoch
            self._term = topology.term

    def wait_answered(
        self,
        decision: Decision,
        result: WaitResult,
        requirement: Requirement,
        epoch: int,
        sent_at: float,
        waited: float,
        now: float,
    ) -> None:
        """A WAIT was answered: its replica is known by that, and the next read may rely on it.

        Args:
            decision: by which it was sent.
            result: how it ended.
            requirement: what the read must see.
            epoch: the connection's.
            sent_at: when the WAIT was sent, monotonic s.
            waited: how long it took, s.
            now: monotonic, s.
        """
        scope, gtids = requirement.scope, decision.proof_set
        if (
            wait_results.waited(decision, result, requirement, epoch, sent_at, waited, now)
            and scope is not None
            and gtids is scope.own
        ):
            known = Decision(decision.server, _READ, _KNOWN, gtids)
            self.decided(known, scope, requirement.rules.level)

    def of(self, now: float) -> Decision | None:
        """The decision about a plain read of a plain session, on a replica that can be sent it.

        Its proof is KNOWN or WAITED, and the replica is to be asked for nothing else. None where
        the read is the machine's (`routing.request.read`).

        Args:
            now: monotonic, s.
        """
        session, topology = self._session, self._topology
        scope, rules = session.own_scope, session.rules
        if rules.scope is not _CONNECTION:
            scope = session.reading(rules, topology.term, now)
        if scope.unknown or scope.unlogged or scope.lost_untold:
            return None
        self.scope = scope
        decision = self._decision
        if (
            decision is not None
            and scope.own is self._required
            and scope.term == self._term
            and topology.stands(decision.server, self._epoch, self._term, now, self._relies)
        ):
            self.relies = self._relies
            return decision
        return self._anew(scope, rules, now)

    def _anew(self, scope: ScopeState, rules: Rules, now: float) -> Decision | None:
        """What the policy decides: of all that it looks at only the replicas are left."""
        topology = self._topology
        if topology.refusals.until or not topology.primary.gtids:
            return None
        if scope.term != topology.term or scope.is_long:
            return None
        required = scope.own
        requirement = self.requirement
        requirement.rules = rules
        requirement.scope = scope
        requirement.gtids = required
        decision = among_replicas(self._session, topology, now, requirement)
        if decision.confirm:
            return None
        self.relies = bool(required)
        if decision.proof is _KNOWN:
            self.decided(decision, scope, rules.level)
            return decision
        if decision.proof is not _WAITED:
            return None
        joins = self._waits.find(decision.server, required, now) is not None
        return None if joins else decision

"""Where a plain read of a plain session goes: where the last one went, or as the policy says anew.

The policy (`routing.policy`) looks at all that a session and the servers are. For a plain session
(`routing.session.plain`) little of that changes from one read to the next: what must be seen, if
something was written or seen, and whether the replica that was chosen can still be asked. While
what was looked at is the same, so is the decision, and it need not be made again. It stands only if
the replica is the first that the session asks, or the only one, since the session has seen what
that shows: of another one the policy would not think again before it had thought of the first.

Where none stands, as behind a write, only the level and the replicas are to be thought of anew, and
the policy is asked for that part alone. So it says which replica the read waits for.
"""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Decision, Level, Proof, Reason, Scope
from routing.consistency.requirement import Requirement
from routing.consistency.rules import REMEMBERING
from routing.consistency.scope import ScopeState
from routing.policy import by_level, required_by
from routing.request import wait_results
from routing.request.wait_results import WaitResult
from routing.servers.topology import Topology
from routing.servers.waits import Waits
from routing.session.session import Session

# Looked up once.
_BEST_EFFORT: Final = Level.BEST_EFFORT
_BOUNDED: Final = Level.BOUNDED_STALENESS
_OWN_WRITES: Final = Level.READ_OWN_WRITES
_CONNECTION: Final = Scope.CONNECTION
_KNOWN: Final = Proof.KNOWN
_WAITED: Final = Proof.WAITED
_NONE: Final = Proof.NONE
_READ: Final = Reason.READ


class CachedDecision:
    """That of one session.

    Attributes:
        scope: the one that the last plain read was decided about in; None at BEST_EFFORT.
        required: what it must see.
        requirement: that of the last plain read for which no decision stood.
    """

    def __init__(self, session: Session, topology: Topology, waits: Waits) -> None:
        """None stands yet; `waits` are those of all sessions."""
        self._session = session
        self._topology = topology
        self._waits = waits
        self.scope: ScopeState | None = session.own_scope
        self.required: GtidSet = EMPTY
        self.requirement: Final = Requirement(session.rules)
        # The decision that stands, and what it was made for.
        self._decision: Decision | None = None
        self._required: GtidSet | None = EMPTY
        self._level = _OWN_WRITES
        self._follows = False  # only its server may be asked, which has shown what was seen
        self._relies = False
        self._epoch = 0
        self._term = 0

    def decided(self, decision: Decision, requirement: Requirement) -> None:
        """The policy has decided about a read that must see this."""
        if decision.confirm:
            return
        level = requirement.rules.level
        if decision.proof is not _KNOWN and level is not _BEST_EFFORT:
            return
        session, topology = self._session, self._topology
        server, replicas = decision.server, topology.replicas
        first = session.preferred if session.preferred < len(replicas) else 0
        follows = level in REMEMBERING
        if server is (requirement.seen_on if follows else replicas[first]):
            self._decision = decision
            self._required = requirement.gtids
            self._level = level
            self._follows = follows
            self._relies = requirement.relies
            self._epoch = server.epoch
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
        if wait_results.waited(decision, result, requirement, epoch, sent_at, waited, now):
            gtids = decision.proof_set
            if gtids is requirement.gtids:
                self.decided(Decision(decision.server, _READ, _KNOWN, gtids), requirement)

    def of(self, now: float) -> Decision | None:
        """The decision about a plain read of a plain session, on a replica that can be sent it.

        Its proof is KNOWN, WAITED, or none at BEST_EFFORT, and the replica is to be asked for
        nothing else. None where the read is the machine's (`routing.request.read`).

        Args:
            now: monotonic, s.
        """
        session, topology = self._session, self._topology
        rules = session.rules
        level = rules.level
        scope: ScopeState | None = None
        required = EMPTY
        if level is not _BEST_EFFORT:
            scope = session.own_scope
            if rules.scope is not _CONNECTION:
                scope = session.reading(rules, topology.term, now)
            if scope.unlogged or scope.lost_untold:
                return None
            known = required_by(scope, rules, topology, now, None)
            if known is None or (level is _BOUNDED and not self._is_logged(known, now)):
                return None
            required = known
        self.scope = scope
        self.required = required
        decision = self._decision
        if (
            decision is not None
            and required is self._required
            and level is self._level
            and (not self._follows or self._goes_on(scope, decision))
            and topology.stands(decision.server, self._epoch, self._term, now, self._relies)
        ):
            return decision
        return self._anew(scope, required, now)

    def _is_logged(self, required: GtidSet, now: float) -> bool:
        """Whether the log has the observation that a read at BOUNDED_STALENESS relies on."""
        since = now - self._session.rules.staleness
        return self._topology.observations.is_logged(since, required)

    def _goes_on(self, scope: ScopeState | None, decision: Decision) -> bool:
        """Whether the decision's server is the one that has shown what was seen."""
        return (
            scope is not None
            and scope.seen_on is decision.server
            and scope.seen_epoch == self._epoch
        )

    def _anew(self, scope: ScopeState | None, required: GtidSet, now: float) -> Decision | None:
        """What the policy decides: of all that it looks at, the level and replicas are left."""
        session, topology = self._session, self._topology
        if topology.refusals.until:
            return None
        requirement = self.requirement
        requirement.rules = session.rules
        requirement.scope = scope
        requirement.gtids = required
        decision = by_level(session, topology, now, requirement)
        if decision.confirm:
            return None
        proof = decision.proof
        if proof is _KNOWN or proof is _NONE:
            self.decided(decision, requirement)
            return decision
        if proof is not _WAITED:
            return None
        joins = self._waits.find(decision.server, required, now) is not None
        return None if joins else decision

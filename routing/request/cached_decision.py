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
from routing.consistency.rules import Rules
from routing.consistency.scope import ScopeState
from routing.policy import by_level, required_by
from routing.request import wait_results
from routing.request.wait_results import WaitResult
from routing.servers.topology import Topology
from routing.servers.waits import Waits
from routing.session.session import Session
from routing.sql.table_references import TableNames

# Looked up once.
_BEST_EFFORT: Final = Level.BEST_EFFORT
_BOUNDED: Final = Level.BOUNDED_STALENESS
_OWN_WRITES: Final = Level.READ_OWN_WRITES
_MONOTONIC: Final = Level.MONOTONIC_READS
_CACHED: Final = (_OWN_WRITES, _MONOTONIC)
_CONNECTION: Final = Scope.CONNECTION
_KNOWN: Final = Proof.KNOWN
_WAITED: Final = Proof.WAITED
_INDEPENDENT: Final = Proof.INDEPENDENT
_NONE: Final = Proof.NONE
_READ: Final = Reason.READ
_DEARER: Final = Reason.WAIT_DEARER


class CachedDecision:
    """The last decision about a plain read of one session.

    Attributes:
        scope: the one that the last plain read was decided about in; None at BEST_EFFORT.
        required: what it must see.
        relies: that is something.
        requirement: that of the last plain read for which no decision stood.
    """

    def __init__(self, session: Session, topology: Topology, waits: Waits) -> None:
        """None stands yet; `waits` are those of all sessions."""
        self._session = session
        self._topology = topology
        self._waits = waits
        self.scope: ScopeState | None = session.own_scope
        self.required: GtidSet = EMPTY
        self.relies = False
        self.requirement: Final = Requirement(session.rules)
        # The decision that stands, and what it was made for.
        self._decision: Decision | None = None
        self._level = _OWN_WRITES
        self._required: GtidSet = EMPTY
        self._own: GtidSet = EMPTY
        self._observed: GtidSet | None = None  # if what was seen counts
        self._relies = False
        self._expires = False  # its proof has to be confirmed some time
        self._epoch = 0
        self._term = 0

    def forget(self) -> None:
        """None stands: another replica is to be asked first."""
        self._decision = None

    def decided(self, decision: Decision, requirement: Requirement) -> None:
        """The policy has decided about a read that must see this."""
        scope, required, level = requirement.scope, requirement.gtids, requirement.rules.level
        if decision.proof is not _KNOWN or decision.confirm or level not in _CACHED:
            return
        if scope is None or required is None or requirement.probed is not None:
            return
        session, topology = self._session, self._topology
        server = decision.server
        follows = level is _MONOTONIC
        if server is (scope.seen_on if follows else topology.first_of(session.preferred)):
            self._decision = decision
            self._level = level
            self._required = required
            self._own = scope.own
            self._observed = scope.observed if follows else None
            self._relies = bool(required)
            self._expires = requirement.relies
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
        scope, gtids = requirement.scope, decision.proof_set
        if (
            wait_results.record_wait(decision, result, requirement, epoch, sent_at, waited, now)
            and scope is not None
            and gtids is scope.required(requirement.rules.level)
        ):
            known = Decision(decision.server, _READ, _KNOWN, gtids)
            self.decided(known, requirement)

    def of(self, names: TableNames | None, now: float) -> Decision | None:
        """The decision about a plain read of a plain session, on a server that can be sent it.

        Its proof is KNOWN, INDEPENDENT, WAITED, or none at BEST_EFFORT, and the replica is to be
        asked for nothing else. It is PRIMARY only where a wait is not worth it, at READ_OWN_WRITES;
        the caller sees whether the primary may be given the read. None where the read is the
        machine's (`routing.request.read`). Only a decision whose proof is KNOWN ever stands for
        another read: what an INDEPENDENT one has proved holds for its tables alone.

        Args:
            names: those of what it reads; None if all that it must see may matter.
            now: monotonic, s.
        """
        session, topology = self._session, self._topology
        rules = session.rules
        level = rules.level
        if level is _BEST_EFFORT:
            return self._anew(None, rules, names, now)
        scope = session.own_scope
        if rules.scope is not _CONNECTION:
            scope = session.reading(rules, topology.term, now)
        if scope.unlogged or scope.lost_untold:
            return None
        decision = self._decision
        if (
            decision is not None
            and level is self._level
            and scope.own is self._own
            and not scope.unknown
            and scope.term == self._term
            and (self._observed is None or self._goes_on(scope, decision))
            and topology.stands(decision.server, self._epoch, self._term, now, self._expires)
        ):
            self.scope = scope
            self.required = self._required
            self.relies = self._relies
            return decision
        return self._anew(scope, rules, names, now)

    def _goes_on(self, scope: ScopeState, decision: Decision) -> bool:
        """Whether no more was seen than what the decision's server has shown, and was told of."""
        return (
            scope.observed is self._observed
            and not scope.unseen
            and scope.seen_on is decision.server
            and scope.seen_epoch == self._epoch
        )

    def _anew(
        self, scope: ScopeState | None, rules: Rules, names: TableNames | None, now: float
    ) -> Decision | None:
        """What the policy decides: of all that it looks at, the level and replicas are left."""
        session, topology = self._session, self._topology
        if topology.refusals.until:
            return None
        required: GtidSet | None = EMPTY
        if scope is not None:
            required = required_by(scope, rules, topology, now, None)
        if required is None:
            return None
        requirement = self.requirement
        requirement.rules = rules
        requirement.scope = scope
        requirement.gtids = required
        decision = by_level(session, topology, now, requirement, names)
        if not self._is_for_fast_path(decision, rules, now):
            return None
        if decision.proof is _KNOWN:
            self.decided(decision, requirement)
        if rules.level is _BOUNDED and not self._is_logged(required, now):
            return None
        self.scope = scope
        self.required = required
        self.relies = bool(required)
        return decision

    def _is_for_fast_path(self, decision: Decision, rules: Rules, now: float) -> bool:
        """Whether nothing else is to be asked or waited for, as far as the decision tells."""
        if decision.confirm:
            return False
        proof = decision.proof
        if proof is _WAITED:
            gtids = decision.proof_set
            return (
                gtids is not None
                and not decision.is_brief
                and self._waits.find(decision.server, gtids, now) is None
            )
        if decision.reason is _DEARER:
            return rules.level is _OWN_WRITES
        return proof is _KNOWN or proof is _INDEPENDENT or proof is _NONE

    def _is_logged(self, required: GtidSet, now: float) -> bool:
        """Whether the log has the observation that a read at BOUNDED_STALENESS relies on."""
        since = now - self._session.rules.staleness
        return self._topology.observations.is_logged(since, required)

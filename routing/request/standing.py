"""The last decision about a read, for as long as nothing that it rests on has changed.

The policy (`routing.policy`) looks at all that a session and the servers are. For a plain session
(`routing.session.plain`) little of that changes from one read to the next: what must be seen, if
something was written, and whether the replica that was chosen can still be asked. While what was
looked at is the same, so is the decision, and it need not be made again. It stands only if the
replica is the first that the session asks: of another one the policy would not think again before
it had thought of the first.
"""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Decision, Level, Proof, Reason, Scope
from routing.consistency.scope import ScopeState
from routing.servers.topology import Topology
from routing.session.session import Session

# Looked up once.
_OWN_WRITES: Final = Level.READ_OWN_WRITES
_CONNECTION: Final = Scope.CONNECTION
_KNOWN: Final = Proof.KNOWN
_READ: Final = Reason.READ


class Standing:
    """That of one session.

    Attributes:
        required: what the read that was decided about must see.
        relies: that is something.
    """

    def __init__(self, session: Session, topology: Topology) -> None:
        """None stands yet."""
        self._session = session
        self._topology = topology
        self.required: GtidSet = EMPTY
        self._decision: Decision | None = None
        self._epoch = 0
        self._term = 0
        self.relies = False

    def decided(self, decision: Decision, scope: ScopeState, level: Level) -> None:
        """The policy has decided about a read in a scope, at this level."""
        session, topology = self._session, self._topology
        if decision.proof is not _KNOWN or decision.confirm or level is not _OWN_WRITES:
            return
        replicas = topology.replicas
        first = session.preferred if session.preferred < len(replicas) else 0
        if decision.server is replicas[first]:
            self._decision = decision
            self.required = required = scope.own
            self.relies = bool(required)
            self._epoch = decision.server.epoch
            self._term = topology.term

    def waited(self, decision: Decision, scope: ScopeState | None, level: Level) -> None:
        """A WAIT has proved that a replica has its set: the next read may rely on that."""
        gtids = decision.proof_set
        if scope is not None and gtids is scope.own:
            self.decided(Decision(decision.server, _READ, _KNOWN, gtids), scope, level)

    def of(self, now: float) -> Decision | None:
        """The decision about a plain read of a plain session, if one stands.

        Args:
            now: monotonic, s.
        """
        decision = self._decision
        if decision is None:
            return None
        session, topology = self._session, self._topology
        scope, rules = session.own_scope, session.rules
        if rules.scope is not _CONNECTION:
            scope = session.reading(rules, topology.term, now)
        if scope.own is not self.required or scope.unknown or scope.unlogged or scope.lost_untold:
            return None
        if scope.term != self._term:
            return None
        server = decision.server
        stands = topology.stands(server, self._epoch, self._term, now, self.relies)
        return decision if stands else None

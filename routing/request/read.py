"""A read in progress: where it is sent, what it waits for, and what happens if it must leave.

Theory of operation
===================

The machine is told of an event, and answers with one `Step`: what is to be done next. It opens no
socket, sets no timer and counts nothing; its caller does, and tells it the result. What is to be
counted is in `note`, until the next event. Times are monotonic, in seconds.

`begin` asks the policy. Mostly it says at once which server can answer: SENT. Where only the
primary can tell what the read must see (STRONG, a wider scope that is not known, a primary of a new
term), the read is ASKING it, and the policy chooses again with the answer. A primary that is known
to be silent is not asked; one that does not answer within the budget ends the read by its timeout
policy, with an error or a stale answer: it is not sent where nobody answers. Where another read's
WAIT is for the same set, this one has JOINED it, and the policy chooses again at its end. A
connection may have to be opened first: OPENING. So each path begins with a choice, and a choice
takes no time: it is not a stage.

On a replica the answers to a WAIT, to a question whether it still has what it had proved, and to an
audit come before the statement's own; each lets the read go on or withdraws it. A replica that
refuses, is silent or is lost before the first byte went to the client withdraws it, too. The read
then runs on the primary. A read that leaves a late replica needs a token of a rate limit
(`Topology.primary_rate_limit`), so that a lag spike cannot flood the primary: it may be DELAYED, or
refused. From the first byte on (PASSING) no other server can answer it.

The primary itself may have to finish first what it is committing (`policy.shows_less`): the
statement is held until that was `settled`, or it goes elsewhere.

Any statement may be given to `begin`: one that is not a read is sent at once where the policy says.

How far a read has come is the stage of its command (`routing.request.command_progress`): the
machine has none of its own. `routing.request.stage` has the stages, and the table of which event
may come at which.
"""

from collections.abc import Collection
from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import (
    Decision,
    Level,
    LostPolicy,
    Proof,
    Reason,
    Scope,
    TimeoutPolicy,
)
from routing.consistency.requirement import Requirement
from routing.consistency.rules import CURRENT, REMEMBERING, Rules
from routing.consistency.scope import ScopeState
from routing.policy import choose, may_be_stale, on_primary, required_by, stale
from routing.request import refusal, wait_results
from routing.request.cached_decision import CachedDecision
from routing.request.command_progress import CommandProgress
from routing.request.pending_probe import PendingProbe
from routing.request.stage import (
    ANSWERING,
    ASKING,
    DELAYED,
    JOINED,
    OPENING,
    PASSING,
    SENT,
    Event,
    Stage,
)
from routing.request.step import (
    Ask,
    Delay,
    End,
    Join,
    Known,
    Note,
    Nothing,
    Open,
    Pass,
    Refuse,
    Send,
    Step,
)
from routing.request.wait_results import WaitResult
from routing.servers.topology import Server, Topology
from routing.servers.waits import Wait, Waits
from routing.session.session import Session
from routing.sql.statement import Statement, StatementClass
from routing.transaction.snapshot import Snapshot

# Members of enums, looked up once.
_A_READ: Final = StatementClass.READ
_APPLICATION: Final = Scope.APPLICATION
_BEST_EFFORT: Final = Level.BEST_EFFORT
_BOUNDED: Final = Level.BOUNDED_STALENESS
_BEHIND: Final = Reason.REPLICA_BEHIND
_OF_LATE_REPLICAS: Final = (_BEHIND, Reason.WAIT_DEARER)
_LAGGING: Final = Reason.REPLICA_LAGGING
_IN_TRANSACTION: Final = Reason.TRANSACTION
_PROBED: Final = Proof.PROBED
_WAITED: Final = Proof.WAITED

_OF_ALL_SEEN: Final = (Level.STRONG, *REMEMBERING)
"""Levels whose reads must see what the primary is committing, too: it may show that already."""

_DECIDED: Final = (JOINED, OPENING, SENT, DELAYED)
"""Stages at which it is known where the command goes."""

_FOR_WANT_OF_PROOF: Final = (
    *(Reason.UNKNOWN_REQUIRED, Reason.PROBE_FAILED, Reason.COMMIT_ORDER),
    *(Reason.REPLICA_BEHIND, Reason.WAIT_DEARER, Reason.WAIT_TIMEOUT, Reason.AUDIT_FAILED),
    Reason.REPLICA_LOST,
)
"""Why a read runs on the primary for which a replica could be asked, if it may be stale."""

_QUESTION_S: Final = 0.01
"""A question to the primary that takes less leaves the wait budget as it is: so the WAITs of a
session have one time limit, and one text."""

_PASS: Final = Pass()
_NOTHING: Final = Nothing()


class Read:
    """The reads of one session; there is one at a time.

    Attributes:
        requirement: what it must see, by which rules.
        decision: where it was sent last, or will be sent when its waiting is over.
        bound: it can run on no other server than the one it was sent to.
        sent_at: when its server was chosen, monotonic s.
        joined_at: when it joined another read's WAIT, monotonic s.
        on_lost_writes: whether a reader is told of acknowledged writes that are gone.
        note: what is to be counted of the last event; the caller that counts it removes it.
        cached_decision: the last decision, while it need not be made again.
    """

    def __init__(
        self,
        session: Session,
        topology: Topology,
        waits: Waits,
        on_lost_writes: LostPolicy,
        progress: CommandProgress,
    ) -> None:
        """Nothing is read yet.

        Args:
            session: whose reads they are.
            topology: who could answer.
            waits: those of all sessions.
            on_lost_writes: whether a reader is told of acknowledged writes that are gone.
            progress: how far the session's command has come.
        """
        self._session = session
        self._topology = topology
        self._waits = waits
        self.on_lost_writes = on_lost_writes
        self.cached_decision: Final = CachedDecision(session, topology, waits)
        self._progress = progress
        self.requirement: Final = Requirement(session.rules)
        self.decision: Decision | None = None
        self.bound = False
        self.sent_at = 0.0
        self.joined_at = 0.0
        self.note: Note | None = None
        self._statement: Statement | None = None  # None if there is nothing to choose for
        self._settled = False
        self._stale = False
        self._reached = False  # the WAIT in front of it ended well
        self._waited = 0.0  # for other reads' WAITs and the primary's word, s
        self._asked_at = 0.0  # when the primary was asked, monotonic s
        self._unanswered = False  # the primary did not answer
        self._delayed = Reason.WAIT_TIMEOUT  # why it waits for a turn at the primary
        self._asked: PendingProbe | None = None  # the question to the primary that it waits for

    def __repr__(self) -> str:
        """Where it stands."""
        words: list[str] = [self.stage]
        decision = self.decision
        if self.stage in _DECIDED and decision is not None:
            reason, proof = decision.reason.value, decision.proof.value
            words.append(f"{decision.server.name} ({reason}, {proof})")
        words += ["bound"] if self.bound else []
        words += ["settled"] if self.is_settled else []
        return f"<Read: {', '.join(words)}>"

    @property
    def stage(self) -> Stage:
        """How far the session's command has come, be it a read or not."""
        return self._progress.stage

    @property
    def is_settled(self) -> bool:
        """Whether the primary was asked to finish what it was committing, and that was judged."""
        return self._settled and self._progress.stage == SENT

    @property
    def rules(self) -> Rules:
        """What it asks for."""
        return self.requirement.rules

    @property
    def required(self) -> GtidSet | None:
        """What it must see; None if only the primary knows."""
        return self.requirement.gtids

    @property
    def scope(self) -> ScopeState | None:
        """The scope that it reads in; None at BEST_EFFORT."""
        return self.requirement.scope

    @property
    def probe_result(self) -> GtidSet | None:
        """What the primary had, if it was asked."""
        return self.requirement.probed

    @property
    def budget(self) -> float:
        """How long it may still wait, s."""
        return self.rules.wait_budget - self._waited

    @property
    def wait_limit(self) -> float:
        """How long the WAIT that was decided on may take, s."""
        return min(self.budget, self._with_decision().wait_limit)

    @property
    def asks_order(self) -> bool:
        """Whether its replica is asked if it commits in order; with a WAIT that costs little."""
        return self.rules.level is Level.READ_ALL_WRITES

    def question(self) -> GtidSet:
        """The set of which its replica is now asked whether it still has it."""
        decision = self._with_decision()
        decision.server.asks(self.sent_at)
        return decision.server.applied

    # It begins

    def begin(self, statement: Statement, rules: Rules | None, now: float) -> Step:
        """A statement came; `rules` is what it asks for, if that is not what the session does."""
        self._progress.expect("begin")
        self._reset(statement, rules)
        if statement.kind is _A_READ:
            return self._choose(statement, now)
        self.decision = decision = choose(self._session, statement, self._topology, now)
        self.sent_at = now
        self._progress.enter(SENT)
        return Send(decision)

    def bind(self, decision: Decision, rules: Rules | None, now: float) -> None:
        """A command goes to the server that has state of the session which no other has."""
        self._take("bind")
        self._reset(None, rules)
        self.bound = True
        self._send(decision, now)

    def take_up(
        self,
        statement: Statement,
        decision: Decision,
        required: GtidSet | None,
        now: float,
        *,
        reached: bool = False,
    ) -> None:
        """A plain statement was sent by the fast path: it goes on as if it had begun here.

        Args:
            statement: it.
            decision: where it was sent; if that is to be `waited` for, a WAIT is in front.
            required: what it must see.
            now: when that was, monotonic, s.
            reached: the WAIT has ended well already.
        """
        self._take("take_up")
        self._reset(statement, None)
        self.requirement.gtids = required
        self.requirement.scope = self.cached_decision.scope
        self._send(decision, now)
        self._reached = reached

    def ask(self, now: float) -> Step:
        """Nothing is read, but the primary's set is needed; ends with `Known`, or is refused."""
        self._take("ask")
        self._reset(None, None)
        return self._ask(self._reading(now), now)

    def _reset(self, statement: Statement | None, rules: Rules | None) -> None:
        requirement = self.requirement
        requirement.rules = rules or self._session.rules
        requirement.scope = None
        requirement.gtids = EMPTY
        requirement.probed = None
        self.note = None
        self.bound = self._settled = self._stale = self._reached = self._unanswered = False
        self._waited = 0.0
        self._statement = statement

    def _choose(self, statement: Statement, now: float) -> Step:
        """Let the policy decide about a read."""
        session, topology, requirement = self._session, self._topology, self.requirement
        rules, probed = requirement.rules, requirement.probed
        if rules.scope is _APPLICATION and not rules.application:
            return self._refuse(refusal.no_application())
        if rules.level is _BEST_EFFORT:
            return self._send_unless_lagging(
                choose(session, statement, topology, now, requirement), now
            )
        requirement.scope = scope = session.reading(rules, topology.term, now)
        if scope.lost_untold and self._tells_lost(scope):
            return self._refuse(refusal.lost_writes(scope.lost))
        snapshot = session.transaction.snapshot
        if snapshot is not None and snapshot.is_on_replica:
            return self._send_inside(
                snapshot, choose(session, statement, topology, now, requirement), now
            )
        requirement.gtids = required = required_by(scope, rules, topology, now, probed)
        decision = choose(session, statement, topology, now, requirement)
        if decision.proof is _PROBED:
            return self._ask(scope, now)
        if rules.level is _BOUNDED and probed is None and required is not None:
            self._note_observation(now - rules.staleness, required)
        if decision.reason in _OF_LATE_REPLICAS or decision.is_brief:
            decision = self._decide_for_late_replicas(statement, decision, now)
        self._count_share(decision)
        gtids = decision.proof_set
        waits = decision.proof is _WAITED and not decision.is_brief
        if waits and gtids is not None and self.budget > 0:
            wait = self._waits.find(decision.server, gtids, now)
            if wait is not None:
                return self._join(wait, decision, now)
        self.cached_decision.decided(decision, requirement)
        return self._send_unless_lagging(decision, now)

    def _count_share(self, decision: Decision) -> None:
        """A read that is to wait only where that is worth it does, or goes to the primary."""
        if not self.rules.is_auto:
            return
        if decision.proof is _WAITED or decision.reason in _OF_LATE_REPLICAS:
            on_primary = decision.server is self._topology.primary
            self._topology.primary_share.add(on_primary)

    def _tells_lost(self, scope: ScopeState) -> bool:
        """Whether the read is refused since acknowledged writes are gone; that is told once."""
        scope.on_loss_reported()
        return self.on_lost_writes is LostPolicy.ERROR

    def _note_observation(self, since: float, required: GtidSet) -> None:
        """What the read relies on is to be in the log before it."""
        observation = self._topology.observations.to_log(since, required)
        if observation is not None:
            self._take_note().observation = observation

    def _choose_again(self, now: float) -> Step:
        """Its waiting is over: choose again."""
        statement = self._statement
        if statement is None:
            raise AssertionError("there is nothing to choose for")
        return self._choose(statement, now)

    def _send(self, decision: Decision, now: float) -> Send:
        if decision.reason is _IN_TRANSACTION and decision.server is not self._topology.primary:
            # That replica has the transaction's snapshot; one that may write goes on without it.
            self.bound = not self._session.transaction.can_move
        self.decision = decision
        self.sent_at = now
        self._reached = False
        self._progress.enter(SENT)
        return Send(decision)

    def _send_inside(self, snapshot: Snapshot, decision: Decision, now: float) -> Send:
        """A later read of a READ ONLY transaction: it must see what the first one had to."""
        self.requirement.gtids = snapshot.required
        if snapshot.stale and decision.server is snapshot.server:
            self._take_note().stale = True
        return self._send(decision, now)

    def _refuse(self, step: Refuse) -> Refuse:
        self._progress.enter(ANSWERING)
        return step

    # The primary is asked

    def _ask(self, scope: ScopeState, now: float) -> Step:
        topology = self._topology
        unsure = topology.lacks_quorum and self.rules.level in CURRENT
        if self._unanswered or unsure or topology.primary.is_silent(now):
            return self._without_primary(now)
        self._asked = PendingProbe(scope, self._topology.term)
        self._asked_at = now
        self._progress.enter(ASKING)
        return Ask(max(self.budget, 0.0))

    def probe_answered(self, executed: GtidSet | None, owned: GtidSet, now: float) -> Step:
        """What the primary has and is committing, by a question that was sent after `Ask`.

        `executed` is None if it does not say.
        """
        self._take("probe_answered")
        if self.stage != ASKING:
            return _NOTHING
        rules, topology = self.rules, self._topology
        self._count_question(now)
        if executed is None:
            if self._statement is None or self._may_lack_writes(now):
                return self._refuse(refusal.probe_failed())
            return self._send(on_primary(topology, Reason.PROBE_FAILED), now)
        if rules.level is not Level.BOUNDED_STALENESS:
            scope = self._reading(now)
            pending = self._asked
            if pending is None or pending.term != topology.term:
                return self._ask(scope, now)  # it was another primary's
            lost = pending.on_answer(scope, executed, owned)
            if lost:
                note = self._take_note()
                note.scope = scope
                note.lost = lost
        self.requirement.probed = executed | owned if rules.level in _OF_ALL_SEEN else executed
        if self._statement is None:
            self._progress.enter(ANSWERING)
            return Known()
        return self._choose_again(now)

    def primary_silent(self, now: float) -> Step:
        """The primary has not answered within the budget, or is found not to answer anybody."""
        self._take("primary_silent")
        if self.stage != ASKING:
            return _NOTHING
        self._count_question(now)
        self._unanswered = True
        return self._without_primary(now)

    def _count_question(self, now: float) -> None:
        """What the question took is taken from the budget, but for what one usually takes."""
        waited = now - self._asked_at
        if waited >= _QUESTION_S:
            self._waited += waited

    def _without_primary(self, now: float) -> Step:
        """The primary cannot say what it must see: its last word may do, or a stale answer."""
        topology = self._topology
        if self._statement is not None and self._limit_by_observation(now):
            return self._choose_again(now)
        if self._statement is not None and self.rules.on_timeout is TimeoutPolicy.STALE:
            replica = stale(self._session, topology, now)
            if replica is not None:
                return self._send_stale(replica, now)
        primary = topology.primary
        if topology.lacks_quorum and self.rules.level in CURRENT:
            return self._refuse(refusal.no_quorum(topology.withheld))
        if self._session.without_primary or primary.is_silent(now):
            return self._refuse(self._primary_silent_refusal(primary))
        return self._refuse(refusal.probe_timeout(primary.name, self.rules.wait_budget))

    def _limit_by_observation(self, now: float) -> bool:
        """Bound what the scope was shown by the last look at the primary; whether that does.

        What it had and was committing then bounds all that any server had shown by that time.
        """
        scope, bound = self._reading(now), self._topology.observations.bound
        if (
            bound is None
            or self.rules.level not in REMEMBERING
            or self._topology.lacks_quorum
            or scope.unknown
            or scope.term != self._topology.term
            or not scope.is_unbounded
            or scope.shown_at >= bound.look
        ):
            return False
        scope.take_bound(bound.gtids)
        self._take_note().observation = bound.observation
        return True

    def _primary_silent_refusal(self, primary: Server) -> Refuse:
        """Why a read is refused that needs the primary, which is known not to answer."""
        if self._session.without_primary:
            return refusal.no_primary(primary.name, "it does not answer", may_write=False)
        return refusal.primary_silent(primary.name)

    def _may_lack_writes(self, now: float) -> bool:
        """Whether the primary may lack what was acknowledged, and nobody would be told of it."""
        if self.rules.level is Level.BOUNDED_STALENESS:
            return False
        term = self._topology.term
        return self._reading(now).term != term and self.on_lost_writes is LostPolicy.ERROR

    def _reading(self, now: float) -> ScopeState:
        return self._session.reading(self.rules, self._topology.term, now)

    # Another read's WAIT

    def _join(self, wait: Wait, decision: Decision, now: float) -> Join:
        self.decision = decision
        self.joined_at = now
        self._progress.enter(JOINED)
        return Join(wait, self.budget)

    def released(self, now: float) -> Step:
        """The WAIT that was joined has ended, well or not."""
        self._take("released")
        if self.stage != JOINED:
            return _NOTHING
        self._waited += now - self.joined_at
        return self._choose_again(now)

    def out_of_time(self, now: float) -> Step:
        """The WAIT that was joined has not ended within this read's own budget."""
        self._take("out_of_time")
        if self.stage != JOINED:
            return _NOTHING
        self._waited += now - self.joined_at
        server = self._with_decision().server
        if self._may_be_stale(server):
            return self._send_stale(server, now)
        self._leave_server(server, Reason.WAIT_TIMEOUT)
        return self._waited_too_long(now)

    # Its connection

    def absent(self, now: float) -> Step:
        """The session has no connection to the chosen server."""
        self._take("absent")
        decision = self._with_decision()
        if decision.reason is Reason.TRANSACTION:
            if self._session.transaction.can_move:
                return self._send(on_primary(self._topology, Reason.REPLICA_LOST), now)
            self._progress.enter(ANSWERING)
            return End("a READ ONLY transaction ran there")
        if decision.reason is Reason.DIAGNOSTIC:  # what it asks about is gone
            return self._send(on_primary(self._topology, Reason.DIAGNOSTIC), now)
        self._progress.enter(OPENING)
        return Open(decision.server)

    def unfit(self, reason: Reason, now: float) -> Step:
        """The connection to the chosen server cannot be used now."""
        self._take("unfit")
        return self._send(on_primary(self._topology, reason), now)

    def opened(self, failed: Reason | None, now: float) -> Step:
        """There is a connection to the replica, or a reason why not.

        It may be another incarnation than the one that was chosen.
        """
        self._take("opened")
        if failed is not None:
            self._leave_server(self._with_decision().server, failed)
        if failed is Reason.REPLICA_FULL:
            return self._send(on_primary(self._topology, failed), now)
        return self._choose_again(now)

    # What a replica says before the answer

    def wait_answered(
        self,
        result: WaitResult,
        still: bool | None,
        ordered: bool | None,
        epoch: int,
        waited: float,
        now: float,
    ) -> Step:
        """The WAIT in front was answered.

        Args:
            result: how it ended.
            still: as in `confirm_answered`; None if that was not asked.
            ordered: as in `confirm_answered`.
            epoch: the connection's.
            waited: how long it took, s.
            now: monotonic, s.
        """
        self._take("wait_answered")
        decision = self._with_decision()
        self.cached_decision.wait_answered(
            decision, result, self.requirement, epoch, self.sent_at, waited, now
        )
        doubt: Reason | None = None
        if result == "interrupted":
            # The KILL was meant for the statement, which must not run elsewhere now.
            return self._refuse(refusal.interrupted())
        if result != "failed" and (decision.confirm or self.asks_order):
            doubt = self._doubt(still, ordered, epoch, now)
        if result == "failed":
            return self._fall_back(Reason.REPLICA_REFUSED, now)
        if result == "timeout":
            if not self._may_be_stale(decision.server):
                is_brief = decision.is_brief
                return self._fall_back(_BEHIND if is_brief else Reason.WAIT_TIMEOUT, now)
            self._stale = self._take_note().stale = True
            return _PASS
        self._reached = True
        return _PASS if doubt is None else self._fall_back(doubt, now)

    def confirm_answered(
        self, still: bool | None, ordered: bool | None, epoch: int, now: float
    ) -> Step:
        """The question in front was answered.

        Args:
            still: the replica has all that it had proved; None if it does not say.
            ordered: it commits in its source's order; None if it does not say.
            epoch: the connection's.
            now: monotonic, s.
        """
        self._take("confirm_answered")
        doubt = self._doubt(still, ordered, epoch, now)
        return _PASS if doubt is None else self._fall_back(doubt, now)

    def _doubt(
        self, still: bool | None, ordered: bool | None, epoch: int, now: float
    ) -> Reason | None:
        """Why the answer that follows must not count, or None."""
        decision = self._with_decision()
        needs = self.asks_order or decision.independence is not None
        return wait_results.doubt(decision.server, still, ordered, needs, epoch, self.sent_at, now)

    def audit_answered(self, has: bool | None, epoch: int, now: float) -> Step:
        """The replica was asked if it has what the read must see; None if it does not say.

        The set that it was taken to have is only doubted if it says no: an error may concern this
            session alone.
        """
        self._take("audit_answered")
        if self._stale or has:
            return _PASS  # or given openly as stale
        if has is False:
            self._with_decision().server.distrust(epoch)
        return self._fall_back(Reason.AUDIT_FAILED, now)

    # The primary, which may show less than a replica did

    def settled(self, shows: bool, epoch: int, idle: Collection[Server], now: float) -> Step:
        """The primary finished what it was committing, or did not within the budget.

        Args:
            shows: it did, so it shows whatever was seen.
            epoch: its connection's.
            idle: replicas that the statement could be sent to at once.
            now: monotonic, s.
        """
        self._take("settled")
        decision = self._with_decision()
        self._settled = True
        if shows:
            self._session.own_scope.on_primary_settled(decision.server, epoch)
            return self._send(decision, now)
        if self.rules.on_timeout is TimeoutPolicy.STALE:
            return self._send_stale(decision.server, now)
        return self._not_shown(decision.server, idle, now)

    def unsettled(self, idle: Collection[Server], now: float) -> Step:
        """The primary did not even say that the budget ran out: nothing is sent behind that.

        `idle` is as in `settled`.
        """
        self._take("unsettled")
        primary = self._with_decision().server
        if self.rules.on_timeout is TimeoutPolicy.STALE:
            decision = self._elsewhere(now)
            if decision is not None and (
                decision.server is not primary or decision.proof is _PROBED
            ):
                replica = stale(self._session, self._topology, now)
                if replica in idle and replica is not None:
                    return self._send_stale(replica, now)
        return self._not_shown(primary, idle, now)

    def _elsewhere(self, now: float) -> Decision | None:
        """What the policy says now of a read that can run on another server; None if it cannot."""
        statement = self._statement
        if statement is None or statement.kind is not _A_READ or self.bound:
            return None
        anew = Requirement(self.rules, probed=self.probe_result)
        return choose(self._session, statement, self._topology, now, anew)

    def _not_shown(self, primary: Server, idle: Collection[Server], now: float) -> Step:
        """It would show an older state than was seen: another server answers, or none."""
        self._settled = False
        if self.rules.on_timeout is TimeoutPolicy.PRIMARY:
            decision = self._elsewhere(now)
            known = decision is not None and decision.proof is Proof.KNOWN
            if decision is not None and known and decision.server in idle:  # it was only late
                self._leave_server(primary, Reason.WAIT_TIMEOUT)
                return self._send(decision, now)
        return self._refuse(refusal.still_committing(self.rules.wait_budget))

    # There is no primary

    def no_primary(self, refused: Refuse, now: float) -> Step:
        """Only the primary could answer, and there is none.

        Args:
            refused: what its client is told, unless it may have a stale answer.
            now: monotonic, s.
        """
        self._take("no_primary")
        if self.stage != SENT:
            return refused
        statement = self._statement
        if (
            statement is not None
            and statement.kind is _A_READ
            and not self.bound
            and self.rules.on_timeout is TimeoutPolicy.STALE
            and self._with_decision().reason in _FOR_WANT_OF_PROOF
        ):
            replica = stale(self._session, self._topology, now)
            if replica is not None:
                return self._send_stale(replica, now)
        if (
            statement is not None
            and statement.reason in self._topology.for_primary
            and self._session.without_primary
            and self._with_decision().reason is Reason.SESSION
            and not self.bound
        ):
            return self._choose_again(now)  # it was wanted for no more than that
        return self._refuse(refused)

    def substituted(self, decision: Decision, now: float) -> None:
        """A replica is sent the command in the primary's place, and no other server after it."""
        self._take("substituted")
        self._reset(None, None)
        self.bound = True
        self._send(decision, now)

    def primary_lost(self, now: float) -> Step:
        """The primary was lost that the command was to go to, and has shown nothing of the answer.

        What is no read goes to whichever server is the primary by now.
        """
        self._take("primary_lost")
        statement = self._statement
        if statement is None or statement.kind is not _A_READ:
            return self._send(on_primary(self._topology, self._with_decision().reason), now)
        return self._choose_again(now)

    # Elsewhere

    def silent(self, now: float) -> Step:
        """The replica did not even say that the wait's budget ran out."""
        self._take("silent")
        self._with_decision().server.set_unreachable(now)
        return self._fall_back(Reason.REPLICA_LOST, now)

    def refused(self, reason: Reason, now: float) -> Step:
        """The replica cannot run it, or not as the session is."""
        self._take("refused")
        return self._fall_back(reason, now)

    def lost(self, cause: str, now: float) -> Step:
        """The replica's connection broke."""
        self._take("lost")
        if self.stage == PASSING or self.bound:
            self._progress.enter(ANSWERING)
            return End(cause)
        return self._fall_back(Reason.REPLICA_LOST, now)

    def _fall_back(self, reason: Reason, now: float) -> Step:
        """The replica's answer does not count: run it on the primary, or fail it."""
        decision = self._with_decision()
        self._leave_server(decision.server, reason)
        if self._reached:
            self._take_note().proved = decision.proof_set
        if reason is Reason.WAIT_TIMEOUT:
            return self._waited_too_long(now)
        if reason is _BEHIND and self._topology.primary.is_silent(now):
            return self._refuse(self._primary_silent_refusal(self._topology.primary))
        return self._send(on_primary(self._topology, reason), now)

    def _waited_too_long(self, now: float) -> Step:
        """The budget ran out: to the primary, which may take a while, or an error."""
        rules = self.rules
        if rules.on_timeout is TimeoutPolicy.ERROR:
            return self._refuse(refusal.wait_timeout(rules.wait_budget))
        return self._in_turn(Reason.WAIT_TIMEOUT, now)

    def _send_unless_lagging(self, decision: Decision, now: float) -> Step:
        """Send it, if need be in its turn: where all replicas are too far behind."""
        if decision.reason is not _LAGGING:
            return self._send(decision, now)
        self.decision = decision
        return self._in_turn(_LAGGING, now)

    def _decide_for_late_replicas(
        self, statement: Statement, decision: Decision, now: float
    ) -> Decision:
        """All replicas are late: the decision stands if the primary may be given the read.

        That has to be certain before it waits briefly, since it is not to wait longer then.
        """
        topology = self._topology
        if decision.reason is Reason.REPLICA_BEHIND:
            for replica in topology.replicas:
                replica.lateness.on_late(now)
        if topology.primary_rate_limit.reserve(now, 0.0) is not None:
            return decision
        # The primary must not be given more than it already has to do.
        self._take_note().crowded = "waits"
        return choose(self._session, statement, topology, now, self.requirement, crowded=True)

    def _in_turn(self, reason: Reason, now: float) -> Step:
        """To the primary since replicas are late, when that may be given another read."""
        primary = self._topology.primary
        if primary.is_silent(now):
            return self._refuse(self._primary_silent_refusal(primary))
        delay = self._topology.primary_rate_limit.reserve(now, self.rules.wait_budget)
        if delay is None:
            self._take_note().crowded = "refused"
            return self._refuse(refusal.flood())
        if delay > 0:
            self._take_note().crowded = "delayed"
            self._delayed = reason
            self._progress.enter(DELAYED)
            return Delay(delay)
        return self._send(on_primary(self._topology, reason), now)

    def turn_came(self, now: float) -> Step:
        """The primary may be given the read."""
        self._take("turn_came")
        if self.stage != DELAYED:
            return _NOTHING
        return self._send(on_primary(self._topology, self._delayed), now)

    def _may_be_stale(self, server: Server) -> bool:
        """Whether a replica answers that is late, since the read asks for that."""
        asked_for = self.rules.on_timeout is TimeoutPolicy.STALE
        return asked_for and may_be_stale(server, self._topology)

    def _send_stale(self, server: Server, now: float) -> Send:
        if not self._stale:  # else that was counted when its connection was to be opened
            self._stale = self._take_note().stale = True
        return self._send(Decision(server, Reason.WAIT_TIMEOUT, Proof.NONE), now)

    # Of all

    def _take(self, event: Event) -> None:
        self._progress.expect(event)
        self.note = None

    def _take_note(self) -> Note:
        note = self.note
        if note is None:
            note = self.note = Note()
        return note

    def _leave_server(self, server: Server, reason: Reason) -> None:
        note = self._take_note()
        note.left = server
        note.why = reason

    def _with_decision(self) -> Decision:
        decision = self.decision
        if decision is None:
            raise AssertionError("no server was chosen")
        return decision

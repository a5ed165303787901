"""A read on its way through the simulated proxy, as `proxy.client.reads` has it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from routing.consistency.decision import Decision, Level, Proof, Reason, TimeoutPolicy
from routing.consistency.rules import REMEMBERING
from routing.policy import choose, on_primary
from routing.sql.statement import Statement, StatementClass, Touch
from tests.model.links import Link, Reply
from tests.model.wires import Answer, Command

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from proxy.server.waits import Wait
    from routing.consistency.scope import ScopeState
    from routing.servers.topology import Server
    from tests.model.proxy import Proxy
    from tests.model.session import ProxySession

_READ: Final = Statement(StatementClass.READ, Touch.NOTHING, False, "0" * 16)


class Reads:
    """The reads of one session; there is one at a time."""

    def __init__(self, proxy: Proxy, session: ProxySession) -> None:
        self._proxy = proxy
        self._session = session
        self._probing = False
        self._delayed = False  # it leaves for the primary a bit later
        self._wait: Wait | None = None  # in flight before its read, or another read's
        self._joined: Server | None = None  # where another read's is
        self._joined_at = 0.0

    def route(self) -> None:
        """Let the policy decide about the read, and dispatch it."""
        proxy, request, state, rules = (
            self._proxy,
            self._session.request,
            self._session.state,
            self._session.rules,
        )
        topology, now = proxy.topology, proxy.now()
        decision = choose(state, _READ, topology, now, rules, request.probed)
        if rules.level is not Level.BEST_EFFORT:
            scope = state.reading(rules, topology.term, now)
            if rules.level is not Level.BOUNDED_STALENESS:
                request.scope = scope
            if scope.lost_untold:
                scope.told_lost()
                proxy.told(scope)
                self._session.done(Reply("told", refused=True))
                return
            if decision.proof is Proof.PROBED:
                self._ask(scope)
                return
            if decision.reason is Reason.REPLICA_BEHIND and (
                topology.fallbacks.reserve(now, 0.0) is None
            ):
                decision = choose(state, _READ, topology, now, rules, request.probed, crowded=True)
        if decision.proof is Proof.WAITED and decision.proof_set is not None:
            budget = rules.wait_budget - request.waited
            if budget > 0 and self._join(decision.server, decision.proof_set, budget):
                return
        self._session.dispatch(decision)

    # The primary's set

    def _ask(self, scope: ScopeState) -> None:
        self._probing = True
        request = self._session.request
        request.asked = scope.everything
        request.doubts = scope.doubts
        request.term = self._proxy.topology.term
        self._proxy.probes.ask(self._session)

    def probed(self, answer: Answer | None) -> None:
        """What the primary has, by a question that was sent after `_ask`; None if it cannot say."""
        if not self._probing:
            return
        self._probing = False
        proxy, request, rules = self._proxy, self._session.request, self._session.rules
        topology = proxy.topology
        if answer is None:
            self._session.dispatch(on_primary(topology, Reason.PROBE_FAILED))
            return
        executed, owned = answer.gtids, answer.owned
        if rules.level is not Level.BOUNDED_STALENESS:
            scope = self._session.state.reading(rules, topology.term, proxy.now())
            if request.term != topology.term:
                self._ask(scope)
                return
            if scope.term != topology.term:
                scope.verified(executed | owned, request.asked, topology.term)
            scope.probed(executed, request.doubts, owned)
        request.probed = executed | owned if rules.level in REMEMBERING else executed
        self.route()

    # A WAIT of its own

    def send_wait(self, link: Link, gtids: GtidSet) -> None:
        """Send a WAIT before the read."""
        session, proxy = self._session, self._proxy
        self._wait = proxy.waits.begin(link.server, gtids, session.request.sent_at)
        command = self.wait_command(gtids, session.rules.wait_budget)
        if session.request.decision is not None and session.request.decision.confirm:
            command = replace(command, proved=self.question(link))
        link.send("wait", command)

    def question(self, link: Link) -> GtidSet:
        """What a replica is asked whether it still has it."""
        link.server.asks(self._session.request.sent_at)
        return link.server.applied

    def confirmed(self, link: Link, answer: Answer) -> bool:
        """Take what a replica says of itself; whether the read behind it may count."""
        session, server = self._session, link.server
        asked_at = session.request.sent_at
        if answer.still is False:
            server.distrust(link.epoch)
            self.fall_back(Reason.AUDIT_FAILED)
            return False
        if answer.still:
            server.confirmed(link.epoch, asked_at)
        in_order = session.rules.level is Level.READ_ALL_WRITES
        if answer.still or in_order:
            session.learn_order(server, answer, asked_at)
            if in_order and not answer.ordered:
                self.fall_back(Reason.COMMIT_ORDER)
                return False
        return True

    def wait_command(self, gtids: GtidSet, budget: float) -> Command:
        """A WAIT that means the same in every session."""
        return Command("wait", gtids=gtids, budget=budget)

    def is_there(self, answer: Answer) -> bool:
        """Whether the answer to a WAIT says that the set is there."""
        return answer.has

    def waited(self, link: Link, answer: Answer, *, reached: bool) -> None:
        """Judge the answer to a WAIT."""
        request, server, now = self._session.request, link.server, self._proxy.now()
        decision = request.decision
        if decision is None or decision.proof_set is None:
            return
        waited = now - request.sent_at
        if reached:
            server.proved(decision.proof_set, link.epoch, request.sent_at)
            server.applied_after(now - self._changed_at(waited), waited, now)
            self.confirmed(link, answer)
        else:
            server.timed_out(now, now - self._changed_at(waited))
            if self._session.rules.on_timeout is TimeoutPolicy.STALE:
                request.stale = True
            else:
                self.fall_back(Reason.WAIT_TIMEOUT)
        self._end_wait(server)

    def _changed_at(self, waited: float) -> float:
        topology, now = self._proxy.topology, self._proxy.now()
        if self._session.rules.level in (Level.STRONG, Level.BOUNDED_STALENESS):
            return now - waited
        return self._session.state.reading(self._session.rules, topology.term, now).changed_at

    def _end_wait(self, server: Server) -> None:
        """Its own WAIT is over: those who joined it need not wait any more."""
        wait = self._wait
        if wait is not None and self._joined is None:
            self._wait = None
            self._proxy.waits.end(server, wait)

    # Another read's WAIT

    def _join(self, server: Server, gtids: GtidSet, budget: float) -> bool:
        proxy = self._proxy
        now = proxy.now()
        wait = proxy.waits.join(server, gtids, self, now)  # type: ignore[arg-type]
        if wait is not None:
            self._wait, self._joined, self._joined_at = wait, server, now
            proxy.timers.append((now + budget, lambda: self._out_of_time(wait)))
        return wait is not None

    def released(self) -> None:
        """The WAIT that was joined has ended, well or not."""
        self._part()
        self.route()

    def _out_of_time(self, wait: Wait) -> None:
        if self._wait is not wait or self._joined is None:
            return
        server = self._joined
        self._part()
        if self._session.rules.on_timeout is TimeoutPolicy.STALE:
            self._session.request.stale = True
            self._session.dispatch(Decision(server, Reason.WAIT_TIMEOUT, Proof.NONE))
        else:
            self._waited_too_long()

    def _part(self) -> None:
        if self._joined is not None and self._wait is not None:
            self._session.request.waited += self._proxy.now() - self._joined_at
            joined: list[object] = self._wait.joined  # type: ignore[assignment]
            if self in joined:
                joined.remove(self)
            self._wait = self._joined = None

    # Elsewhere

    def not_shown(self) -> None:
        """The primary would show an older state than was seen."""
        session, proxy, rules = self._session, self._proxy, self._session.rules
        request = session.request
        request.settled = False
        session.deactivate()
        if rules.on_timeout is TimeoutPolicy.PRIMARY:
            decision = choose(
                session.state, _READ, proxy.topology, proxy.now(), rules, request.probed
            )
            if decision.proof is Proof.KNOWN and session.idle(decision.server):
                session.dispatch(decision)
                return
        session.done(Reply("unsettled", refused=True))

    def fall_back(self, reason: Reason) -> None:
        """A replica's answer does not count: run the statement on the primary, or fail it."""
        self._session.deactivate()
        decision = self._session.request.decision
        if decision is not None:
            self._end_wait(decision.server)
        if reason is Reason.WAIT_TIMEOUT:
            self._waited_too_long()
        else:
            self._session.dispatch(on_primary(self._proxy.topology, reason))

    def _waited_too_long(self) -> None:
        proxy, rules = self._proxy, self._session.rules
        if rules.on_timeout is TimeoutPolicy.ERROR:
            self._session.done(Reply("error", refused=True))
            return
        delay = proxy.topology.fallbacks.reserve(proxy.now(), rules.wait_budget)
        if delay is None:
            self._session.done(Reply("error", refused=True))
        elif delay > 0:
            self._delayed = True
            proxy.timers.append((proxy.now() + delay, self._leave_late_replica))
        else:
            self._session.dispatch(on_primary(proxy.topology, Reason.WAIT_TIMEOUT))

    def _leave_late_replica(self) -> None:
        if self._delayed:
            self._delayed = False
            self._session.dispatch(on_primary(self._proxy.topology, Reason.WAIT_TIMEOUT))

    def leave(self) -> None:
        """The client or its primary is gone."""
        self._delayed = False
        if self._probing:
            self._probing = False
            self._proxy.probes.leave(self._session)
        if self._joined is not None:
            self._part()
        elif self._session.request.decision is not None:
            self._end_wait(self._session.request.decision.server)

"""A read on its way: what it must see, who may answer it, and what is done when nobody can.

Theory of operation
===================

`route` asks the policy. Where only the primary can tell what the read must see (STRONG, a wider
scope that is not known, a primary of a new term), the read joins a shared probe (`proxy.server.
probe`) and is routed again with its answer. A read that leaves late replicas for the primary takes
a token, so that a lag spike cannot flood the primary. On a replica, the answers to WAIT and to the
audit come before the statement's own, and `waited` and `audited` let it pass or call it back:
`fall_back`.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from protocol.errors import ServerErrorCode
from protocol.gtid import EMPTY
from routing.decision import Decision, Level, LostPolicy, Proof, Reason, Scope, TimeoutPolicy
from routing.policy import choose, required_by
from routing.statement import StatementClass

if TYPE_CHECKING:
    import asyncio

    from protocol.gtid import GtidSet
    from protocol.response_stream import ResponseStream
    from proxy.client.session import ClientSession
    from proxy.observe.metrics import WaitResult
    from proxy.proxy import Proxy
    from proxy.server.connection import ServerConnection
    from proxy.server.waits import Wait
    from routing.consistency import Rules
    from routing.scope import ScopeState
    from routing.topology import Server

_log = logging.getLogger(__name__)


class Reads:
    """The reads of one session; there is one at a time."""

    def __init__(self, proxy: Proxy, session: ClientSession) -> None:
        self._proxy = proxy
        self._session = session
        self._deadline: asyncio.TimerHandle | None = None  # of the WAIT, or until it may leave
        self._probing = False
        self._wait: Wait | None = None  # sent, or joined
        self._joined = False
        self._joined_at = 0.0
        # When the primary is asked: what was required, what was doubtful, and whose term it was.
        self._asked: GtidSet = EMPTY
        self._doubts = 0
        self._term = 0

    def route(self) -> None:
        """Let the policy decide about the request's statement, and dispatch it."""
        session = self._session
        request = session.request
        state = session.state
        statement = request.statement
        if statement is None:
            return
        topology = self._proxy.topology
        now = self._proxy.now()
        if statement.kind is StatementClass.READ:
            rules = request.rules or state.rules
            if rules.scope is Scope.APPLICATION and not rules.application:
                session.refuse(
                    ServerErrorCode.ER_WRONG_VALUE_FOR_VAR,
                    "Tidegate: scope is application, but no application is named; SET"
                    " tidegate_application, or send the attribute tidegate.application",
                    reason=Reason.PROXY,
                )
                return
            decision = choose(state, statement, topology, now, rules, request.probed)
            if rules.level is Level.BEST_EFFORT:
                request.required = EMPTY
            else:
                scope = state.reading(rules, topology.term, now)
                if scope.lost_untold and self._lost(scope):
                    return
                request.required = required_by(scope, rules, topology, now, request.probed)
                if decision.proof is Proof.PROBED:
                    self._ask(scope)
                    return
                if decision.reason is Reason.REPLICA_BEHIND:
                    decision = self._leave_late_replicas(decision, rules, now)
            if decision.proof is Proof.WAITED and self._join(decision, rules, now):
                return
        else:
            decision = choose(state, statement, topology, now)
        session.dispatch(decision)

    def _leave_late_replicas(self, decision: Decision, rules: Rules, now: float) -> Decision:
        """To the primary, if it is not to be given more than that already."""
        session = self._session
        topology = self._proxy.topology
        if topology.fallbacks.reserve(now, 0.0) is not None:
            return decision
        self._proxy.metrics.crowded("waits")
        statement = session.request.statement
        if statement is None:
            return decision
        return choose(
            session.state, statement, topology, now, rules, session.request.probed, crowded=True
        )

    # The primary's set

    def ask(self) -> None:
        """Join the next probe of the primary; `request.resume` follows."""
        session = self._session
        rules = session.state.rules
        topology = self._proxy.topology
        self._ask(session.state.reading(rules, topology.term, self._proxy.now()))

    def _ask(self, scope: ScopeState) -> None:
        self._probing = True
        self._asked = scope.everything
        self._doubts = scope.doubts
        self._term = self._proxy.topology.term
        self._proxy.probes.ask(self._session)

    def probed(self, executed: GtidSet | None) -> None:
        """What the primary has, by a question that was sent after `_ask`; None if it cannot say."""
        if not self._probing:
            return
        self._probing = False
        session = self._session
        request = session.request
        topology = self._proxy.topology
        request.dispatched_us = time.time_ns() // 1000
        if executed is None:
            if request.resume is not None:
                session.refuse(
                    ServerErrorCode.ER_UNKNOWN_ERROR,
                    "Tidegate: the primary does not say what it has; try again",
                    reason=Reason.PROBE_FAILED,
                )
            else:
                session.to_primary(Reason.PROBE_FAILED)
            return
        rules = request.rules or session.state.rules
        if rules.level is not Level.BOUNDED_STALENESS:
            scope = session.state.reading(rules, topology.term, self._proxy.now())
            if self._term != topology.term:
                self._ask(scope)  # it was another primary's
                return
            if scope.term != topology.term:
                lost = scope.verified(executed, self._asked, topology.term)
                if lost:
                    self._proxy.ledger.lost(scope, lost)
            scope.probed(executed, self._doubts)
        request.probed = executed
        if request.resume is not None:
            request.resume()
        else:
            self.route()

    def _lost(self, scope: ScopeState) -> bool:
        """Tell the scope's reader once, if that is the policy, that its writes are gone."""
        scope.lost_untold = False
        if self._proxy.config.on_lost_writes is not LostPolicy.ERROR:
            return False
        self._session.refuse(
            ServerErrorCode.ER_UNKNOWN_ERROR,
            "Tidegate: acknowledged writes are gone from the primary, which is another one now or"
            f" was restarted without them: {scope.lost.text[:400]}; this is said once, reads go on"
            " without them",
            reason=Reason.LOST_WRITES,
        )
        return True

    # A wait that others wait for, too

    def _join(self, decision: Decision, rules: Rules, now: float) -> bool:
        """Rely on another read's WAIT, if one is in flight that will do."""
        gtids = decision.proof_set
        budget = rules.wait_budget - self._session.request.wait_us / 1e6
        if gtids is None or budget <= 0:
            return False
        wait = self._proxy.waits.join(decision.server, gtids, self, now)
        if wait is None:
            return False
        self._session.request.decision = decision
        self._wait = wait
        self._joined = True
        self._joined_at = now
        self._deadline = self._proxy.call_later(budget, self._out_of_time)
        return True

    def released(self) -> None:
        """The WAIT that the read joined has ended, well or not."""
        self._stop_waiting("shared")
        self._session.request.dispatched_us = time.time_ns() // 1000
        self.route()

    def _out_of_time(self) -> None:
        """The WAIT that the read joined has not ended within the read's own budget."""
        wait = self._wait
        decision = self._session.request.decision
        if wait is None or decision is None:
            return
        wait.joined.remove(self)
        self._stop_waiting("timeout")
        server = decision.server
        rules = self._session.request.rules or self._session.state.rules
        if rules.on_timeout is TimeoutPolicy.STALE:
            self._proxy.metrics.stale_given()
            self._session.dispatch(Decision(server, Reason.WAIT_TIMEOUT, Proof.NONE))
        else:
            self.note_fallback(server, Reason.WAIT_TIMEOUT)
            self._waited_too_long(rules)

    def _stop_waiting(self, result: WaitResult) -> None:
        request = self._session.request
        self.in_time()
        self._wait = None
        self._joined = False
        waited_us = round((self._proxy.now() - self._joined_at) * 1e6)
        request.wait_us += waited_us
        if request.decision is not None:
            self._proxy.metrics.wait(request.decision.server.name, result, waited_us)

    # On a replica

    def watch(self, replica: ServerConnection, gtids: GtidSet, budget: float) -> None:
        """A WAIT was sent: do not rely on the replica to end it."""
        self._wait = self._proxy.waits.begin(replica.server, gtids, self._proxy.now())
        self._deadline = self._proxy.call_later(
            budget + self._proxy.config.connect_timeout, self._overdue, replica
        )

    def _overdue(self, replica: ServerConnection) -> None:
        """A replica did not even say that the wait's budget ran out."""
        _log.warning("replica %s does not answer", replica.server.name)
        replica.server.unreachable(self._proxy.now())
        self._proxy.metrics.wait(
            replica.server.name,
            "failed",
            time.time_ns() // 1000 - self._session.request.dispatched_us,
        )
        self.fall_back(replica, Reason.REPLICA_LOST)
        self._session.replicas.give_up(replica)

    def in_time(self) -> None:
        """Nothing is waited for any more."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    @property
    def pending(self) -> bool:
        """Whether a read waits for something that no active connection answers."""
        return self._probing or self._deadline is not None

    def leave(self) -> None:
        """The client or its primary is gone."""
        self.in_time()
        wait = self._wait
        decision = self._session.request.decision
        if wait is not None and self._joined:
            wait.joined.remove(self)
            self._wait = None
            self._joined = False
        elif decision is not None:
            self._end_wait(decision.server)
        if self._probing:
            self._probing = False
            self._proxy.probes.leave(self._session)

    def waited(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """Judge the answer to a WAIT."""
        self._waited(connection, stream)
        self._end_wait(connection.server)

    def _end_wait(self, server: Server) -> None:
        """Those who joined this read's WAIT need not wait for it any more."""
        wait = self._wait
        if wait is not None and not self._joined:
            self._wait = None
            self._proxy.waits.end(server, wait)

    def _waited(self, connection: ServerConnection, stream: ResponseStream) -> None:
        request = self._session.request
        decision = request.decision
        server = connection.server
        metrics = self._proxy.metrics
        request.wait_us = time.time_ns() // 1000 - request.dispatched_us
        self.in_time()
        if decision is None or decision.proof_set is None:
            return
        now = self._proxy.now()
        answered = stream.error is None and stream.rows == 1
        if answered and stream.row == b"\x010":
            server.proved(decision.proof_set, connection.epoch)
            server.applied_after(now - self._changed_at(), request.wait_us / 1e6, now)
            metrics.wait(server.name, "reached", request.wait_us)
            request.waited = True
        elif answered and stream.row == b"\x011":
            server.timed_out(now, now - self._changed_at())
            metrics.wait(server.name, "timeout", request.wait_us)
            rules = request.rules or self._session.state.rules
            if rules.on_timeout is TimeoutPolicy.STALE:
                request.reason = Reason.WAIT_TIMEOUT
                request.proof = Proof.NONE
                metrics.stale_given()
            else:
                self.fall_back(connection, Reason.WAIT_TIMEOUT)
        else:
            metrics.wait(server.name, "failed", request.wait_us)
            self.fall_back(connection, Reason.REPLICA_REFUSED)

    def _changed_at(self) -> float:
        """When what the read waits for was acknowledged, monotonic s."""
        session = self._session
        request = session.request
        rules = request.rules or session.state.rules
        if rules.level is Level.STRONG or rules.level is Level.BOUNDED_STALENESS:
            return self._proxy.now() - request.wait_us / 1e6
        topology = self._proxy.topology
        return session.state.reading(rules, topology.term, self._proxy.now()).changed_at

    def audits(self) -> bool:
        """Whether this read is one of those that are audited."""
        proxy = self._proxy
        share = proxy.config.self_audit
        if not share or not self._session.request.required:
            return False
        proxy.audit_credit += share
        if proxy.audit_credit < 1:
            return False
        proxy.audit_credit -= 1
        return True

    def audited(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """Judge what the replica itself says of the read that follows."""
        request = self._session.request
        answered = stream.error is None and stream.rows == 1
        if answered and stream.row == b"\x011":
            self._proxy.metrics.audited("held")
        elif answered and stream.row == b"\x010" and request.proof is not Proof.NONE:
            # The proxy took the replica for newer than it is: this must never happen.
            self._proxy.metrics.audited("stale")
            self._proxy.metrics.stale_proven()
            required = "" if request.required is None else request.required.text
            _log.error(
                "replica %s does not have what it was taken to have (%s): %s; the read goes to the"
                " primary",
                connection.server.name,
                request.proof,
                required[:1000],
            )
            connection.server.distrust()
            self.fall_back(connection, Reason.AUDIT_FAILED)
        else:
            self._proxy.metrics.audited("unanswered")

    def fall_back(self, connection: ServerConnection, reason: Reason) -> None:
        """A replica's answer does not count: run the statement on the primary, or fail it.

        The answer itself may still come, and is drained; until then the replica is not asked.
        """
        session = self._session
        request = session.request
        self.in_time()
        connection.drained = 0
        self._end_wait(connection.server)
        self.note_fallback(connection.server, reason)
        decision = request.decision
        if request.waited and decision is not None and decision.proof_set is not None:
            self._proxy.ledger.proved(
                connection.server,
                "waited",
                decision.proof_set,
                request.dispatched_us,
                request.dispatched_us + request.wait_us,
            )
        request.waited = False
        request.received = 0
        request.held = b""
        session.deactivate()
        if reason is Reason.WAIT_TIMEOUT:
            self._waited_too_long(request.rules or session.state.rules)
        else:
            self._to_primary(reason)

    def _waited_too_long(self, rules: Rules) -> None:
        """The budget ran out: to the primary, which may take a while, or an error."""
        reason = Reason.WAIT_TIMEOUT
        session = self._session
        if rules.on_timeout is TimeoutPolicy.ERROR:
            session.refuse(
                ServerErrorCode.ER_QUERY_TIMEOUT,
                "Tidegate: the replica had not applied what this read must see within the wait"
                f" budget of {rules.wait_budget * 1000:g} ms; raise wait-budget, or set on-timeout"
                " to primary",
                reason=reason,
            )
            return
        topology = self._proxy.topology
        delay = topology.fallbacks.reserve(self._proxy.now(), rules.wait_budget)
        if delay is None:
            self._proxy.metrics.crowded("refused")
            session.refuse(
                ServerErrorCode.ER_QUERY_TIMEOUT,
                "Tidegate: replicas are behind, and more reads than the primary is to be given"
                " (primary-fallback-rate) want to go there; try again, or raise it",
                reason=Reason.FLOOD,
            )
        elif delay > 0:
            self._proxy.metrics.crowded("delayed")
            self._deadline = self._proxy.call_later(delay, self._to_primary, reason)
        else:
            self._to_primary(reason)

    def _to_primary(self, reason: Reason) -> None:
        self._deadline = None
        self._session.request.dispatched_us = time.time_ns() // 1000
        self._session.to_primary(reason)

    def note_fallback(self, server: Server, reason: Reason) -> None:
        """Count it, and keep it for the record."""
        note = f"{server.name}:{reason.value}"
        request = self._session.request
        request.fallbacks += f",{note}" if request.fallbacks else note
        self._proxy.metrics.fallback(server.name, reason.value)

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
from protocol.response import ErrPacket
from proxy.client.confirmation import Confirmation
from proxy.client.preparation import end_transaction
from proxy.client.replica_wait import VALUES, ReplicaWait
from routing.consistency.decision import (
    Decision,
    Level,
    LostPolicy,
    Proof,
    Reason,
    Scope,
    TimeoutPolicy,
)
from routing.consistency.rules import REMEMBERING
from routing.policy import choose, required_by
from routing.sql.statement import StatementClass

if TYPE_CHECKING:
    import asyncio

    from protocol.gtid import GtidSet
    from protocol.response_stream import ResponseStream
    from proxy.client.session import ClientSession
    from proxy.proxy import Proxy
    from proxy.server.connection import ServerConnection
    from proxy.server.probe import Answer
    from routing.consistency.rules import Rules
    from routing.consistency.scope import ScopeState
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)


class Reads:
    """The reads of one session; there is one at a time.

    Attributes:
        wait: its wait for a replica.
        confirmation: its question whether a replica still has what it has proved.
    """

    def __init__(self, proxy: Proxy, session: ClientSession) -> None:
        self._proxy = proxy
        self._session = session
        self.wait = ReplicaWait(proxy, session)
        self.confirmation = Confirmation(proxy, session)
        self._delay: asyncio.TimerHandle | None = None  # until the primary may be given the read
        self._probing = False
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
                session.replies.refuse(
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
            if decision.proof is Proof.WAITED and decision.proof_set is not None:
                budget = rules.wait_budget - request.wait_us / 1e6
                if self.wait.join(decision.server, decision.proof_set, budget):
                    return
        else:
            decision = choose(state, statement, topology, now)
        session.dispatch.to(decision)

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

    def probed(self, answer: Answer | None) -> None:
        """What the primary has, by a question that was sent after `_ask`; None if it cannot say."""
        if not self._probing:
            return
        self._probing = False
        session = self._session
        request = session.request
        topology = self._proxy.topology
        request.dispatched_us = time.time_ns() // 1000
        if answer is None:
            if request.resume is not None or self._may_lack_writes():
                session.replies.refuse(
                    ServerErrorCode.ER_UNKNOWN_ERROR,
                    "Tidegate: the primary does not say what it has; try again",
                    reason=Reason.PROBE_FAILED,
                )
            else:
                session.dispatch.to_primary(Reason.PROBE_FAILED)
            return
        rules = request.rules or session.state.rules
        if rules.level is not Level.BOUNDED_STALENESS:
            scope = session.state.reading(rules, topology.term, self._proxy.now())
            if self._term != topology.term:
                self._ask(scope)  # it was another primary's
                return
            if scope.term != topology.term:
                lost = scope.verified(answer.executed | answer.owned, self._asked, topology.term)
                if lost:
                    self._proxy.ledger.lost(scope, lost)
            scope.probed(answer.executed, self._doubts, answer.owned)
        remembers = rules.level in REMEMBERING
        request.probed = answer.executed | answer.owned if remembers else answer.executed
        if request.resume is not None:
            request.resume()
        else:
            self.route()

    def _may_lack_writes(self) -> bool:
        """Whether the primary may lack what was acknowledged, and nobody would be told of it."""
        rules = self._session.request.rules or self._session.state.rules
        if rules.level is Level.BOUNDED_STALENESS:
            return False
        term = self._proxy.topology.term
        scope = self._session.state.reading(rules, term, self._proxy.now())
        return scope.term != term and self._proxy.config.on_lost_writes is LostPolicy.ERROR

    def _lost(self, scope: ScopeState) -> bool:
        """Tell the scope's reader once, if that is the policy, that its writes are gone."""
        scope.told_lost()
        if self._proxy.config.on_lost_writes is not LostPolicy.ERROR:
            return False
        self._session.replies.refuse(
            ServerErrorCode.ER_UNKNOWN_ERROR,
            "Tidegate: acknowledged writes are gone from the primary, which is another one now or"
            f" was restarted without them: {scope.lost.text[:400]}; this is said once, reads go on"
            " without them",
            reason=Reason.LOST_WRITES,
        )
        return True

    # On a replica

    @property
    def pending(self) -> bool:
        """Whether a read waits for something that no active connection answers."""
        return self._probing or self._delay is not None or self.wait.pending

    def leave(self) -> None:
        """The client or its primary is gone."""
        self.wait.leave()
        if self._delay is not None:
            self._delay.cancel()
            self._delay = None
        if self._probing:
            self._probing = False
            self._proxy.probes.leave(self._session)

    def resume(self) -> None:
        """What the read waited for is over: decide again."""
        self._session.request.dispatched_us = time.time_ns() // 1000
        self.route()

    def replica_silent(self, replica: ServerConnection) -> None:
        """A replica did not even say that the wait's budget ran out."""
        _log.warning("replica %s does not answer", replica.server.name)
        replica.server.unreachable(self._proxy.now())
        self.fall_back(replica, Reason.REPLICA_LOST)
        self._session.replicas.give_up(replica)

    def waited(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The WAIT before the statement was answered."""
        request = self._session.request
        result = self.wait.judge(connection, stream)
        doubt: Reason | None = None
        if result != "failed" and self.confirmation.asked and stream.row is not None:
            doubt = self.confirmation.judge(connection, stream, stream.row[VALUES:])
        if result == "reached":
            request.waited = True
            if doubt is not None:
                self.fall_back(connection, doubt)
        elif result == "timeout":
            rules = request.rules or self._session.state.rules
            if rules.on_timeout is TimeoutPolicy.STALE:
                request.reason = Reason.WAIT_TIMEOUT
                request.proof = Proof.NONE
                self._proxy.metrics.stale_given()
            else:
                self.fall_back(connection, Reason.WAIT_TIMEOUT)
        else:
            self.fall_back(connection, Reason.REPLICA_REFUSED)
        self.wait.end(connection.server)

    def waited_in_vain(self, server: Server) -> None:
        """Another read's WAIT took longer than this one's budget."""
        rules = self._session.request.rules or self._session.state.rules
        if rules.on_timeout is TimeoutPolicy.STALE:
            self._proxy.metrics.stale_given()
            self._session.dispatch.to(Decision(server, Reason.WAIT_TIMEOUT, Proof.NONE))
        else:
            self.note_fallback(server, Reason.WAIT_TIMEOUT)
            self._waited_too_long(rules)

    # On the primary, which may show less than a replica did

    def settled(self, primary: ServerConnection, stream: ResponseStream) -> None:
        """The WAIT on the primary before a statement was answered: does it show what was seen?

        A statement that may write follows it on the wire, and runs in any case. Any other waits for
        what is decided here.
        """
        session = self._session
        request = session.request
        waits = not primary.owes_answer
        shows = stream.error is None and stream.rows == 1 and stream.row == b"\x010"
        if waits:
            now_us = time.time_ns() // 1000
            request.settled = True
            request.wait_us += now_us - request.dispatched_us
            request.dispatched_us = now_us
        if shows:
            session.state.own_scope.settled(primary.server, primary.epoch)
        else:
            _log.warning("the primary has not finished what it was committing: %s", _said(stream))
        if waits and request.decision is not None:
            if shows:
                session.dispatch.to(request.decision)
            else:
                self._not_shown(primary)
        elif not shows:
            request.unsettled = True

    def _not_shown(self, primary: ServerConnection) -> None:
        """The primary would show an older state than was seen: somebody else's answer, or none."""
        session = self._session
        request = session.request
        rules = request.rules or session.state.rules
        reason = Reason.WAIT_TIMEOUT
        if rules.on_timeout is TimeoutPolicy.STALE:
            self._proxy.metrics.stale_given()
            session.dispatch.to(Decision(primary.server, reason, Proof.NONE))
            return
        request.settled = False
        request.observed = EMPTY  # the primary's, which does not answer
        session.deactivate()
        decision = self._caught_up(rules)
        if decision is not None:
            self.note_fallback(primary.server, reason)
            session.dispatch.to(decision)
            return
        refuse = session.replies.refuse
        code = ServerErrorCode.ER_QUERY_TIMEOUT
        message = (
            "Tidegate: the primary is still committing what this session or scope may have seen on"
            " a replica, and does not show it within the wait budget of"
            f" {rules.wait_budget * 1000:g} ms; try again, or raise wait-budget"
        )
        if request.packet:
            refuse(code, message, reason=reason)
        else:  # when it has come whole
            session.long_command.give(_nowhere, then=lambda: refuse(code, message, reason=reason))

    def _caught_up(self, rules: Rules) -> Decision | None:
        """A replica that was late and has what the read must see by now, unless on-timeout says."""
        session = self._session
        request = session.request
        statement = request.statement
        if rules.on_timeout is not TimeoutPolicy.PRIMARY or statement is None or request.bound:
            return None
        topology = self._proxy.topology
        now = self._proxy.now()
        if statement.kind is not StatementClass.READ:
            return None
        decision = choose(session.state, statement, topology, now, rules, request.probed)
        if decision.proof is not Proof.KNOWN or not request.packet:
            return None
        replica = session.replicas.get(decision.server)
        return decision if replica is not None and not replica.busy else None

    def shown_unsettled(self) -> None:
        """What the primary showed, or shows in the transaction that began, may be older."""
        self._session.request.proof = Proof.NONE
        self._proxy.metrics.stale_given()

    def confirmed(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The question before the statement was answered."""
        alone = stream.error is None and stream.rows == 1
        doubt = self.confirmation.judge(connection, stream, stream.row or b"" if alone else b"")
        if doubt is not None:
            self.fall_back(connection, doubt)

    def audits(self) -> bool:
        """Whether this read is one of those that are audited."""
        proxy = self._proxy
        share = proxy.config.self_audit
        request = self._session.request
        if not share or not request.required or request.bound:
            return False
        proxy.audit_credit += share
        if proxy.audit_credit < 1:
            return False
        proxy.audit_credit -= 1
        return True

    def audited(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """Judge what the replica itself says of the read that follows.

        One that does not say that it has what the read must see does not answer it. What it was
        taken to have is only doubted if it says no: an error may be of this session alone.
        """
        request = self._session.request
        if request.proof is Proof.NONE:
            return  # the answer is given openly as stale
        answered = stream.error is None and stream.rows == 1
        if answered and stream.row == b"\x011":
            self._proxy.metrics.audited("held")
            return
        if answered and stream.row == b"\x010":
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
            connection.server.distrust(connection.epoch)
        else:
            self._proxy.metrics.audited("unanswered")
            _log.warning(
                "replica %s does not say whether it has what a read must see (%s); the read goes to"
                " the primary",
                connection.server.name,
                "no answer" if stream.error is None else ErrPacket.parse(stream.error),
            )
        self.fall_back(connection, Reason.AUDIT_FAILED)

    def fall_back(self, connection: ServerConnection, reason: Reason) -> None:
        """A replica's answer does not count: run the statement on the primary, or fail it.

        The answer itself may still come, and is drained; until then the replica is not asked.
        """
        session = self._session
        request = session.request
        self.wait.end(connection.server)
        connection.drained = 0
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
        snapshot = session.state.snapshot
        if snapshot is not None and snapshot is connection.snapshot:
            # It was to be taken by this very read.
            snapshot.server = None
            if snapshot.implied:
                session.state.snapshot = None
            end_transaction(connection)
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
            session.replies.refuse(
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
            session.replies.refuse(
                ServerErrorCode.ER_QUERY_TIMEOUT,
                "Tidegate: replicas are behind, and more reads than the primary is to be given"
                " (primary-fallback-rate) want to go there; try again, or raise it",
                reason=Reason.FLOOD,
            )
        elif delay > 0:
            self._proxy.metrics.crowded("delayed")
            self._delay = self._proxy.call_later(delay, self._to_primary, reason)
        else:
            self._to_primary(reason)

    def _to_primary(self, reason: Reason) -> None:
        self._delay = None
        self._session.request.dispatched_us = time.time_ns() // 1000
        self._session.dispatch.to_primary(reason)

    def note_fallback(self, server: Server, reason: Reason) -> None:
        """Count it, and keep it for the record."""
        note = f"{server.name}:{reason.value}"
        request = self._session.request
        request.fallbacks += f",{note}" if request.fallbacks else note
        self._proxy.metrics.fallback(server.name, reason.value)


def _nowhere(data: bytes) -> None:
    """It is not to run."""


def _said(stream: ResponseStream) -> str:
    """Why a WAIT did not end well."""
    if stream.error is not None:
        return str(ErrPacket.parse(stream.error))
    return "the wait budget ran out"

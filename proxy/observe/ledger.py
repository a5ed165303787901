"""Enters each finished statement into the metrics and into the routing log."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from routing.consistency.decision import Level, Outcome, Scope
from routing.record import (
    NO_SERVER,
    lag_fragment,
    server_fragment,
    session_fragment,
    statement_fragment,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.gtid import GtidSet
    from proxy.client.session import ClientSession
    from proxy.observe.metrics import Metrics
    from proxy.observe.routing_log import RoutingLog
    from proxy.server.identity import Identity
    from routing.consistency.rules import Rules
    from routing.consistency.scope import ScopeState
    from routing.servers.lag import Look, Transaction
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_FRAGMENTS: Final = 4096
"""Rendered statement parts that are kept; digests are as many as an application has statements."""


class Ledger:
    """Metrics always, the routing log where there is one."""

    def __init__(self, metrics: Metrics, routing_log: RoutingLog | None, proxy_name: str) -> None:
        self._metrics = metrics
        self._log = routing_log
        self._run = "" if routing_log is None else routing_log.run
        self._proxy = proxy_name
        self._statements: dict[tuple[str, str, str], str] = {}
        self._servers: dict[tuple[str, int, str], str] = {}

    def enter(
        self,
        session: ClientSession,
        server: Server | None,
        outcome: Outcome,
        error: int,
        rows: int | None,
    ) -> None:
        """Enter the session's request, which has just ended.

        Args:
            session: whose request.
            server: who answered it; None if none did.
            outcome: how the client sees its end.
            error: the error code, or 0.
            rows: rows of the answer, if they were counted.
        """
        request = session.request
        ended_us = time.time_ns() // 1000
        reason = "" if request.reason is None else request.reason
        proof = "" if request.proof is None else request.proof
        self._metrics.statement(
            "" if server is None else server.role,
            "" if server is None else server.name,
            reason,
            proof,
            outcome,
            ended_us - request.arrived_us,
            (request.rules or session.state.rules).level if request.is_read else "",
        )
        if error and server is not None:
            self._metrics.error("server", error)
        log = self._log
        if log is None:
            return
        rules = request.rules
        if rules is not None:
            fragment = self._session(session, rules)
        else:
            fragment = session.log_fragment
            if not fragment:
                fragment = session.log_fragment = self._session(session, session.state.rules)
        session.ordinal += 1
        decision = request.decision
        required = request.required
        proof_set = None if decision is None else decision.proof_set
        own = request.own
        observed = request.observed
        log.statement(
            fragment,
            self._statement(session),
            request.arrived_us,
            request.dispatched_us,
            ended_us,
            None if required is None else required.text,
            NO_SERVER if server is None else self._server(server),
            reason,
            proof,
            None if proof_set is None else proof_set.text,
            request.wait_us,
            request.fallbacks,
            outcome,
            error,
            own.text if own else "",
            # Under ALL_GTIDS a server does not tell which of them are the session's own.
            not (request.may_write and (session.state.unknown or bool(observed))),
            observed.text if observed else "",
            request.received,
            rows,
            session.ordinal,
        )

    def proved(
        self, server: Server, proof: str, gtids: GtidSet, asked_us: int, answered_us: int
    ) -> None:
        """Enter what a server showed outside of a statement, before anything relies on it."""
        if self._log is not None:
            self._log.proof(self._server(server), proof, gtids.text, asked_us, answered_us)

    def measured(
        self,
        server: Server,
        look: Look,
        applied: Sequence[Transaction],
        asked_us: int,
        answered_us: int,
    ) -> None:
        """Enter what a look told of a replica's lag, with what the replica has, if that is news."""
        if self._log is None:
            return
        lag = lag_fragment(server.replication, applied)
        if lag:
            fragment, executed = self._server(server), look.executed.text
            self._log.proof(fragment, "probed", executed, asked_us, answered_us, lag)

    def identified(self, server: Server, identity: Identity) -> None:
        """Enter what a server has, as it said at a login, if that is news."""
        if identity.grew:
            self.proved(
                server, "probed", identity.executed, identity.asked_us, identity.answered_us
            )

    def lost(self, scope: ScopeState, gtids: GtidSet) -> None:
        """Enter acknowledged transactions that are gone from the primary."""
        self._metrics.lost_gtids(gtids.count())
        _log.error(
            "acknowledged in scope %s%s, and gone from the primary: %s",
            scope.kind,
            f" {scope.key!r}" if scope.key else "",
            gtids.text,
        )

    def _session(self, session: ClientSession, rules: Rules) -> str:
        state = session.state
        bounded = rules.level is Level.BOUNDED_STALENESS
        return session_fragment(
            session.session_id,
            session.login.username,
            state.schema or None,
            rules.scope.value,
            self._scope_key(session, rules),
            rules.application or None,
            rules.level.value,
            round(rules.staleness * 1e6) if bounded else None,
        )

    def _scope_key(self, session: ClientSession, rules: Rules) -> str:
        if rules.scope is Scope.CONNECTION:
            return f"{self._run}/{session.session_id}"
        if rules.scope is Scope.USER:
            return f"{self._proxy}/{session.login.username}"
        if rules.scope is Scope.APPLICATION:
            return f"{self._proxy}/{rules.application}"
        return self._proxy

    def _statement(self, session: ClientSession) -> str:
        request = session.request
        statement = request.statement
        digest = "" if statement is None else statement.digest
        kind = "command" if statement is None else statement.kind.value
        key = (request.command.name, digest, kind)
        fragment = self._statements.get(key)
        if fragment is None:
            fragment = statement_fragment(
                request.command.name, kind, digest or None, request.may_write
            )
            if len(self._statements) >= _FRAGMENTS:
                self._statements.clear()
            self._statements[key] = fragment
        return fragment

    def _server(self, server: Server) -> str:
        key = (server.name, server.epoch, server.role.value)
        fragment = self._servers.get(key)
        if fragment is None:
            fragment = self._servers[key] = server_fragment(
                server.name, server.uuid or None, server.role.value, server.epoch
            )
        return fragment

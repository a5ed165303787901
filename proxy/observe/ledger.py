"""Enters each finished statement into the metrics and into the routing log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from protocol.response_stream import RESULTS
from proxy.wall_clock import utc_ns
from routing.consistency.decision import Outcome, Proof, Scope
from routing.record import (
    NO_SERVER,
    RecordStream,
    Route,
    lag_fragment,
    server_fragment,
    session_fragment,
    statement_fragment,
)
from routing.servers.topology import Role

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from protocol.constants import Command as Code
    from protocol.gtid import GtidSet
    from proxy.observe.digests import Digests
    from proxy.observe.histogram import Histogram
    from proxy.observe.metrics import Metrics
    from proxy.observe.slow_log import SlowLog
    from routing.consistency.decision import Decision, Level, Reason
    from routing.consistency.rules import Rules
    from routing.consistency.scope import ScopeState
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.servers.lag import Look, Transaction
    from routing.servers.observations import Observation
    from routing.servers.topology import Server
    from routing.session.session import Session
    from routing.sql.statement import StatementClass

    _Way: TypeAlias = tuple[
        Server | None, int, Role | None, Reason | None, Proof | None, Outcome, Level | None
    ]

_log = logging.getLogger(__name__)

_KNOWN: Final = Proof.KNOWN  # looked up once
_WAITED: Final = Proof.WAITED
_OK: Final = Outcome.OK
_REPLICA: Final = Role.REPLICA
_RESULTS: Final = RESULTS
_FRAGMENTS: Final = 4096
"""How many rendered statement parts are kept, one for each digest of a statement, and courses."""


class _StatementPart:
    """The rendered constant part of a statement's records."""

    def __init__(
        self, code: Code, kind: StatementClass | None, may_write: bool, fragment: str
    ) -> None:
        self.code: Final = code
        self.kind: Final = kind
        self.may_write: Final = may_write
        self.fragment: Final = fragment


class _ServerPart:
    """The rendered constant part of a server's records."""

    def __init__(self, epoch: int, role: Role, fragment: str) -> None:
        self.epoch: Final = epoch
        self.role: Final = role
        self.fragment: Final = fragment


class _Course:
    """What statements with the same server, reason, proof and outcome share.

    That is the histogram in which they are counted, and a rendered part of their records.
    """

    def __init__(
        self,
        command: Command,
        outcome: CommandOutcome,
        server: Server | None,
        result: Outcome,
        times: Histogram,
        route: Route,
    ) -> None:
        self.server: Final = server
        self.epoch: Final = 0 if server is None else server.epoch
        self.role: Final = None if server is None else server.role
        self.on_replica: Final = self.role is _REPLICA
        self.reason: Final = outcome.reason
        self.proof: Final = outcome.proof
        self.result: Final = result
        self.level: Final = command.rules.level if command.is_read else None
        self.times: Final = times
        self.route: Final = route

    def fits(
        self, command: Command, outcome: CommandOutcome, server: Server | None, result: Outcome
    ) -> bool:
        """Whether a command belongs to this course; it is a read if those of the course are."""
        return (
            self.server is server
            and self.reason is outcome.reason
            and self.proof is outcome.proof
            and self.result is result
            and (server is None or (self.epoch == server.epoch and self.role is server.role))
            and (self.level is None or self.level is command.rules.level)
        )


class Ledger:
    """Enters statements into the metrics, and into the routing log if there is one.

    Attributes:
        digests: counts them by digest; None if they are not counted.
        slow_log: takes down slow ones; None if that is off.
    """

    def __init__(
        self,
        metrics: Metrics,
        records: RecordStream | None,
        proxy_name: str,
        digests: Digests | None = None,
        slow_log: SlowLog | None = None,
    ) -> None:
        self.digests: Final = digests
        self.slow_log: Final = slow_log
        self._metrics = metrics
        self._records = records
        self._run = "" if records is None else records.run
        self._proxy = proxy_name
        self._statements: dict[str, _StatementPart] = {}  # by digest, as last rendered
        self._servers: dict[Server, _ServerPart] = {}  # as last rendered
        self._courses: dict[_Way, _Course] = {}  # of all sessions

    def close(self) -> None:
        """The worker stops."""

    def forget(self, server: Server) -> None:
        """A server has gone for good."""
        self._servers.pop(server, None)
        self._courses.clear()

    def open(self, session_id: int, state: Session, *, query_attributes: bool) -> Account:
        """The account of a session.

        Args:
            session_id: its name.
            state: what routing knows of it.
            query_attributes: its client's statements begin with attributes.
        """
        return Account(self._metrics, self._records, self, session_id, state)

    def session(self, session_id: int, state: Session, rules: Rules) -> str:
        """The part of a session's records that changes only with its user, schema or rules."""
        scope_key = self._scope_key(session_id, state, rules)
        return session_fragment(session_id, state.user, state.schema or None, scope_key, rules)

    def record_proof(
        self, server: Server, proof: str, gtids: GtidSet, asked_us: int, answered_us: int
    ) -> None:
        """Record what a server proved to have, if no statement's record says it.

        To be called before anything relies on the proof.
        """
        if self._records is not None:
            self._records.proof(self.server(server), proof, gtids.text, asked_us, answered_us)

    def record_wait(self, server: Server, gtids: GtidSet, outcome: CommandOutcome) -> None:
        """Record what a WAIT in front of a statement proved, if the statement's record does not."""
        sent_us = outcome.dispatched_us
        self.record_proof(server, "waited", gtids, sent_us, sent_us + outcome.wait_us)

    def record_remainder(self, decision: Decision, outcome: CommandOutcome) -> None:
        """A WAIT has ended well: if it was for what remained, the read's proof is another."""
        gtids = decision.proof_set
        if decision.independence is not None and gtids is not None:
            self.record_wait(decision.server, gtids, outcome)
            outcome.on_remainder()

    def record_observation(self, primary: Server, observation: Observation) -> None:
        """Record what the primary had at a moment of the past, before a read relies on it."""
        if self._records is not None:
            self._records.proof(
                self.server(primary, epoch=observation.epoch),
                "probed",
                observation.executed.text,
                observation.asked_us,
                observation.answered_us,
            )

    def record_lag(
        self,
        server: Server,
        look: Look,
        applied: Sequence[Transaction],
        asked_us: int,
        answered_us: int,
    ) -> None:
        """Record what a look found of a replica's lag, if anything, with what the replica has."""
        if self._records is None:
            return
        lag = lag_fragment(server.replication, applied)
        if lag:
            fragment, executed = self.server(server), look.executed.text
            self._records.proof(fragment, "probed", executed, asked_us, answered_us, lag)

    def on_identity(
        self, server: Server, executed: GtidSet, asked_us: int, answered_us: int
    ) -> None:
        """Record what a server says that it has, where that is new (`Server.apply_listener`)."""
        self.record_proof(server, "probed", executed, asked_us, answered_us)

    def record_loss(self, scope: ScopeState, gtids: GtidSet) -> None:
        """Record acknowledged transactions that are gone from the primary."""
        self._metrics.lost_gtids(gtids.count())
        _log.error(
            "transactions that were acknowledged in scope %s%s are gone from the primary: %s",
            scope.kind,
            f" {scope.key!r}" if scope.key else "",
            gtids.text,
        )

    def _scope_key(self, session_id: int, state: Session, rules: Rules) -> str:
        if rules.scope is Scope.CONNECTION:
            return f"{self._run}/{session_id}"
        if rules.scope is Scope.USER:
            return f"{self._proxy}/{state.user}"
        if rules.scope is Scope.APPLICATION:
            return f"{self._proxy}/{rules.application}"
        return self._proxy

    def statement(self, command: Command, may_write: bool) -> str:
        """The part that is the same in all records of a statement."""
        statement = command.statement
        digest = "" if statement is None else statement.digest
        kind = None if statement is None else statement.kind
        part = self._statements.get(digest)
        if (
            part is None
            or part.code is not command.code
            or part.kind is not kind
            or part.may_write != may_write
        ):
            name = "command" if kind is None else kind.value
            fragment = statement_fragment(command.code.name, name, digest or None, may_write)
            part = _StatementPart(command.code, kind, may_write, fragment)
            if len(self._statements) >= _FRAGMENTS:
                self._statements.clear()
            self._statements[digest] = part
        return part.fragment

    def server(self, server: Server, epoch: int | None = None, role: Role | None = None) -> str:
        """The part that is the same in all records of a server's incarnation in one role.

        The incarnation and the role are the present ones, unless others are given.
        """
        if epoch is None:
            epoch = server.epoch
        if role is None:
            role = server.role
        part = self._servers.get(server)
        if part is None or part.epoch != epoch or part.role is not role:
            fragment = server_fragment(server.name, server.uuid or None, role.value, epoch)
            part = self._servers[server] = _ServerPart(epoch, role, fragment)
        return part.fragment

    def course(
        self, command: Command, outcome: CommandOutcome, server: Server | None, result: Outcome
    ) -> _Course:
        """The course of a command, whatever the session: they are few."""
        level = command.rules.level if command.is_read else None
        reason, proof = outcome.reason, outcome.proof
        epoch, role = (0, None) if server is None else (server.epoch, server.role)
        way: _Way = (server, epoch, role, reason, proof, result, level)
        course = self._courses.get(way)
        if course is not None:
            return course
        route_server = NO_SERVER
        if server is not None:
            # Its role when it was chosen; it may no longer be the primary.
            chosen = Role.PRIMARY if proof is Proof.PRIMARY else None
            route_server = self.server(server, role=chosen)
        times = self._metrics.course(
            "" if role is None else role,
            "" if server is None else server.name,
            reason or "",
            proof or "",
            result,
            level or "",
        )
        route = Route(route_server, reason or "", proof or "", result)
        if len(self._courses) >= _FRAGMENTS:
            self._courses.clear()
        course = self._courses[way] = _Course(command, outcome, server, result, times, route)
        return course


class Account:
    """Enters the statements of one session, numbered, and under the session's name."""

    def __init__(
        self,
        metrics: Metrics,
        records: RecordStream | None,
        ledger: Ledger,
        session_id: int,
        state: Session,
    ) -> None:
        self._metrics = metrics
        self._records = records
        self._ledger = ledger
        self._digests = ledger.digests
        self._slow_log = ledger.slow_log
        self._session_id = session_id
        self._state = state
        self._ordinal = 0
        self._unnamed = 0  # `ScopeState.last_write_doubt` at the last record
        self._known_course: _Course | None = None  # of the last read whose proof was known,
        self._read_course: _Course | None = None  # of the last other read,
        self._other_course: _Course | None = None  # and of the last command that was none
        self._fragment = ""
        self._user = ""  # for this user, schema and rules the fragment was made
        self._schema = ""
        self._rules = state.rules

    def record(
        self,
        command: Command,
        outcome: CommandOutcome,
        server: Server | None,
        result: Outcome,
        error: int = 0,
        rows: int | None = None,
    ) -> None:
        """Record a command that has just ended.

        Args:
            command: the command.
            outcome: what became of it.
            server: the server that answered it; None if none did.
            result: how the client sees its end.
            error: the error code, or 0.
            rows: number of rows in the answer, if they were counted.
        """
        ended_us = utc_ns() // 1000
        course = self._other_course
        if command.is_read:
            course = self._known_course if outcome.proof is _KNOWN else self._read_course
        if course is None or not course.fits(command, outcome, server, result):
            course = self._new_course(command, outcome, server, result)
        took_us = ended_us - command.arrived_us
        course.times.add(took_us)
        if command.rules.is_auto and course.level is not None and result is _OK:
            self._note_answer_time(outcome, server, ended_us)
        digests = self._digests
        statement = command.statement
        if digests is not None and statement is not None and command.shape == _RESULTS:
            digest = statement.digest
            entry = digests.young.get(digest)
            if entry is None:
                entry = digests.find(digest, command, self._state.lexer_modes.flags)
            entry.add(
                took_us,
                0 if rows is None else rows,
                course.on_replica,
                outcome.wait_us,
                result is not _OK,
            )
        if self._slow_log is not None and took_us >= self._slow_log.slow_us:
            self._slow_log.write(
                command,
                outcome,
                server,
                result,
                took_us,
                self._state.user,
                self._state.lexer_modes.flags,
            )
        if error and server is not None:
            self._metrics.error("server", error)
        records = self._records
        if records is None:
            return
        self._ordinal += 1
        outcome.ended_us = ended_us
        outcome.ordinal = self._ordinal
        # A doubt is reported once: with the statement that raised it, or the first after it.
        scope = self._state.own_scope
        unnamed = scope.last_write_doubt
        doubted = scope.unknown and unnamed != self._unnamed
        self._unnamed = unnamed
        # Under ALL_GTIDS a server does not tell which GTIDs are the session's own.
        outcome.own_known = not (doubted or (outcome.may_write and bool(outcome.observed)))
        records.statement(
            self._session(command.rules if command.adjusted else None),
            self._ledger.statement(command, outcome.may_write),
            course.route,
            command,
            outcome,
            error,
            rows,
        )

    def _note_answer_time(
        self, outcome: CommandOutcome, server: Server | None, ended_us: int
    ) -> None:
        """Note how soon a server has answered a read that was sent nowhere else before."""
        if server is None or outcome.fallbacks:
            return
        if outcome.wait_us and outcome.proof is not _WAITED:
            return  # it was another read's WAIT
        seconds = (ended_us - outcome.dispatched_us) / 1e6
        server.answer_times.answered(seconds, outcome.wait_us / 1e6)

    def _new_course(
        self, command: Command, outcome: CommandOutcome, server: Server | None, result: Outcome
    ) -> _Course:
        """Find the course of a command, and remember it: the next command mostly has the same."""
        course = self._ledger.course(command, outcome, server, result)
        if not command.is_read:
            self._other_course = course
        elif outcome.proof is _KNOWN:
            self._known_course = course
        else:
            self._read_course = course
        return course

    def _session(self, rules: Rules | None) -> str:
        """The session's part of a record, under the statement's own rules if it has any."""
        state = self._state
        if rules is not None:
            return self._ledger.session(self._session_id, state, rules)
        if (
            state.rules is not self._rules
            or state.schema != self._schema
            or state.user != self._user
            or not self._fragment
        ):
            self._rules = state.rules
            self._schema = state.schema
            self._user = state.user
            self._fragment = self._ledger.session(self._session_id, state, state.rules)
        return self._fragment

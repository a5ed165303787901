"""What SHOW TIDEGATE shows of a session: its last answer, itself, lag, its scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from routing.consistency.decision import Level, Scope
from routing.consistency.rules import written_budget
from routing.sql.table_meanings import tables_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.gtid import GtidSet
    from routing.consistency.scope import ScopeState
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.servers.lag import SourceLag, Span
    from routing.servers.topology import Topology
    from routing.session.session import Session
    from routing.sql.tidegate_statement import Topic
    from routing.transaction.transaction import Transaction

_Rows = list[tuple[str | None, ...]]


class LastAnswer(NamedTuple):
    """What a session's last statement asked for and was given; the columns of SHOW TIDEGATE LAST.

    Attributes:
        level: the consistency level, with its bound; NULL if it was no read.
        scope: whose writes it had to see; NULL if it was no read.
        server: the server that answered; NULL if none did.
        role: the server's role.
        reason: why the server was chosen.
        proof: what allowed the answer.
        wait_ms: how long it waited for a replica.
        fallbacks: servers that were tried before, and why they did not answer it.
        required: what it had to see; NULL if that was not known.
        own: transactions of the session that the answer reported.
        conflict: ``snapshot`` if it may have seen another state than earlier reads of its
            transaction, else NULL.
        tables: the base tables that its answer may depend on, if some of what it had to see
            cannot change that; else NULL.
        left_out: what its answer does not depend on, of that; likewise.
    """

    level: str | None
    scope: str | None
    server: str | None
    role: str | None
    reason: str | None
    proof: str | None
    wait_ms: str
    fallbacks: str
    required: str | None
    own: str
    conflict: str | None
    tables: str | None
    left_out: str | None

    @classmethod
    def of(cls, command: Command, outcome: CommandOutcome) -> LastAnswer:
        """The answer to a command."""
        rules = command.rules
        decision = outcome.decision
        read = command.is_read
        less = outcome.independence
        return cls(
            rules.consistency if read else None,
            rules.scope.value if read else None,
            None if decision is None else decision.server.name,
            None if decision is None else decision.server.role.value,
            None if outcome.reason is None else outcome.reason.value,
            None if outcome.proof is None else outcome.proof.value,
            f"{outcome.wait_us / 1000:.3f}",
            outcome.fallbacks,
            None if outcome.required is None else outcome.required.text,
            outcome.own.text,
            "snapshot" if outcome.conflicts else None,
            None if less is None else tables_text(less.tables),
            None if less is None else less.left_out.text,
        )


class Shown(NamedTuple):
    """What is shown of a session, and of what it sees.

    Attributes:
        session_id, connection_id: as `proxy.shared.sessions` has them.
        state: what routing knows of it.
        topology: the servers.
        now: monotonic, s.
        last_answer: what its last statement was given, if there was one.
        views: what is known of the views that it sees, as a text for people.
        prepared: how many prepared statements it has.
        cursors: how many of them have an open cursor.
    """

    session_id: int
    connection_id: int
    state: Session
    topology: Topology
    now: float
    last_answer: LastAnswer | None
    views: str
    prepared: int
    cursors: int


def topic(session: Shown, name: Topic) -> tuple[Sequence[str], _Rows]:
    """The columns and rows that SHOW TIDEGATE shows of a topic."""
    if name == "LAST":
        answer = session.last_answer
        return LastAnswer._fields, [] if answer is None else [tuple(answer)]
    if name == "SESSION":
        return ("name", "value"), _session(session)
    if name == "LAG":
        return _LAG, _lags(session)
    return _SCOPES, _scopes(session)


def _session(session: Shown) -> _Rows:
    state = session.state
    rules = state.rules
    snapshot = state.transaction.snapshot
    reads_from = None if snapshot is None else snapshot.server
    return [
        ("connection_id", str(session.connection_id)),
        ("user", session.state.user),
        ("schema", state.schema or None),
        ("consistency", rules.consistency),
        ("scope", rules.scope.value),
        ("application", rules.application or None),
        ("wait_budget", written_budget(rules.budget)),
        ("on_timeout", rules.on_timeout.value),
        ("transaction_reads", rules.transaction_reads.value),
        ("on_split_conflict", rules.on_split_conflict.value),
        ("session_track_gtids", state.trackers.gtids),
        ("in_transaction", _in_transaction(state.transaction)),
        ("transaction_reads_from", None if reads_from is None else reads_from.name),
        ("autocommit", _yes(state.transaction.autocommit)),
        ("pins", state.pins.text or None),
        ("refused_by", _rejections(session)),
        ("views", session.views),
        ("unlogged_writes", _yes(_unlogged(session))),
        ("prepared_statements", str(session.prepared)),
        ("open_cursors", str(session.cursors)),
        ("primary", session.topology.primary.name),
        ("reads_only", _yes(state.without_primary)),
    ]


def _unlogged(session: Shown) -> bool:
    """Whether something was written without a GTID in the scope of its reads."""
    state = session.state
    return state.reading(state.rules, session.topology.term, session.now).unlogged


def _rejections(session: Shown) -> str | None:
    """Replicas that do not take the state that the session carries, and why."""
    state = session.state
    causes = state.rejections.causes(state.state_versions)
    return "; ".join(f"{server.name}: {cause}" for server, cause in causes) or None


_LAG = (
    *("server", "channel", "source", "waits_ms", "hop_waits_ms", "applied", "end_to_end_ms"),
    *("upstream_ms", "last_hop_ms", "apply_ms", "transport_ms", "error_ms", "timestamps"),
)


def _lags(session: Shown) -> _Rows:
    """The lag of each replica, by channel and source."""
    return [
        (server.name, *_lag(source, server.replication.disordered))
        for server in session.topology.replicas
        for source in server.replication.sources
    ]


def _lag(source: SourceLag, disordered: bool) -> tuple[str | None, ...]:
    applied = source.applied
    stamped = None if applied is None else applied.stamped
    total = None if applied is None else applied.end_to_end
    error = total or source.waits
    upstream: int | None = None
    if stamped is not None and None not in (stamped.original_us, stamped.immediate_us):
        upstream = (stamped.immediate_us or 0) - (stamped.original_us or 0)
    return (
        *(source.channel, source.source, _span(source.waits), _span(source.hop_waits)),
        *(None if stamped is None else stamped.gtid, _span(total), _ms(upstream)),
        _span(None if applied is None else applied.last_hop),
        _ms(None if applied is None else applied.apply_us),
        *(_span(source.transport), None if error is None else _ms(error.error_us)),
        "original newer than immediate" if disordered else "in order",
    )


def _span(span: Span | None) -> str | None:
    return None if span is None else _ms(span.us)


def _ms(microseconds: int | None) -> str | None:
    return None if microseconds is None else f"{microseconds / 1000:.3f}"


_SCOPES = ("scope", "scope_key", "known", "required", "observed", "lost", "idle_s")


def _scopes(session: Shown) -> _Rows:
    """The session's own scopes only: it may not see the keys of others."""
    state = session.state
    now = session.now
    rows = [_scope(state.own_scope, str(session.session_id), now)]
    rows += [_scope(scope, scope.key, now) for scope in state.counting_scopes(state.rules)[1:]]
    return rows


def _scope(scope: ScopeState, key: str, now: float) -> tuple[str | None, ...]:
    known = scope.is_known(Level.READ_OWN_WRITES)
    idle = None if scope.kind is Scope.CONNECTION else f"{now - scope.used_at:.1f}"
    return (
        *(scope.kind.value, key or None, _yes(known), _text(scope.own), _text(scope.observed)),
        *(_text(scope.lost), idle),
    )


def _text(gtids: GtidSet) -> str:
    return gtids.text


def _in_transaction(transaction: Transaction) -> str:
    if transaction.is_uncertain:
        return "unknown"
    if transaction.has_savepoint and not transaction.is_open:
        return "savepoint"  # it stays on the primary as if one were open
    return _yes(transaction.is_open)


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"

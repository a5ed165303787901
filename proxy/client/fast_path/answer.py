"""Takes the whole ordinary answers to plain statements of a plain session, in one step each.

What such an answer changes is little: that somebody showed something, that a replica has what was
waited for, or that one more transaction is the session's own. It is taken over here by the same
functions as that of any other answer (`proxy.client.effects.command_effects`,
`routing.request.cached_decision`), but for what is known to change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import AUTOCOMMIT, IN_TRANS, IN_TRANS_READONLY
from protocol.errors import ProtocolError
from protocol.gtid import EMPTY, GtidSet
from protocol.session_track import TEXT_ENCODING, decode_gtids
from proxy.client.statements.wait import is_reached
from proxy.server.connection import Taker
from proxy.wall_clock import utc_ns
from routing.consistency.decision import Outcome, Proof
from routing.consistency.scope import COMPACT_ABOVE
from routing.request import effects
from routing.request.stage import FORWARDED

if TYPE_CHECKING:
    from proxy.client.session_context import SessionContext
    from proxy.client.sharing.connection_lease import ConnectionLease
    from proxy.observe.histogram import Histogram
    from proxy.server.connection import ServerConnection
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.servers.topology import Server

_OK: Final = Outcome.OK
_WAITED: Final = Proof.WAITED
_OF_PRIMARY: Final = Proof.PRIMARY
_OF_TRANSACTIONS: Final = IN_TRANS | IN_TRANS_READONLY | AUTOCOMMIT
_ENTITY: Final = 2
_TEXT: Final = 4
"""Where the entity begins in a list of trackers with one entry, and in that the text of a GTID:
behind the encoding and a length of one byte."""


class FastAnswers(Taker):
    """Takes the ordinary answers of one session in one step each."""

    def __init__(self, session: SessionContext, lease: ConnectionLease | None) -> None:
        """With a `lease` the session gives its connections back."""
        shared = session.shared
        self._lease = lease
        self._slots = shared.slots
        self._metrics = shared.metrics
        self._ledger = shared.ledger
        self._now = shared.now
        self._current = session.current
        self._read = session.read
        self._cached_decision = session.read.cached_decision
        self._read_timers = session.read_timers
        self._state = session.state
        self._servers = session.servers
        self._account = session.account
        self._client = session.client
        # Where the WAITs of the replica are counted that was waited for last.
        self._waited_on: Server | None = None
        self._waits: Histogram | None = None

    def use_lease(self, lease: ConnectionLease) -> None:
        """The session has lost its primary, and goes on with a lease."""
        self._lease = lease

    def on_wait(self, connection: ServerConnection) -> bool:
        """Take over what a WAIT proved that was sent in front of a read."""
        current = self._current
        outcome = current.outcome
        decision = outcome.decision
        if current.stage != FORWARDED or connection is not self._servers.active or decision is None:
            return False  # the machine knows of it, or nobody waits for it any more
        if not is_reached(connection.stream):
            self.on_declined(connection)
            return False
        outcome.wait_us = waited_us = utc_ns() // 1000 - outcome.dispatched_us
        if self._waits is None or self._waited_on is not connection.server:
            self._waited_on = connection.server
            self._waits = self._metrics.waits(connection.server.name, "reached")
        self._waits.add(waited_us)
        self._cached_decision.wait_answered(
            decision,
            "reached",
            self._cached_decision.requirement,
            connection.epoch,
            outcome.sent_at,
            waited_us / 1e6,
            self._now(),
        )
        self._ledger.record_remainder(decision, outcome)
        self._read_timers.end_wait()
        return True

    def on_answer(self, connection: ServerConnection, data: bytes) -> bool:
        """Take over what an answer changed, and give it to the client."""
        current, servers, stream = self._current, self._servers, connection.stream
        if connection is not servers.active:
            return False  # it says that too late
        command, outcome = current.command, current.outcome
        if (data[4] != 0x00) is command.may_write:
            return False  # a write has no rows, and a read has some
        if command.may_write:
            shown = self._wrote(connection, data, command, outcome)
        else:
            shown = self._showed(connection, data, command, outcome)
        if not shown:
            return False
        outcome.received = len(data)
        current.on_ended()
        servers.deactivate()
        lease = self._lease
        if lease is not None:
            lease.ended(command, outcome, connection)
            if self._slots.waiting:
                lease.let_others(rests=not self._client.closed)
        self._account.record(command, outcome, connection.server, _OK, 0, stream.rows)
        self._client.answer(shown)
        return True

    def _showed(
        self, replica: ServerConnection, data: bytes, command: Command, outcome: CommandOutcome
    ) -> bytes:
        """A replica answered a read, perhaps with all that it has; or the primary did.

        Returns:
            What the client gets; nothing, and nothing was taken over, if it is not as usual.
        """
        stream = replica.stream
        if outcome.proof is _OF_PRIMARY and (
            stream.session_states or stream.status & _OF_TRANSACTIONS != AUTOCOMMIT
        ):
            return b""
        tracked = bool(stream.session_states) and replica.mirror.tracks_all
        if tracked and not self._observed(replica, command, outcome):
            return b""
        outcome.rows = stream.rows
        outcome.warnings = stream.warnings
        effects.record_result(command, outcome, self._state, replica.area, replica.epoch)
        return (
            replica.view.client_bytes_of_rows(stream)
            if tracked and replica.view is not None
            else data
        )

    def _observed(
        self, replica: ServerConnection, command: Command, outcome: CommandOutcome
    ) -> bool:
        """Take over what a replica told with rows that it has; False, if that cannot be read."""
        server = replica.server
        try:
            gtids = decode_gtids(replica.stream.session_states[0][_ENTITY:], server.applied)
        except ProtocolError:
            return False  # the owner will say so
        if isinstance(gtids, int):
            return False
        server.add_proof(gtids, replica.epoch, outcome.sent_at)
        effects.record_observed(gtids, outcome, self._state, server, command.rules, self._now())
        return True

    def _wrote(
        self, primary: ServerConnection, data: bytes, command: Command, outcome: CommandOutcome
    ) -> bytes:
        """The primary answered a write; returns as `_showed` does."""
        state, stream, statement = self._state, primary.stream, command.statement
        blocks = stream.session_states
        if not blocks or statement is None or stream.status & _OF_TRANSACTIONS != AUTOCOMMIT:
            return b""
        block = blocks[0]
        server, scope, now = primary.server, state.own_scope, self._now()
        if not server.gtids:
            return b""  # what it wrote may have no name
        gtids = EMPTY
        own: GtidSet | None = None
        if len(block) > _TEXT and block[2] == TEXT_ENCODING and block[3] == len(block) - _TEXT:
            gtids, own = scope.own.followed_by(block[_TEXT:], COMPACT_ABOVE)
        if gtids is EMPTY:
            own = None
            try:
                decoded = decode_gtids(block[_ENTITY:], None)
            except ProtocolError:
                return b""  # the owner will say so
            if isinstance(decoded, int) or not decoded:
                return b""
            gtids = decoded
        server.add_proof(gtids, primary.epoch)
        effects.record_named_write(gtids, outcome, state, server, command.rules, now, own)
        self._metrics.tracked += 1
        state.transaction.status = stream.status
        if not state.user_variables.forgotten and statement.may_run_programs:
            state.user_variables.forget()
        commits = state.commits
        if commits.sure or state.transaction.may_commit:
            commits.ended(statement, True, stream.unnamed, False)
        outcome.rows = stream.rows
        outcome.warnings = stream.warnings
        state.diagnostics.on_success(primary.area, statement.leaves, stream.rows, stream.warnings)
        return data if primary.view is None else primary.view.client_bytes_of_write(stream)

    def on_declined(self, connection: ServerConnection) -> None:
        """Let the session go on with the command as if it had sent it."""
        current = self._current
        command, outcome = current.command, current.outcome
        if connection is not self._servers.active:
            return
        if (
            current.stage == FORWARDED
            and command.statement is not None
            and outcome.decision is not None
        ):
            self._read.take_up(
                command.statement,
                outcome.decision,
                outcome.required,
                outcome.sent_at,
                reached=outcome.decision.proof is _WAITED and not self._read_timers.waits,
            )

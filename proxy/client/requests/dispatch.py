"""Sends a command to a server: what goes in front of it there, and whether it may go at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import IN_TRANS
from protocol.constants import Command as Code
from protocol.errors import ServerErrorCode
from protocol.gtid import EMPTY, GtidSet
from proxy.client.requests import command_batch
from proxy.client.statements.confirmation import beside_wait, columns
from proxy.client.statements.defaults import ask_start
from proxy.client.statements.diagnostics import replay_batch
from proxy.client.statements.found_rows import ask_found_rows
from proxy.client.statements.prepared_statement import prepare_on
from proxy.client.statements.probe import probe
from proxy.client.statements.replica_checks import NOTHING, ReplicaChecks
from proxy.client.statements.roles import ask_roles
from proxy.client.statements.wait_for_owned import wait_for_owned
from proxy.server.statement_packet import statement_packet
from proxy.wall_clock import utc_us
from routing.consistency.decision import Decision, Level, Proof, Reason
from routing.consistency.rules import CURRENT
from routing.policy import on_primary
from routing.request import diagnostics, refusal
from routing.request.step import Refuse
from routing.session.diagnostics_area import (
    KEEPING_CONDITIONS,
    NOT_KNOWN,
    NOTHING_TO_REPLAY,
    DiagnosticsReplay,
)
from routing.sql.diagnostics import CONDITIONS, FOUND_ROWS
from routing.sql.statement import StatementClass

if TYPE_CHECKING:
    import asyncio

    from proxy.client.effects.missing_trackers import MissingTrackers
    from proxy.client.replies.own_answers import OwnAnswers
    from proxy.client.session_context import SessionContext
    from proxy.client.sharing.connection_lease import ConnectionLease
    from proxy.server.connection import ServerConnection, Taker
    from proxy.server.exchange import Batch
    from routing.request.command import Command
    from routing.request.step import Step
    from routing.session.prepared import PreparedHandle

# Members of enums, looked up once.
_INSIDE: Final = Reason.TRANSACTION
_UNPROVED: Final = Proof.NONE
_WAITED: Final = Proof.WAITED


class Dispatch:
    """Writes the commands of one session to servers."""

    def __init__(
        self,
        session: SessionContext,
        missing_trackers: MissingTrackers,
        lease: ConnectionLease | None,
        own_answers: OwnAnswers,
        taker: Taker,
    ) -> None:
        """`lease` is None if the session's connections are its own; `taker` takes plain answers."""
        shared = session.shared
        self._topology = shared.topology
        self._now = shared.now
        self._audits = shared.audits
        self._probes = shared.probes
        self._connect_timeout = 0.0  # `configure` sets it
        self._current = session.current
        self._read = session.read
        self._read_timers = session.read_timers
        self._state = session.state
        self._servers = session.servers
        self._prepared = session.prepared
        self._settings = session.settings
        self._views = session.views
        self._missing_trackers = missing_trackers
        self._snapshots = session.snapshots
        self._lease = lease
        self._long = session.long
        self._own_answers = own_answers
        self._taker = taker
        self._query_attributes = session.query_attributes
        self._call_later = shared.call_later
        self._asked: ServerConnection | None = None  # for FOUND_ROWS(), by a command that waits
        self._in_time: asyncio.TimerHandle | None = None

    def configure(self, connect_timeout: float) -> None:
        """Begin, or go on after a reload, with this time that a silent server has, s."""
        self._connect_timeout = connect_timeout

    def use_lease(self, lease: ConnectionLease) -> None:
        """The session has lost its primary, and goes on with a lease."""
        self._lease = lease

    def to(self, decision: Decision) -> Step | None:
        """Write the command to the server that was decided on; the next step if it cannot go."""
        outcome = self._current.outcome
        outcome.set_decision(decision)
        if (
            self._state.transaction.left_on_replica
            and decision.reason is not Reason.DIAGNOSTIC
            and self._current.command.code not in KEEPING_CONDITIONS
        ):
            self._servers.end_transactions()
        if decision.server is not self._topology.primary:
            return self._to_one_replica(decision)
        primary = self._servers.primary
        if primary is None or primary.lost:
            self._own_answers.end_lost("the primary is lost")
        else:
            self.to_primary(primary)
        return None

    def _to_one_replica(self, decision: Decision) -> Step | None:
        """Write it over a connection that fits, if there is one."""
        command, outcome = self._current.command, self._current.outcome
        servers, state = self._servers, self._state
        reason = decision.reason
        replica = servers.replica(decision.server)
        inside = reason is _INSIDE
        if reason is Reason.DIAGNOSTIC and replica is not None:
            parts = diagnostics.parts_asked(command)
            if replica.area is not state.diagnostics.target(parts):
                replica = None  # what it asks about was on a connection that is gone
        if inside and outcome.proof is _UNPROVED and command.rules.level is not Level.BEST_EFFORT:
            outcome.reason = Reason.WAIT_TIMEOUT  # like its first read
        transaction = state.transaction
        if inside or (reason is Reason.DIAGNOSTIC and transaction.reads_on_replica):
            if replica is not None and replica.mirror.transaction_reads is not transaction.snapshot:
                replica = None  # it has the snapshot no more
        elif replica is None and reason is not Reason.DIAGNOSTIC:
            replica = servers.open_by_lent_login(decision.server)
        if replica is None:
            return self._read.absent(self._now())
        if not inside and replica.is_late:
            # It is still draining a late answer.
            return self._read.unfit(Reason.REPLICA_BEHIND, self._now())
        if command.prepared is not None and not command_batch.replica_can_know(
            replica.mirror, command, state
        ):
            return self._read.unfit(Reason.PREPARED, self._now())
        self._to_replica(replica, decision)
        return None

    def to_primary(self, primary: ServerConnection) -> None:
        """Write it to the primary, or say why not; questions that it must wait for go first."""
        command = self._current.command
        if (self._topology.withheld and self._withheld()) or self._is_refused(primary):
            return
        self._current.on_sent()
        self._servers.activate(primary)
        asks = self._ask_found_rows_of_replica(primary)
        settles = not asks and self._settles(primary)
        if asks or self._ask_in_front(primary, settles=settles):
            if not command.packet:
                self._long.hold()
            return  # what is answered goes on
        state, attributes = self._state, primary.query_attributes
        batch = self._in_front(primary, settles=settles)
        behind = self._behind(primary)
        if diagnostics.is_lost(state.diagnostics, primary.area, command) and any(
            exchange.disturbs & FOUND_ROWS for exchange, _ in batch + behind
        ):
            batch = ask_found_rows(attributes) + batch
        has_count = state.diagnostics.has_count(primary.area)
        if has_count and any(exchange.disturbs & FOUND_ROWS for exchange, _ in batch):
            has_count = False
        wanted = diagnostics.parts_required(command, has_count=has_count)
        by = self._replay(primary, command, wanted, batch)
        batch += replay_batch(by, attributes)
        self.send(primary, batch, behind)
        if wanted:
            state.diagnostics.on_replay(primary.area, wanted, by)
        if not command.packet and command_batch.knows(primary.mirror, command):
            self.pass_parts(primary)

    def _is_refused(self, primary: ServerConnection) -> bool:
        """Refuse what the primary would understand otherwise than it was meant."""
        command = self._current.command
        if command.prepared is not None and not command_batch.can_know(
            primary.mirror, command, self._state
        ):
            self._own_answers.refuse_whole(
                Refuse(
                    ServerErrorCode.ER_UNKNOWN_STMT_HANDLER,
                    "Unknown prepared statement handler: sql_mode or character set have changed"
                    " since it was prepared; prepare it again",
                    Reason.PREPARED,
                )
            )
            return True
        lease = self._lease
        if lease is None:
            return False
        asked = diagnostics.parts_asked(command)
        area = self._state.diagnostics
        lost = lease.lost_by(command, area.replay_for(primary.area, asked).lost if asked else 0)
        if lost:
            self._own_answers.end(
                f"Tidegate: the primary has been lost since, and {lost} with it; connect again",
                ServerErrorCode.ER_SERVER_SHUTDOWN,
            )
            return True
        if lease.command_shows_other_id(command) and lease.select_known_id(command) is None:
            self._own_answers.refuse_whole(
                Refuse(
                    ServerErrorCode.ER_NOT_SUPPORTED_YET,
                    "Tidegate: the session has another connection now (connection-sharing), and the"
                    " account may not SET pseudo_thread_id, by which that would tell the client's"
                    " CONNECTION_ID(); grant SESSION_VARIABLES_ADMIN, or ask before the session"
                    " rests",
                    Reason.COMMAND,
                )
            )
            return True
        return False

    def _settles(self, primary: ServerConnection) -> bool:
        """Whether the primary may show too little until it has finished what it is committing."""
        command, outcome = self._current.command, self._current.outcome
        if self._read.is_settled or not command_batch.older_than_seen(
            command, self._state, self._topology, self._now()
        ):
            return False
        if self._would_lose_diagnostics(primary, command):
            outcome.unsettled = True
            return False  # it would be told of the WAIT
        return True

    def _ask_in_front(self, primary: ServerConnection, *, settles: bool) -> bool:
        """Ask the primary what the command must wait for, if there is such a thing."""
        command, outcome = self._current.command, self._current.outcome
        if settles and command_batch.can_wait(command):
            self.save_found_rows(primary)
            budget = command.rules.wait_budget
            primary.send(wait_for_owned(budget, primary.query_attributes, self._seen(command)))
            self._read_timers.limit_primary_wait(budget + self._probes.patience)
            return True
        if self._snapshots.needs_same_snapshot(command, outcome):
            self.save_found_rows(primary)
            return self._snapshots.ask_or_roll_back(primary, command, outcome)
        return False

    def _seen(self, command: Command) -> GtidSet:
        """What was seen that the primary of a group may not even have begun to commit."""
        topology = self._topology
        if not topology.group:
            return EMPTY
        scope = self._state.reading(command.rules, topology.term, self._now())
        return scope.everything - topology.primary.applied

    def _in_front(self, primary: ServerConnection, *, settles: bool) -> Batch:
        """What the primary is told and asked in front of the command, in one write with it."""
        command, outcome, state = self._current.command, self._current.outcome, self._state
        attributes, transaction = primary.query_attributes, state.transaction
        batch = self._missing_trackers.before(command)
        batch += self._settings.in_front(primary, command, outcome)
        batch += self._views.in_front(primary, command)
        statement = command.statement
        if statement is not None and statement.assignments:
            batch += command_batch.prepare_before(primary.mirror, command, state, self._prepared)
        if settles:
            batch += wait_for_owned(command.rules.wait_budget, attributes, self._seen(command))
        if transaction.reads is not None:
            batch += self._snapshots.in_front(primary, command, outcome)
        # Only before a read: after a probe, ROW_COUNT() and the like would be about the probe. And
        # not in a transaction, where reads stay here anyway: the probe would take its trackers.
        if (
            command.is_read
            and state.wants_probe
            and not state.is_recorded
            and not transaction.status & IN_TRANS
            and command.rules.level is not Level.BEST_EFFORT
            and not diagnostics.needs_count(state.diagnostics, primary.area, command)
        ):
            batch += probe(attributes)
        return batch

    def _behind(self, primary: ServerConnection) -> Batch:
        """What the primary is asked right behind the command."""
        command, state = self._current.command, self._state
        behind: Batch = ()
        if primary.silent:
            behind = self._missing_trackers.along(command, self._current.outcome)
        if command.code is Code.COM_RESET_CONNECTION:
            behind += ask_start(state, primary.query_attributes)
        if command_batch.sets_unnamed_roles(command) and not state.is_recorded:
            behind += ask_roles(primary.query_attributes)
        return behind

    def _would_lose_diagnostics(self, primary: ServerConnection, command: Command) -> bool:
        """Whether a command asks the primary for what its own statements in front would change."""
        session_area = self._state.diagnostics
        wanted = diagnostics.parts_asked(command) | (
            diagnostics.parts_required(command) & CONDITIONS
        )
        if diagnostics.needs_count(session_area, primary.area, command):
            return True
        return session_area.is_at(primary.area, wanted) and not session_area.survives(wanted)

    def _replay(
        self, connection: ServerConnection, command: Command, wanted: int, front: Batch
    ) -> DiagnosticsReplay:
        """What makes these parts true there, behind what else goes in front of a command."""
        if not wanted:
            return NOTHING_TO_REPLAY
        parts = diagnostics.parts_asked(command) or wanted & CONDITIONS
        if not parts and self._state.pins.reasons:
            return DiagnosticsReplay(lost=wanted)  # perhaps by a trace, in which it would show
        area = connection.area
        for exchange, _ in front:
            area.disturb(exchange.disturbs)
        by = self._state.diagnostics.replay_for(area, wanted)
        if not parts and (by.again or by.lost):
            return DiagnosticsReplay(
                lost=wanted
            )  # too much for what it may keep, or the wrong thing
        return by

    def _ask_found_rows_of_replica(self, primary: ServerConnection) -> bool:
        """Ask the replica that alone knows FOUND_ROWS(), if the command asks the primary for it."""
        session_area = self._state.diagnostics
        area = session_area.found_at
        if area is None or area is primary.area or session_area.found_rows != NOT_KNOWN:
            return False
        if not diagnostics.parts_asked(self._current.command) & FOUND_ROWS:
            return False
        replica = self._servers.replica(area.server)
        if replica is None or replica.area is not area or replica.busy or replica.lost:
            return False
        if not session_area.is_at(area, FOUND_ROWS):
            return False
        replica.send(ask_found_rows(replica.query_attributes))
        self._asked = replica
        self._in_time = self._call_later(self._connect_timeout, self.go_on)
        return True

    def on_found_rows(self, connection: ServerConnection) -> None:
        """A server was asked for FOUND_ROWS(), and has answered, or is gone."""
        if connection is self._asked:
            self.go_on()

    def go_on(self) -> None:
        """The command waits no longer for what a replica says of FOUND_ROWS()."""
        self._state.diagnostics.forget()  # unless it was told
        self.leave()
        primary = self._servers.primary
        if primary is not None and not primary.lost and self._current.is_held:
            self.to_primary(primary)

    def leave(self) -> None:
        """Nobody waits for that any more."""
        self._asked = None
        if self._in_time is not None:
            self._in_time.cancel()
            self._in_time = None

    def save_found_rows(self, primary: ServerConnection) -> None:
        """Ask for FOUND_ROWS(), if a statement of the proxy's own would change it."""
        command = self._current.command
        if diagnostics.is_lost(self._state.diagnostics, primary.area, command):
            primary.send(ask_found_rows(primary.query_attributes))

    def _withheld(self) -> bool:
        """Refuse what may write while no write is served, as if the primary were read only.

        A refused COMMIT must be rolled back; so the session ends here.
        """
        command, topology = self._current.command, self._topology
        inside = self._state.transaction.is_open
        if not command_batch.may_be_withheld(command, self._current.outcome, inside=inside):
            if topology.lacks_quorum and command.is_read and command.rules.level in CURRENT:
                self._own_answers.refuse_whole(refusal.no_quorum(topology.withheld))
                return True
            return False
        message = (
            "The MySQL server is running with the --read-only option so it cannot execute this"
            f" statement (Tidegate: {topology.withheld})"
        )
        code = ServerErrorCode.ER_OPTION_PREVENTS_STATEMENT
        statement = command.statement
        ends = statement is not None and statement.kind is StatementClass.TRANSACTION
        if (ends and inside) or not command.packet:
            self._own_answers.end(message, code)
        else:
            self._own_answers.refuse(code, message, Reason.WRITE)
        return True

    def _to_replica(self, replica: ServerConnection, decision: Decision) -> None:
        read, current, state = self._read, self._current, self._state
        command, outcome = current.command, current.outcome
        current.on_sent()
        self._servers.activate(replica)
        outcome.sent_at = read.sent_at
        gtids = decision.proof_set
        waits = decision.proof is _WAITED and gtids is not None
        asking = self._checks(decision)
        transaction = state.transaction
        if command.is_read and not transaction.autocommit:
            transaction.on_implied_read(state, command.rules)
        snapshot, mirror = transaction.snapshot, replica.mirror
        takes = snapshot is not None and (
            mirror.needs_reset or mirror.transaction_reads is not snapshot
        )
        batch = command_batch.before_read(
            mirror,
            asking,
            command,
            state,
            replica.settings,
            replica.query_attributes,
            is_diagnostic=decision.reason is Reason.DIAGNOSTIC,
        )
        self._servers.show_status(replica)
        wanted = diagnostics.parts_required_of_replica(command)
        if wanted:
            by = self._replay(replica, command, wanted, batch)
            batch += replay_batch(by, replica.query_attributes)
        if snapshot is not None:
            if takes:
                self._takes_snapshot(decision)
            if command.is_read:
                outcome.snapshot_us = snapshot.asked_us
        if waits and gtids is not None:
            # The replica is not relied on to end it.
            outcome.dispatched_us = utc_us()
            limit = read.budget + self._connect_timeout
            self._read_timers.begin_wait(replica.server, gtids, self._now(), limit)
        self.send(replica, batch)
        if wanted:
            state.diagnostics.on_replay(replica.area, wanted, by)
        if state.plain:
            replica.give_to(self._taker)

    def _checks(self, decision: Decision) -> ReplicaChecks:
        """What the replica is asked in front of the read."""
        read, outcome = self._read, self._current.outcome
        audits = (
            self._audits.on
            and decision.proof is not _UNPROVED
            and bool(outcome.required)
            and not read.bound
            and self._audits.due()
        )
        gtids, question, budget = None, "", 0.0
        if decision.proof is _WAITED and decision.proof_set is not None:
            gtids = decision.proof_set
            question = beside_wait(read, confirm=decision.confirm)
            budget = read.wait_limit
        elif decision.confirm:
            question = columns(read.question())
        if gtids is None and not question and not audits:
            return NOTHING
        audited = outcome.required if audits else None
        if audited is not None and decision.independence is not None:
            audited = decision.independence.remaining
        return ReplicaChecks(gtids, budget, question, audited)

    def _takes_snapshot(self, decision: Decision) -> None:
        """The command takes the transaction's snapshot, on the replica that was decided on."""
        command = self._current.command
        self._state.transaction.on_snapshot(
            decision.server,
            decision.proof_set or EMPTY,
            command.rules,
            self._current.outcome.required,
            command.arrived_us,
            stale=decision.reason is Reason.WAIT_TIMEOUT,
        )

    def to_holder(self, holder: ServerConnection, reason: Reason) -> Step | None:
        """Write it to the server that has state which no other server has; returns as `to` does."""
        rules = self._current.command.rules
        if holder is self._servers.primary:
            decision = on_primary(self._topology, reason)
            self._read.bind(decision, rules, self._now())
            return self.to(decision)
        if holder.lost and self.reset_is_done():
            return None
        if holder.lost or holder.owes_answer:
            # The answer that it still owes to an earlier read would be taken for this one.
            self._own_answers.end_lost("it held an open cursor")
            return None
        decision = Decision(holder.server, reason, Proof.NONE)
        self._read.bind(decision, rules, self._now())
        self._current.outcome.set_decision(decision)
        self._current.on_sent()
        self._servers.activate(holder)
        self._servers.show_status(holder)
        self.send(holder)
        return None

    def to_substitute(self, replica: ServerConnection) -> None:
        """Write it to a replica in the place of the primary, which is gone."""
        command, outcome = self._current.command, self._current.outcome
        decision = Decision(replica.server, Reason.SESSION, Proof.NONE)
        self._read.substituted(decision, self._now())
        outcome.set_decision(decision)
        self._current.on_sent()
        self._servers.activate(replica)
        batch = command_batch.before_read(
            replica.mirror,
            NOTHING,
            command,
            self._state,
            replica.settings,
            replica.query_attributes,
            is_diagnostic=False,
        )
        self._servers.show_status(replica)
        self.send(replica, batch)

    def reset_is_done(self) -> bool:
        """Answer COM_STMT_RESET for a replica that is gone: all that it would drop is gone, too."""
        command = self._current.command
        if command.code is not Code.COM_STMT_RESET or command.prepared is None:
            return False
        self._prepared.close_cursor(command.prepared)
        self._servers.deactivate()
        self._state.diagnostics.affects_none()
        self._own_answers.ok()
        return True

    def send(self, connection: ServerConnection, front: Batch = (), behind: Batch = ()) -> None:
        """Register and write the command as this server is to get it, in one write.

        Args:
            connection: to the server.
            front: what goes in front of it.
            behind: what goes right behind it.
        """
        command, mirror = self._current.command, connection.mirror
        prepared = command.prepared
        handle = None if prepared is None else mirror.statements.get(prepared.number)
        if prepared is not None and handle is None:
            # The server must be told of it first; the command follows when it has answered.
            schema = self._state.schema
            if connection is self._servers.primary:
                mirror.schema = schema
            if not command.packet:
                self._long.hold()
            data = connection.register(front + prepare_on(mirror, prepared, schema))
        else:
            data = connection.register(front) if front else b""
            connection.expect(command_batch.expected(command))
            data += self._packet_for(connection, handle)
        if behind:
            data += connection.register(behind)
        if data:
            connection.write(data)

    def _packet_for(self, connection: ServerConnection, handle: PreparedHandle | None) -> bytes:
        """The command as this server is to get it; empty if its parts follow."""
        command, lease = self._current.command, self._lease
        if lease is not None and connection is self._servers.primary:
            known = lease.select_known_id(command)
            if known is not None:
                return statement_packet(known, connection.query_attributes)
        return command_batch.own_packet(command, handle, self._query_attributes)

    def pass_parts(self, connection: ServerConnection) -> None:
        """Let the parts of a long command go to the server, which knows what they belong to."""
        prepared = self._current.command.prepared
        if prepared is None:
            self._long.give(connection.write)
            return
        handle = connection.mirror.statements[prepared.number]
        attributes = self._query_attributes
        self._long.give(connection.write, lambda part: prepared.command(part, handle, attributes))

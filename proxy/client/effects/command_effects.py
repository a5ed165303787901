"""Takes over what a finished command changed, before its client is told of the end.

What trackers told (`routing.request.trackers`) and what the command was (`routing.request.effects`)
change the session as routing knows it. All other consequences are here: settings to be made again,
other rules, the end of a transaction on replicas, what may be asked about the command afterwards,
and what other sessions rely on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError
from protocol.session_track import chosen_schema
from proxy.client.primary_absence import chooses_schema, schema_chosen, text_of
from proxy.client.statements.defaults import session_start
from routing.consistency.adjustment import NO_ADJUSTMENT
from routing.consistency.decision import Proof, Reason
from routing.request import command_properties, effects
from routing.request.trackers import TRACKS_ALL, UNSURE, TrackerReader
from routing.session.prepared import PreparedHandle
from routing.sql.early_errors import changes_nothing
from routing.sql.session_locks import PinReason
from routing.sql.statement import StatementReason

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.session_context import SessionContext
    from proxy.server.connection import ServerConnection
    from routing.consistency.adjustment import Adjustment
    from routing.consistency.rules import Rules
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.servers.topology import Server
    from routing.transaction.transaction import Consequences


class CommandEffects:
    """Takes over the effects of one session's commands."""

    def __init__(self, session: SessionContext) -> None:
        shared = session.shared
        self._shared = shared
        self._metrics = shared.metrics
        self._now = shared.now
        self._state = session.state
        self._trackers = TrackerReader(session.state)
        self._rules = session.rules
        self._servers = session.servers
        self._settings = session.settings
        self._transaction = session.state.transaction
        self._prepared = session.prepared
        self._query_attributes = session.query_attributes
        self._pins = session.state.pins.reasons  # as the metrics have them
        # That a replica was the last to tell the schema of, in the primary's place.
        self._schema_told_for: Command | None = None
        self._new_rules = False  # there is another schema, so perhaps other rules

    # Trackers

    def take_trackers(
        self, connection: ServerConnection, command: Command, outcome: CommandOutcome
    ) -> None:
        """Learn from the trackers of the answer that is being read.

        Raises:
            MalformedPacketError: they contradict themselves.
        """
        stream = connection.stream
        of_primary = connection is self._servers.primary
        if not of_primary:
            if outcome.reason is Reason.SESSION:
                self._take_substitutes_schema(connection, command)
            if not connection.mirror.tracks_all:
                return
        state, metrics = self._state, self._metrics
        schema = state.schema
        tracking = TRACKS_ALL if connection.mirror.tracks_all else 0
        if of_primary and self._settings.untracked:
            tracking |= UNSURE
        tracked, unread = self._trackers.take(
            stream.session_states,
            command,
            outcome,
            connection.server,
            connection.epoch,
            tracking,
            self._now(),
        )
        metrics.tracked += tracked
        for _ in range(unread):
            metrics.unknown_gtid_encoding()
        stream.session_states.clear()
        if state.schema != schema:
            self._follow_schema()

    def _take_substitutes_schema(self, replica: ServerConnection, command: Command) -> None:
        """Learn which schema a replica has chosen in the primary's place.

        What the command names is in the client's character set.
        """
        for block in replica.stream.session_states:
            name = chosen_schema(block)
            if name is not None:
                self._schema_told_for = command
                self._choose_schema(replica, name)

    def _choose_schema(self, replica: ServerConnection, name: str) -> None:
        before = self._state.schema
        self._state.set_schema(name)
        replica.mirror.schema = name
        if name != before:
            self._follow_schema()

    def judge_names(
        self,
        connection: ServerConnection,
        command: Command,
        outcome: CommandOutcome,
        *,
        doubted: bool,
    ) -> None:
        """See whether the GTIDs of all that a command committed on the primary are known.

        `doubted` says that the required set is unknown already, for what the command did.
        """
        server = connection.server
        if effects.is_unnamed_commit(command, outcome, self._state, server, doubted=doubted):
            self._metrics.required_unknown("unnamed")
            self._settings.restore()

    def note_unlogged(
        self, command: Command, outcome: CommandOutcome, primary: Server, *, logged: bool
    ) -> None:
        """Remember whether a command may have written something without a GTID."""
        if effects.is_unlogged_write(command, outcome, primary, logged):
            self._state.record_unlogged_write(command.rules)
            self._metrics.wrote_unlogged()

    # Rules

    def _follow_schema(self) -> None:
        if self._rules.by_schema:
            self._state.initial_rules = self._rules.initial(self._state.schema)
            self._new_rules = True

    def follow_rules(self) -> None:
        """Let the rules of another default schema count."""
        if self._new_rules:
            self._new_rules = False
            self._follow(self._rules.present(self._state.schema))

    def follow_config(self) -> None:
        """Let the rules of the present configuration count; what the client SET goes on."""
        self._new_rules = False
        self._rules.renew()
        self._state.initial_rules = self._rules.initial(self._state.schema)
        self._follow(self._rules.present(self._state.schema))

    def adjust(self, chosen: Adjustment) -> None:
        """Let these settings of the client's count, in place of those before."""
        self._rules.chosen = chosen
        self._follow(self._rules.present(self._state.schema))

    def _follow(self, rules: Rules) -> None:
        if self._state.adjust(rules):
            self._settings.restore(trackers=False)

    def reset(self) -> None:
        """The primary did a COM_RESET_CONNECTION: the rest follows."""
        self._rules.chosen = NO_ADJUSTMENT
        self._state.reset()
        self.count_pins()
        self._prepared.clear()
        self._settings.restore()

    def on_reset_done(self, stream: ResponseStream) -> None:
        """The session was reset, and the primary has told (`ask_start`) what it begins with."""
        state = self._state
        start = session_start(stream)
        if start is not None:
            state.on_connect(
                start.sql_mode,
                start.autocommit,
                start.character_set,
                start.isolation,
                start.defaults,
                start.wait_timeout,
            )
        else:
            state.pins.acquire(PinReason.VARIABLE, "session defaults")
        self._servers.reset_replicas()

    def count_pins(self) -> None:
        """Let the metrics know why the session is pinned, if that has changed."""
        reasons = self._state.pins.reasons
        if reasons is not self._pins:
            self._metrics.pins(self._pins, reasons)
            self._pins = reasons

    # A command has ended

    def take_over(
        self,
        connection: ServerConnection,
        stream: ResponseStream,
        command: Command,
        outcome: CommandOutcome,
        *,
        told_later: bool,
    ) -> None:
        """The answer is complete: take over what it changed.

        Args:
            connection: who answered.
            stream: the answer.
            command: to this.
            outcome: what became of it.
            told_later: trackers tell of it in a later answer.
        """
        state, statement = self._state, command.statement
        ended_well = stream.error is None
        outcome.error = 0 if stream.error is None else _code(stream.error)
        outcome.rows = stream.rows
        outcome.warnings = stream.warnings
        outcome.unnamed = stream.unnamed
        if connection is self._servers.primary:
            if not ended_well and effects.may_spoil_xa(outcome, state):
                connection.keepable = False
            if ended_well or not self._changes_nothing(command, outcome):
                self._apply_changes(connection, stream, command, outcome, told_later=told_later)
        elif self._transaction.awaits_first_read:
            self._transaction.on_first_read(stream.status if ended_well else 0)
        elif ended_well and outcome.reason is Reason.SESSION:
            self._apply_substitute(connection, command, outcome)
        self._follow_accounts(command, outcome, ended_well=ended_well)
        if ended_well and not (
            command.is_query and (statement is None or statement.prepares is None)
        ):
            self._apply_session_command(connection, stream, command)
        if command.prepared is not None:
            self._prepared.on_answer(command.prepared, command.code, connection)
        shows = effects.record_result(command, outcome, state, connection.area, connection.epoch)
        if outcome.unsettled and (shows or self._transaction.is_open):
            # What the primary showed, or shows in the transaction that began, may be too old.
            outcome.proof = Proof.NONE
            self._metrics.stale_given()
        if self._new_rules:
            self.follow_rules()

    def _apply_substitute(
        self, replica: ServerConnection, command: Command, outcome: CommandOutcome
    ) -> None:
        """Take over what a replica has accepted in the primary's place: the next one is told.

        Raises:
            MalformedPacketError: it does not tell what it has chosen.
        """
        state, statement = self._state, command.statement
        replica.mirror.untouched = False
        if statement is not None and statement.assignments:
            effects.apply_success(command, outcome, state)
        if chooses_schema(command):
            told_for, self._schema_told_for = self._schema_told_for, None
            name = schema_chosen(command, text_of(command, self._query_attributes))
            if told_for is not command and name:
                self._choose_schema(replica, name)
            elif told_for is not command:
                raise MalformedPacketError("it does not say which schema it has chosen")

    def reset_without_primary(self) -> None:
        """A COM_RESET_CONNECTION came while there is no primary: begin as the session began."""
        self.reset()
        self._state.begin_again()
        self._servers.reset_replicas()

    def _follow_accounts(
        self, command: Command, outcome: CommandOutcome, *, ended_well: bool
    ) -> None:
        """Rely no more on what servers judged of logins, if a command may have changed that."""
        statement = command.statement
        if (
            statement is not None
            and not statement.assignments
            and statement.reason not in command_properties.OF_ACCOUNTS
        ):
            return
        if ended_well and command_properties.changes_passwords(command):
            self._shared.known_passwords.clear()
        if command_properties.changes_logins(command, outcome):
            self._shared.pool.login_cache.on_change()

    def _apply_changes(
        self,
        connection: ServerConnection,
        stream: ResponseStream,
        command: Command,
        outcome: CommandOutcome,
        *,
        told_later: bool,
    ) -> None:
        """Take over what a command changed on the primary, be it behind an error."""
        logged = self._state.logs
        if stream.error is None:
            self._apply_success(connection, stream, command, outcome, told_later=told_later)
        else:
            self._apply_error(command, outcome)
        if outcome.may_write or outcome.unlogged:
            self.note_unlogged(command, outcome, connection.server, logged=logged)
        if command.statement is not None and command.statement.changes_views:
            self._shared.catalogues.forget()

    def _apply_success(
        self,
        connection: ServerConnection,
        stream: ResponseStream,
        command: Command,
        outcome: CommandOutcome,
        *,
        told_later: bool,
    ) -> None:
        state, settings = self._state, self._settings
        consequences = self._transaction.on_ok(
            stream.status,
            command.statement,
            command.text,
            state,
            connection.server,
            may_write=outcome.may_write,
            ran=command.code is not Code.COM_STMT_PREPARE,
        )
        self._follow_transaction(consequences)
        modes = self._transaction.modes
        if modes.waiting and command_properties.begins_transaction(command):
            modes.spent()
        elif modes.waiting and not command_properties.keeps_modes(command, outcome):
            modes.doubt()
        if settings.untracked and (outcome.may_write or command.is_read):
            state.may_have_written(command.rules)
        statement = command.statement
        if (statement is None or statement.assignments) and command_properties.stays(
            command, outcome
        ):
            connection.keepable = False
        if effects.apply_success(command, outcome, state, stream.row, settings.undone):
            settings.restore()
        if not told_later:
            self.judge_names(connection, command, outcome, doubted=False)
        if statement is not None and statement.reason is StatementReason.ADMINISTRATION:
            self._follow_administration(connection.server, command)

    def _follow_administration(self, primary: Server, command: Command) -> None:
        """An administrative statement ended well: tell who relies on what it changed."""
        prepared = command.prepared
        sql = text_of(command, self._query_attributes) if prepared is None else prepared.sql
        if command_properties.takes_gtids(sql):
            self._shared.primary_epoch.on_reset(primary)

    def _apply_error(self, command: Command, outcome: CommandOutcome) -> None:
        state = self._state
        # It may have committed before it failed, and opened a transaction, too.
        doubtful = outcome.may_write or not state.lexer_modes.known
        self._follow_transaction(
            self._transaction.on_error(
                command.statement, may_write=outcome.may_write, may_open=doubtful
            )
        )
        if doubtful:
            state.may_have_written(command.rules)
            self._metrics.required_unknown("error")
        if effects.apply_error(command, outcome, state, self._settings.undone):
            self._settings.restore()

    def _follow_transaction(self, consequences: Consequences) -> None:
        """Do what follows from where the transaction stands now."""
        if consequences.end_on_replicas:
            self._servers.end_transactions()
        if consequences.count_split:
            self._metrics.snapshot_split()

    def _apply_session_command(
        self, connection: ServerConnection, stream: ResponseStream, command: Command
    ) -> None:
        """A command about the session itself ended well."""
        state, code = self._state, command.code
        if command.is_query:
            statement = command.statement
            if statement is not None and statement.text_prepared is not None:
                state.prepared_by_text = True
                inner = statement.prepares
                if inner is not None:
                    state.text_prepared.add(statement.text_prepared.name, inner)
            return
        if code is Code.COM_INIT_DB:
            if self._settings.undone:  # no tracker tells when it is done
                before = state.schema
                state.set_schema(command.packet[5:].decode("ascii"))
                if state.schema != before:
                    self._follow_schema()
        elif code is Code.COM_RESET_CONNECTION:
            self.reset()
        elif command.prepares is not None and stream.head is not None:
            prepared, head = command.prepares, stream.head
            prepared.parameters = head[7] | head[8] << 8
            self._prepared.add(prepared)
            connection.mirror.statements[prepared.number] = PreparedHandle.of(head)

    def _changes_nothing(self, command: Command, outcome: CommandOutcome) -> bool:
        """Whether the primary's error says that the statement has changed nothing."""
        state = self._state
        statement = command.statement
        if statement is None or not command.is_query or not state.lexer_modes.known:
            return False
        return changes_nothing(
            statement,
            text_of(command, self._query_attributes),
            outcome.error,
            self._transaction.is_open,
            self._transaction.is_read_only,
        )


def _code(error: bytes) -> int:
    return error[1] | error[2] << 8

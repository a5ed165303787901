"""What becomes of what servers answer: passed on, held back, judged, and taken over at its end.

`answer` passes the bytes of the answer to the client's command on, or holds them back where they
must not count: a replica refused, or has forgotten a statement. `aside` judges the answers to
statements of the proxy's own. `finish` takes over what the command changed, before the client is
told of its end.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from protocol.command import query_text_offset
from protocol.constants import Capability
from protocol.constants import Command as Code
from protocol.errors import MalformedPacketError
from protocol.frame_numbers import FrameNumbers
from protocol.packet import frame
from protocol.response import ErrPacket
from protocol.statement_execution import with_statement_id
from proxy.client import preparation
from proxy.server.connection import Purpose, ServerConnection
from proxy.server.probe import parsed
from routing.consistency.decision import Outcome, Reason
from routing.request import effects, traits
from routing.request.trackers import take_trackers
from routing.session.snapshot import Snapshot, begins_anew, ends_transaction, reads_data
from routing.sql.early_errors import did_nothing

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.session import ClientSession
    from proxy.shared import Shared
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_DRAIN_LIMIT: Final = 1 << 20
"""Bytes of an answer that does not count which are read before the connection is given up."""

_WRITES: Final = frozenset({1290, 1792, 1836})
"""Errors by which a server says that it may not run a statement that writes."""

_REFUSALS: Final = _WRITES | {1461}
"""These, and that it has no room for another prepared statement."""

_DENIALS: Final = frozenset({1044, 1142, 1143, 1227, 1356, 1370, 1449})
"""Errors by which a server says that the user, or a definer, lacks a right. A replica may not know
yet of one that was given, and the primary decides."""

_QUERY_TIMEOUT: Final = 3024
"""ER_QUERY_TIMEOUT: max_execution_time has passed."""

_IN_TRANS_READONLY: Final = 0x2001
"""Status flags of an open READ ONLY transaction."""

_FORGOTTEN: Final = frozenset({1243, 1615})
"""Errors by which a server says that it does not have a prepared statement any more."""

_NAMING: Final = frozenset({1243, 1421})
"""Errors whose text names a prepared statement by its id."""

_FAREWELLS: Final = frozenset({1053, 3032})
"""Errors by which a server says that it goes away, or serves nobody for now."""

_PASSING: Final = _FAREWELLS | {1205, 1213, 1317, _QUERY_TIMEOUT}
"""These, and that something was in the way, or the statement was killed."""


class Answers:
    """The owner of one session's server connections (`proxy.server.connection.Owner`)."""

    def __init__(self, shared: Shared, session: ClientSession) -> None:
        self._shared = shared
        self._session = session
        self._pins = session.state.pins.reasons  # as the metrics have them

    def answer(self, connection: ServerConnection, data: bytes, received: int) -> None:
        """Pass on bytes of the answer; what a replica says too late goes nowhere."""
        session = self._session
        if connection is not session.active:
            connection.drained += received
            if connection.drained > _DRAIN_LIMIT:
                session.replicas.give_up(connection)
            return
        command = session.command
        trail = session.trail
        answer = session.answer
        stream = connection.stream
        trail.received += received
        if stream.session_states:
            self.take_trackers(connection)
        if not answer.started and (
            connection is not session.primary or command.number or command.prepared is not None
        ):
            data = answer.held + data
            answer.held = b""
            if len(data) < 9 if command.number else len(data) < 5:
                answer.held = data
                return
            if data[4] == 0xFF:
                if not stream.done:
                    answer.held = data
                    return
                if stream.error is not None:
                    if self._does_not_count(connection, stream.error):
                        return
                    data = self._as_the_client_knows_it(connection, data)
            elif command.number:
                data = with_statement_id(data, command.number)
        if stream.infile and not self._may_want_file(connection):
            raise MalformedPacketError(
                "it asked for a local file of a client that has offered none"
            )
        if stream.done:
            if session.untold.behind(connection, stream):
                answer.ending = data
                self._take_over(connection, stream)
                return
            self.finish(connection, stream)
        if data:
            if not answer.started:
                answer.started = True
                session.read.first_byte()
            session.connection.write(data)
        if stream.infile:
            connection.be_patient()
            numbers = FrameNumbers(stream.sequence_id + 1)
            session.long_command.begin()
            session.long_command.give(lambda data: connection.write(numbers.renumber(data)))
            stream.infile_sent()
            session.connection.expect_infile()

    def _may_want_file(self, connection: ServerConnection) -> bool:
        """Whether the client has asked the server to ask for a local file.

        Some clients send whichever file a server names.
        """
        session = self._session
        command = session.command
        if (
            connection is not session.primary
            or not session.connection.capabilities & Capability.CLIENT_LOCAL_FILES
            or command.code != Code.COM_QUERY
        ):
            return False
        text = command.packet.upper()
        return not text or (b"LOAD" in text and b"LOCAL" in text and b"INFILE" in text)

    def _as_the_client_knows_it(self, connection: ServerConnection, data: bytes) -> bytes:
        """An ERR that names a prepared statement, by the client's id of it."""
        prepared = self._session.command.prepared
        handle = None if prepared is None else connection.statements.get(prepared.number)
        if prepared is None or handle is None or _code(data[4:]) not in _NAMING:
            return data
        payload = data[4:].replace(b"(%d)" % handle.server_id, b"(%d)" % prepared.number, 1)
        return frame(payload, data[3])

    def _does_not_count(self, connection: ServerConnection, error: bytes) -> bool:
        """Whether a server's error is not for the client: the command runs again, or elsewhere."""
        session = self._session
        command = session.command
        answer = session.answer
        code = _code(error)
        prepared = command.prepared
        if code in _FORGOTTEN and prepared is not None and prepared.moves:
            if not answer.prepared_anew and command.packet:
                answer.prepared_anew = True
                connection.statements.pop(prepared.number, None)
                connection.write(session.dispatch.own_packet(connection))
                return True
        elif connection is session.primary or session.read.bound:
            return False
        elif code in _REFUSALS or (code == _QUERY_TIMEOUT and self._unlimited()):
            statement = command.statement
            if code in _WRITES and statement is not None:
                self._shared.topology.refusals.add(statement.digest, self._shared.now())
            session.reads.refused(connection, Reason.REPLICA_REFUSED)
            return True
        elif code in _DENIALS:
            preparation.look_up_again(connection)
            session.reads.refused(connection, Reason.REPLICA_REFUSED)
            return True
        elif code in _FAREWELLS:
            session.reads.refused(connection, Reason.REPLICA_LOST)
            session.replicas.give_up(connection)
            return True
        return False

    def _unlimited(self) -> bool:
        """Whether a limit of execution time is the replica's own, and none that the client set."""
        hinted = b"MAX_EXECUTION_TIME" in self._session.command.text.upper()
        return "max_execution_time" not in self._session.state.variables and not hinted

    def aside(self, connection: ServerConnection, purpose: Purpose) -> None:
        """Judge the answer to a statement of the proxy's own."""
        session = self._session
        stream = connection.stream
        active = connection is session.active
        if purpose is Purpose.WAIT:
            if active:
                session.reads.waited(connection, stream)
        elif purpose is Purpose.PROBE:
            if active:
                if stream.session_states:
                    self.take_trackers(connection)  # of what failed before it
                self._probed(connection, stream)
        elif purpose is Purpose.GATHER:
            if session.state.suspect and not connection.silent:
                self.take_trackers(connection)  # of what failed before it
                if effects.told_late(session.command, session.trail, session.state):
                    session.primary_settings.restore()
            self._shared.probes.answered(connection, stream)
        elif purpose is Purpose.IMITATE or purpose is Purpose.SETTLE:
            if session.state.suspect:
                self.take_trackers(connection)  # of what failed before it
            if purpose is Purpose.SETTLE and active:
                session.reads.settled(connection, stream)
        elif purpose is Purpose.STATEMENT:
            session.dispatch.prepared_there(connection, stream, active)
        elif purpose is Purpose.CONFIRM:
            if active:
                session.reads.confirmed(connection, stream)
        elif purpose is Purpose.AUDIT:
            if active:
                session.reads.audited(connection, stream)
        elif purpose is Purpose.LATE:
            self._told_late(connection, stream)
        elif purpose is Purpose.VIEWS:
            session.views.answered(connection, stream)
        elif stream.error is None:
            if purpose is Purpose.RESTORE:
                session.primary_settings.restored(stream)
        elif purpose is Purpose.RESTORE:
            connection.close()
            if session.trail.may_write:
                session.state.may_have_written(session.command.rules)  # it stands right behind
            session.replies.lose_client(
                "the primary did not take the settings that consistency needs: "
                f"{ErrPacket.parse(stream.error)}"
            )
        elif connection is session.primary:
            session.replies.lose_client(
                "the primary did not go back to the session's schema: "
                f"{ErrPacket.parse(stream.error)}"
            )
        else:
            self._objected(connection, stream.error, active)
            if active:
                session.reads.refused(connection, Reason.REPLICA_REFUSED)
            # Even if nobody waits for it any more: it has not what it was thought to have.
            session.replicas.give_up(connection)

    def _objected(self, connection: ServerConnection, error: bytes, active: bool) -> None:
        """A replica did not take what the session carries: remember that, unless it may pass.

        Where the WAIT before ran out, the replica may be too old to know a schema or a role.
        """
        cause = str(ErrPacket.parse(error))
        pause = 0.0
        if active and _code(error) not in _PASSING:
            state = self._session.state
            now = self._shared.now()
            pause = state.objections.add(connection.server, cause, state.told, now)
        _log.info(
            "replica %s could not be prepared, and is left alone for %g s by session %d: %s",
            connection.server.name,
            pause,
            self._session.session_id,
            cause,
        )

    def _told_late(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """What trackers could not tell before is known: the answer that waited for it may end."""
        session = self._session
        ending = session.answer.ending
        session.untold.told(connection, stream, behind=ending is not None)
        self._follow_rules()
        if ending is not None:
            session.answer.ending = None
            self._end(connection)
            session.connection.write(ending)

    def settled(self, connection: ServerConnection) -> None:
        """Take the next command, if the answer to this one is complete."""
        session = self._session
        if connection is session.active and session.answered and not session.long_command.going:
            session.active = None
            if session.paused:
                connection.resume_reading()
            session.connection.ready()

    def _probed(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The primary's `gtid_executed`; without it, what is required stays unknown."""
        answer = parsed(stream)
        if answer is None:
            return
        executed = answer.executed
        if not answer.names:
            self._shared.sessions.stopped_naming(connection.server)
        self._session.state.probed(executed, answer.owned)
        connection.server.proved(executed, connection.epoch)
        self._shared.ledger.proved(
            connection.server,
            "probed",
            executed,
            self._session.trail.dispatched_us,
            time.time_ns() // 1000,
        )

    def take_trackers(self, connection: ServerConnection) -> None:
        """Learn from the trackers of the answer that is being read.

        Raises:
            MalformedPacketError: they contradict themselves.
        """
        stream = connection.stream
        if connection is not self._session.primary and not connection.tracks_all:
            return
        shared = self._shared
        schema = self._session.state.schema
        session = self._session
        tracked, unread = take_trackers(
            stream.session_states,
            session.command,
            session.trail,
            session.state,
            connection.server,
            connection.epoch,
            connection.tracks_all,
            shared.now(),
            connection is session.primary and session.primary_settings.untracked,
        )
        if tracked:
            shared.metrics.gtids_tracked(tracked)
        for _ in range(unread):
            shared.metrics.unknown_gtid_encoding()
        stream.session_states.clear()
        if self._session.state.schema != schema:
            self._follow_schema()

    def chose_schema(self, name: str) -> None:
        """A command that succeeded chose the default schema, and perhaps no tracker told so."""
        state = self._session.state
        before = state.schema
        state.chose_schema(name)
        if name != before:
            self._follow_schema()

    def _follow_schema(self) -> None:
        session = self._session
        if session.rules.by_schema:
            session.state.initial_rules = session.rules.initial(session.state.schema)
            session.new_rules = True

    def finish(self, connection: ServerConnection, stream: ResponseStream) -> None:
        """The answer is complete: take over what it changed, count it, log it."""
        self._take_over(connection, stream)
        self._end(connection)

    def _take_over(self, connection: ServerConnection, stream: ResponseStream) -> None:
        session = self._session
        command = session.command
        trail = session.trail
        answer = session.answer
        state = session.state
        trail.error = 0 if stream.error is None else _code(stream.error)
        trail.rows = stream.rows
        trail.unnamed = stream.unnamed
        if connection is session.primary:
            logged = state.logs
            nothing = stream.error is not None and self._did_nothing()
            if stream.error is None:
                session.status_flags = status = stream.status
                state.in_transaction = status & 0x0001 != 0
                state.unsure = False
                self._follow_snapshot(connection, status)
                if state.status_tells:
                    state.autocommit = status & 0x0002 != 0
                if state.modes.waiting and traits.began_transaction(command):
                    state.modes.spent()
                elif state.modes.waiting and not traits.keeps_modes(command, trail):
                    state.modes.doubt()
                settings = session.primary_settings
                if settings.untracked and (trail.may_write or command.is_read):
                    state.may_have_written(command.rules)
                if traits.stays(command, trail):
                    connection.keepable = False
                if effects.succeeded(command, trail, state, stream.row, settings.undone):
                    settings.restore()
                if answer.ending is None:
                    self.judge_names(connection, doubted=False)
            elif not nothing:
                state.modes.doubt()
                if trail.may_write or not state.modes_known:
                    # It may have committed before it failed, and opened a transaction, too.
                    state.may_have_written(command.rules)
                    state.in_transaction = state.unsure = True
                    self._shared.metrics.required_unknown("error")
                elif not state.autocommit:
                    state.in_transaction = state.unsure = True  # by the first table that it came to
                if effects.failed(command, trail, state, session.primary_settings.undone):
                    session.primary_settings.restore()
            if not nothing:
                self._note_unlogged(connection.server, logged)
                if command.statement is not None and command.statement.changes_views:
                    self._shared.catalogues.forget()
        elif state.snapshot is not None and state.snapshot.implied and not state.in_transaction:
            self._follow_implied(connection, stream)
        if stream.error is None and traits.changes_passwords(command):
            self._shared.known_passwords.clear()
        if traits.changes_logins(command, trail):
            self._shared.pool.lending.changed()
        if session.effect is not None and stream.error is None:
            session.effect(connection)
        if command.prepared is not None:
            session.prepared.ended(command.prepared, command.code, connection)
        shows = effects.shown(command, trail, state, connection.server, connection.epoch)
        if trail.unsettled and (shows or state.in_transaction):
            session.reads.shown_unsettled()
        self._follow_rules()
        if stream.error is None and traits.counts_rows(command, trail):
            state.found_on = connection.server
        if command.code in traits.ZEROING_ROW_COUNT and stream.error is None:
            session.previous.zeroed = True
        elif command.code not in traits.KEEPING_ROW_COUNT:
            session.previous.zeroed = False
        if trail.reason is not Reason.DIAGNOSTIC and (
            stream.error is not None or command.code not in traits.KEEPING_DIAGNOSTICS
        ):
            state.last = connection.server
            if connection is not session.primary:
                session.previous.ended(command, stream)

    def _note_unlogged(self, primary: Server, logged: bool) -> None:
        """Remember it if the request may have written what no GTID stands for."""
        session = self._session
        if effects.wrote_unlogged(session.command, session.trail, primary, logged):
            session.state.wrote_unlogged(session.command.rules)
            self._shared.metrics.wrote_unlogged()

    def _did_nothing(self) -> bool:
        """Whether the primary's error says that the statement has changed nothing."""
        session = self._session
        command = session.command
        state = session.state
        statement = command.statement
        if statement is None or command.code != Code.COM_QUERY or not state.modes_known:
            return False
        text = command.packet[4 + query_text_offset(command.packet[4:], session.query_attributes) :]
        return did_nothing(
            statement,
            text,
            session.trail.error,
            state.in_transaction,
            state.snapshot is not None and not state.unsure,
        )

    def judge_names(self, connection: ServerConnection, *, doubted: bool) -> None:
        """See whether all that the request committed on the primary was named.

        `doubted` says that the required set is unknown already, for what the request did.
        """
        session = self._session
        state = session.state
        server = connection.server
        if effects.committed_unnamed(
            session.command, session.trail, state, server, doubted=doubted
        ):
            self._shared.metrics.required_unknown("unnamed")
            session.primary_settings.restore()

    def _end(self, connection: ServerConnection) -> None:
        """Count and log what the client is told the end of."""
        session = self._session
        trail = session.trail
        session.answered = True
        session.read.ended()
        self.count_pins()
        outcome = Outcome.ERROR if trail.error else Outcome.OK
        session.account.enter(
            session.command, trail, connection.server, outcome, trail.error, trail.rows
        )

    def _follow_rules(self) -> None:
        """Let the rules of another default schema count."""
        session = self._session
        if session.new_rules:
            session.new_rules = False
            session.follow_rules(session.rules.present(session.state.schema))

    def count_pins(self) -> None:
        """Let the metrics know why the session is pinned, if that has changed."""
        reasons = self._session.state.pins.reasons
        if reasons is not self._pins:
            self._shared.metrics.pins(self._pins, reasons)
            self._pins = reasons

    def _follow_snapshot(self, primary: ServerConnection, status: int) -> None:
        """See whether a READ ONLY transaction has begun or ended, or reads from the primary."""
        session = self._session
        state = session.state
        command = session.command
        trail = session.trail
        statement = command.statement
        snapshot = state.snapshot
        if command.code == Code.COM_STMT_PREPARE:
            return  # nothing ran
        still_open = status & _IN_TRANS_READONLY == _IN_TRANS_READONLY
        ended = snapshot if ends_transaction(statement, trail.may_write, still_open) else None
        if ended is not None:
            state.snapshot = snapshot = None
            session.replicas.end_transactions()
        if not still_open:
            return
        reads = reads_data(statement, trail.may_write, command.text)
        if snapshot is None:
            state.snapshot = snapshot = Snapshot(autocommit=status & 0x0002 != 0)
            text = command.text.upper()
            modes = state.modes
            if (
                reads
                or not begins_anew(statement)
                or modes.isolates
                or state.is_serializable
                or state.tracks_transactions
                or b"SNAPSHOT" in text
                or not text
            ):
                snapshot.taken_on(primary.server)
                if ended is not None and ended.is_replicas and not begins_anew(statement):
                    self._shared.metrics.snapshot_split()  # it may be the same transaction
        elif snapshot.server is None and reads:
            snapshot.taken_on(primary.server)
        elif snapshot.is_replicas and reads:
            self._shared.metrics.snapshot_split()

    def _follow_implied(self, replica: ServerConnection, stream: ResponseStream) -> None:
        """See whether the first read without autocommit has begun a transaction on its replica.

        One that came to no table has not, and of one that failed it does not matter.
        """
        session = self._session
        state = session.state
        began = stream.error is None and stream.status & _IN_TRANS_READONLY == _IN_TRANS_READONLY
        if began:
            state.in_transaction = True
            state.modes.spent()
            session.status_flags |= _IN_TRANS_READONLY
        else:
            state.snapshot = None
            session.replicas.end_transactions()

    def server_lost(self, connection: ServerConnection, cause: str, error: bytes | None) -> None:
        """Run the statement elsewhere if that is safe, else end the session as a server would."""
        session = self._session
        shared = self._shared
        server = connection.server
        shared.metrics.server_disconnected(server.name)
        session.connection.resume_reading()  # it may have been this one that took no more
        active = connection is session.active and not session.answered
        if connection is not session.primary:
            session.replicas.lost(connection)
            if not active:
                self.settled(connection)  # it may have broken right behind its answer
                return
            _log.info("replica %s was lost during a statement: %s", server.name, cause)
            if session.reads.lost(connection, cause):
                return
            if session.dispatch.reset_is_done():
                return
            self.showed_in_part(connection)
            session.account.enter(session.command, session.trail, server, Outcome.LOST)
            session.replies.end_lost(cause)
            return
        session.primary = None
        pending = session.task is not None or session.reads.pending
        session.reads.leave()
        if pending or (session.active is not None and not session.answered):
            if active:
                self.showed_in_part(connection)
            if active and session.trail.may_write:
                session.state.may_have_written(session.command.rules)
                shared.metrics.required_unknown("lost")
                self._note_unlogged(server, session.state.logs)
            session.account.enter(session.command, session.trail, server, Outcome.LOST)
            session.replies.end_lost(cause)
        elif error is not None:
            session.connection.write(frame(error, 0))
            session.connection.close()
        else:
            session.connection.close()

    def showed_in_part(self, connection: ServerConnection) -> None:
        """Some of an answer that will not be complete has reached the client."""
        session = self._session
        if session.answer.started:
            session.state.showed(connection.server, connection.epoch, session.command.rules)

    def server_paused(self, connection: ServerConnection) -> None:
        """The server reads slower than the client sends: let the client wait."""
        self._session.connection.pause_reading()

    def server_resumed(self, connection: ServerConnection) -> None:
        """The server reads again."""
        self._session.connection.resume_reading()


def _code(error: bytes) -> int:
    return error[1] | error[2] << 8

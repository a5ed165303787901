"""Writes a session's request to the server that was decided on, with what that must be told first.

A prepared statement that the server does not know is prepared there before. Where that server is a
replica, and there is no connection to it or none that is of use, the read hears of that (`Reads`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from protocol.constants import Command as Code
from protocol.errors import ServerErrorCode
from protocol.gtid import EMPTY
from protocol.packet import frame
from protocol.response_stream import RESULTS
from proxy.client import preparation
from proxy.client.confirmation import beside_wait, columns
from proxy.client.prepared import prepare_on
from proxy.client.previous import begun_on
from proxy.server.connection import (
    FORWARD,
    FORWARD_CURSOR,
    FORWARD_ROW,
    PROBE,
    ServerConnection,
)
from proxy.server.probe import PROBE_SQL
from routing.consistency.decision import Decision, Level, Proof, Reason
from routing.consistency.rules import REMEMBERING
from routing.policy import on_primary, shows_less
from routing.session.prepared import READING, PreparedHandle
from routing.session.snapshot import Snapshot
from routing.sql.statement import StatementClass, Touch

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.session import ClientSession
    from proxy.shared import Shared
    from routing.consistency.rules import Rules
    from routing.servers.topology import Server
    from routing.session.prepared import PreparedStatement
    from routing.sql.statement import Statement


class Dispatch:
    """That of one session; there is one request at a time."""

    def __init__(self, shared: Shared, session: ClientSession) -> None:
        self._shared = shared
        self._session = session

    def to_primary(self, reason: Reason) -> None:
        """Dispatch the request to the primary."""
        self.to(on_primary(self._shared.topology, reason))

    def to_connection(self, connection: ServerConnection, reason: Reason) -> None:
        """Send the request where something of the session's is, that no other server has."""
        session = self._session
        command = session.command
        trail = session.trail
        if connection is session.primary:
            self.bind(on_primary(self._shared.topology, reason))
        elif connection.lost and self.reset_is_done():
            pass
        elif connection.lost or connection.owes_answer:
            # What it still owes to a read that left it would be taken for this answer.
            session.replies.end_lost("it held an open cursor")
        else:
            decision = Decision(connection.server, reason, Proof.NONE)
            session.read.bind(decision, command.rules, self._shared.now())
            trail.reason = reason
            trail.proof = Proof.NONE
            trail.decision = decision
            self.activate(connection)
            connection.write(self.own_packet(connection))

    def bind(self, decision: Decision) -> None:
        """Dispatch the request to where alone it can run."""
        session = self._session
        session.read.bind(decision, session.command.rules, self._shared.now())
        self.to(decision)

    def reset_is_done(self) -> bool:
        """Answer COM_STMT_RESET to a replica that is gone: so is all that it would drop."""
        session = self._session
        command = session.command
        if command.code is not Code.COM_STMT_RESET or command.prepared is None:
            return False
        session.prepared.close_cursor(command.prepared)
        session.active = None
        session.answered = True
        session.previous.zeroed = True
        session.replies.answer(session.replies.ok())
        return True

    def to(self, decision: Decision) -> None:
        """Write the request to the server that was decided on."""
        session = self._session
        command = session.command
        trail = session.trail
        state = session.state
        trail.decision = decision
        trail.reason = decision.reason
        trail.proof = decision.proof
        if decision.server is self._shared.topology.primary:
            primary = session.primary
            if primary is None or primary.lost:
                session.replies.lose_client("Lost connection to MySQL server during query")
                return
            if self._shared.topology.rivals and self._is_withheld():
                return
            if command.prepared is not None and not self._can_know(primary):
                session.replies.refuse(
                    ServerErrorCode.ER_UNKNOWN_STMT_HANDLER,
                    "Unknown prepared statement handler: sql_mode or character set have changed"
                    " since it was prepared; prepare it again",
                    reason=Reason.PREPARED,
                )
                return
            self.activate(primary)
            settles = not session.read.is_settled and self._older_than_seen()
            if settles and self._asks_about(primary):
                settles = False  # it would be told of the WAIT
                trail.unsettled = True
            if settles and self._can_wait():
                if not command.packet:
                    session.long_command.hold()
                primary.write(preparation.settle(primary, self.rules().wait_budget))
                return  # `Reads.settled` goes on
            data = session.untold.before(primary)
            data += session.primary_settings.in_front(primary)
            data += session.views.in_front(primary)
            data += self._prepare_before(primary)
            if settles:
                data += preparation.settle(primary, self.rules().wait_budget)
            data += preparation.begin_implied(primary, state.snapshot)
            data += self._imitate(primary)
            # Only before a read: behind a probe, ROW_COUNT() and the like would tell of the probe.
            # And in no transaction, where reads stay here anyway: it would take its trackers.
            if (
                state.wants_probe
                and command.is_read
                and not session.status_flags & 0x0001
                and self._guarded()
            ):
                primary.expect(PROBE)
                data += preparation.statement_packet(primary, PROBE_SQL)
            data += self.own_packet(primary)
            data += session.untold.along(primary)
            if data:
                primary.write(data)
            if not command.packet and self._knows(primary):
                self._pass_parts(primary)
            return
        replica = session.replicas.get(decision.server)
        if replica is None and decision.reason not in (Reason.TRANSACTION, Reason.DIAGNOSTIC):
            replica = session.replicas.borrow(decision.server)
        if decision.reason is Reason.TRANSACTION:
            if replica is None or replica.snapshot is not state.snapshot:
                session.reads.absent()
            else:
                self._to_replica(replica, decision)
        elif replica is None:
            session.reads.absent()
        elif replica.is_late:
            session.reads.unfit(Reason.REPLICA_BEHIND)  # it still drains what came too late
        elif command.prepared is not None and not self._can_know(replica):
            session.reads.unfit(Reason.PREPARED)
        else:
            self._to_replica(replica, decision)

    def _imitate(self, primary: ServerConnection) -> bytes:
        """What lets the primary answer a question about a statement that it has not run."""
        session = self._session
        statement = session.command.statement
        if statement is None or not statement.asks_previous:
            return b""
        last = self._asked_about(statement)
        if last is None:
            data = begun_on(primary)
        else:
            data = session.previous.imitated_on(primary) if last is not primary.server else b""
        return data + session.previous.zero_on(primary)

    def _asked_about(self, statement: Statement) -> Server | None:
        """Who ran the statement that this one asks about; None if none was run yet."""
        state = self._session.state
        return state.found_on if statement.reason is Touch.FOUND_ROWS else state.last

    def _asks_about(self, primary: ServerConnection) -> bool:
        """Whether the request asks about a statement that the primary ran."""
        statement = self._session.command.statement
        if statement is None or not statement.asks_previous:
            return False
        return self._asked_about(statement) is primary.server

    def _is_withheld(self) -> bool:
        """Refuse what may write while it is not clear who the primary is, as if it were read only.

        A COMMIT that a server refuses is rolled back; so the session ends here.
        """
        session = self._session
        command = session.command
        trail = session.trail
        statement = command.statement
        if not trail.may_write:
            return False
        inside = session.state.in_transaction
        ends = statement is not None and statement.kind is StatementClass.TRANSACTION
        if ends and not inside and b"XA" not in command.text.upper():
            return False  # it begins a transaction, or ends none
        names = " and ".join(server.name for server in self._shared.topology.rivals)
        message = (
            "The MySQL server is running with the --read-only option so it cannot execute this"
            f" statement (Tidegate: {names} take writes, and it is not clear which is the primary)"
        )
        code = ServerErrorCode.ER_OPTION_PREVENTS_STATEMENT
        if (ends and inside) or not command.packet:
            session.replies.lose_client(message, code)
        else:
            session.replies.refuse(code, message, reason=Reason.WRITE)
        return True

    def activate(self, connection: ServerConnection) -> None:
        """This connection answers the request."""
        self._session.active = connection
        self._session.answered = False
        if self._session.paused:
            connection.pause_reading()

    def _to_replica(self, replica: ServerConnection, decision: Decision) -> None:
        session = self._session
        command = session.command
        trail = session.trail
        state = session.state
        self.activate(replica)
        read = session.read
        trail.sent_at = read.sent_at
        data = b""
        waits = decision.proof is Proof.WAITED and decision.proof_set is not None
        # What is asked about the statement before needs no rights, and would lose it.
        asks = decision.reason is Reason.DIAGNOSTIC
        schema = state.schema if asks and replica.schema != state.schema else ""
        rights = not asks and (
            replica.role_version != state.role_version
            or (bool(state.schema) and replica.schema_version != state.schema_version)
        )
        audits = decision.proof is not Proof.NONE and session.reads.audits()
        if (
            waits
            or decision.confirm
            or audits
            or schema
            or rights
            or replica.needs_reset
            or replica.variables_version != state.variables_version
        ):
            parts = preparation.prepare(replica, state)
            if waits and decision.proof_set is not None:
                budget = read.budget
                trail.dispatched_us = time.time_ns() // 1000
                further = beside_wait(read, confirm=decision.confirm)
                parts += preparation.wait(replica, state, decision.proof_set, budget, further)
                session.reads.wait_sent(replica, decision.proof_set, budget)
            elif decision.confirm:
                parts += preparation.confirm(replica, state, columns(read.question()))
            if audits and trail.required is not None:
                parts += preparation.audit(replica, state, trail.required)
            if rights:
                parts += preparation.rights(replica, state, refreshed=bool(parts))
            if schema:
                parts += preparation.choose_schema(replica, schema)
            data = parts
        snapshot = state.snapshot
        if snapshot is None and state.opens_read_only and command.is_read:
            snapshot = state.snapshot = Snapshot(autocommit=False, implied=True)
        if snapshot is not None and replica.snapshot is not snapshot:
            data += preparation.begin_transaction(replica, snapshot)
            snapshot.taken_on(replica.server, decision.proof_set or EMPTY)
        if command.statement is not None and command.statement.user_variables:
            names = command.statement.user_variables
            data += preparation.assign_user_variables(replica, state, names)
        if asks:
            data += self._session.previous.zero_on(replica)
        replica.write(data + self.own_packet(replica))

    def own_packet(self, connection: ServerConnection) -> bytes:
        """The client's command as this server is to get it; registers its answer.

        Where the server must be told of a prepared statement first, that is all for now.
        """
        session = self._session
        command = session.command
        prepared = command.prepared
        locks = command.statement is not None and command.statement.is_one_lock
        expected = FORWARD_ROW if locks else FORWARD[command.shape]
        if prepared is None:
            connection.expect(expected)
            return command.packet
        if prepared.asks_cursor and command.code is Code.COM_STMT_EXECUTE:
            expected = FORWARD_CURSOR
        handle = connection.statements.get(prepared.number)
        if handle is None:
            if connection is session.primary:
                connection.schema = session.state.schema
            if not command.packet:
                session.long_command.hold()
            return prepare_on(connection, prepared, session.state.schema)
        connection.expect(expected)
        if not command.packet:
            return b""  # its parts follow
        packet = prepared.command(command.packet, handle, session.query_attributes)
        return prepared.long_data_for(handle) + packet if prepared.long_data else packet

    def prepared_there(
        self, connection: ServerConnection, stream: ResponseStream, active: bool
    ) -> None:
        """A server was asked to prepare a statement that it did not know; perhaps it did."""
        session = self._session
        number = connection.preparing.popleft()
        if stream.head is not None:
            connection.statements[number] = PreparedHandle.of(stream.head)
        prepared = session.command.prepared
        if not active or session.answered or prepared is None or prepared.number != number:
            return
        if stream.error is None:
            connection.write(self.own_packet(connection))
            self._pass_parts(connection)
        elif connection is not session.primary and not session.read.bound:
            session.reads.refused(connection, Reason.REPLICA_REFUSED)
        else:
            if session.long_command.going:
                session.long_command.give(_nowhere)
            session.answers.finish(connection, stream)
            session.connection.write(frame(stream.error, 1))

    def _can_know(self, connection: ServerConnection) -> bool:
        """As `_knows`, or it can be told."""
        prepared = self._session.command.prepared
        return (
            self._knows(connection)
            or prepared is None
            or prepared.is_read_alike(self._session.state)
        )

    def holder(self, prepared: PreparedStatement) -> ServerConnection | None:
        """A server that knows the statement: where its cursor is open, if it has one."""
        cursor = self._session.prepared.cursor(prepared)
        if cursor is not None:
            return cursor
        for connection in self._session.connections:
            if prepared.number in connection.statements and not connection.busy:
                return connection
        return None

    def _prepare_before(self, primary: ServerConnection) -> bytes:
        """What must be prepared before the request changes how statements are read."""
        session = self._session
        statement = session.command.statement
        if not len(session.prepared) or statement is None:
            return b""
        variables = session.state.variables
        if not any(
            one.name in READING and (one.value is None or variables.get(one.name) != one.value)
            for one in statement.assignments
        ):
            return b""
        primary.schema = schema = session.state.schema
        return b"".join(
            [
                prepare_on(primary, prepared, schema)
                for prepared in session.prepared.missing_on(primary)
                if prepared.is_read_alike(session.state)
            ]
        )

    def _knows(self, connection: ServerConnection) -> bool:
        """Whether the server knows the prepared statement that the request is about, if it is."""
        prepared = self._session.command.prepared
        return prepared is None or prepared.number in connection.statements

    def _pass_parts(self, connection: ServerConnection) -> None:
        """Let the parts of a long command go to the server that has been told what they are of."""
        session = self._session
        command = session.command
        prepared = command.prepared
        if prepared is None:
            session.long_command.give(connection.write)
            return
        handle = connection.statements[prepared.number]
        session.long_command.give(
            connection.write,
            lambda part: prepared.command(part, handle, session.query_attributes),
        )

    def rules(self) -> Rules:
        """What the request asks for."""
        return self._session.command.rules

    def _guarded(self) -> bool:
        return self.rules().level is not Level.BEST_EFFORT

    def _older_than_seen(self) -> bool:
        """Whether the primary may not show yet what a replica has shown, and the answer may tell.

        A replica can have applied what the primary has in its binlog, and not in its engine. Not
        inside a transaction, which shows what there was when it began; nor without GTIDs, since
        nothing can be waited for.
        """
        session = self._session
        rules = session.command.rules
        state = session.state
        if rules.level not in REMEMBERING or session.status_flags & 0x0001:
            return False
        primary = self._shared.topology.primary
        if session.command.shape != RESULTS or not primary.gtids or not self._may_show():
            return False
        scope = state.reading(rules, self._shared.topology.term, self._shared.now())
        return shows_less(scope, primary)

    def _may_show(self) -> bool:
        """Whether the answer may show data, or take a snapshot that later ones show."""
        command = self._session.command
        statement = command.statement
        if statement is None or statement.kind is StatementClass.READ:
            return True
        if statement.kind is StatementClass.TRANSACTION:
            return statement.begins
        if statement.kind is StatementClass.DIAGNOSTIC:
            return False
        return statement.may_write or b"FROM" in command.text.upper()

    def _can_wait(self) -> bool:
        """Whether the statement can be kept until the primary shows what was seen, or refused.

        What may write runs in any case.
        """
        statement = self._session.command.statement
        return statement is not None and (not statement.may_write or statement.begins)


def _nowhere(data: bytes) -> None:
    """What is wrong with it is told when it has come whole."""

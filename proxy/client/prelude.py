"""What goes to a server with a command: what it must be told first, and the command as it is there.

No I/O: the bytes are given back, and the answers to them are registered with the connection, in
their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from protocol.gtid import EMPTY
from protocol.response_stream import RESULTS
from proxy.client import preparation
from proxy.client.confirmation import beside_wait, columns
from proxy.client.prepared import prepare_on
from proxy.client.previous import begun_on
from proxy.server.connection import FORWARD, FORWARD_CURSOR, FORWARD_ROW
from routing.consistency.decision import Proof, Reason
from routing.consistency.rules import REMEMBERING
from routing.policy import shows_less
from routing.session.prepared import READING
from routing.session.snapshot import Snapshot
from routing.session.split import Split
from routing.session.split_snapshot import SplitSnapshot
from routing.sql.statement import StatementClass, Touch

if TYPE_CHECKING:
    from proxy.client.prepared import PreparedStatements
    from proxy.client.previous import Previous
    from proxy.server.connection import ServerConnection
    from routing.consistency.decision import Decision
    from routing.request.command import Command
    from routing.request.read import Read
    from routing.request.trail import Trail
    from routing.servers.topology import Server, Topology
    from routing.session.session import Session
    from routing.sql.statement import Statement


_DIAGNOSTIC: Final = Reason.DIAGNOSTIC
_WAITED: Final = Proof.WAITED


def own_packet(
    connection: ServerConnection, command: Command, schema: str, query_attributes: bool
) -> bytes:
    """The client's command as this server is to get it; registers its answer.

    Where the server must be told of a prepared statement first, that is all for now.

    Args:
        connection: to the server.
        command: the client's.
        schema: the session's default.
        query_attributes: the client's statements begin with attributes.
    """
    prepared = command.prepared
    statement = command.statement
    locks = statement is not None and bool(statement.holds) and statement.is_one_lock
    expected = FORWARD_ROW if locks else FORWARD[command.shape]
    if prepared is None:
        connection.expect(expected)
        return command.packet
    if prepared.asks_cursor and command.code is Code.COM_STMT_EXECUTE:
        expected = FORWARD_CURSOR
    handle = connection.mirror.statements.get(prepared.number)
    if handle is None:
        return prepare_on(connection, prepared, schema)
    connection.expect(expected)
    if not command.packet:
        return b""  # its parts follow
    packet = prepared.command(command.packet, handle, query_attributes)
    return prepared.long_data_for(handle) + packet if prepared.long_data else packet


def knows(connection: ServerConnection, command: Command) -> bool:
    """Whether a server knows the prepared statement that a command is about, if it is."""
    prepared = command.prepared
    return prepared is None or prepared.number in connection.mirror.statements


def can_know(connection: ServerConnection, command: Command, state: Session) -> bool:
    """As `knows`, or it can be told."""
    prepared = command.prepared
    return knows(connection, command) or prepared is None or prepared.is_read_alike(state)


# To a replica


def before_read(
    replica: ServerConnection,
    decision: Decision,
    read: Read,
    command: Command,
    trail: Trail,
    state: Session,
    previous: Previous,
    audits: bool,
) -> bytes:
    """What a replica is told in front of a statement, so that its answer may count.

    Args:
        replica: the connection to it.
        decision: why it was chosen.
        read: the statement's course.
        command: the statement.
        trail: what became of it.
        state: of the session.
        previous: how its last statement ended.
        audits: the replica's own word is asked for, too.
    """
    data = b""
    waits = decision.proof is _WAITED and decision.proof_set is not None
    # What is asked about the statement before needs no rights, and would lose it.
    asks = decision.reason is _DIAGNOSTIC
    mirror = replica.mirror
    schema = state.schema if asks and mirror.schema != state.schema else ""
    rights = not asks and (
        mirror.role_version != state.role_version
        or (bool(state.schema) and mirror.schema_version != state.schema_version)
    )
    if (
        waits
        or decision.confirm
        or audits
        or schema
        or rights
        or mirror.needs_reset
        or mirror.variables_version != state.variables_version
    ):
        data = preparation.prepare(replica, state)
        if waits and decision.proof_set is not None:
            further = beside_wait(read, confirm=decision.confirm)
            data += preparation.wait(replica, state, decision.proof_set, read.budget, further)
        elif decision.confirm:
            data += preparation.confirm(replica, state, columns(read.question()))
        if audits and trail.required is not None:
            data += preparation.audit(replica, state, trail.required)
        if rights:
            data += preparation.rights(replica, state, refreshed=bool(data))
        if schema:
            data += preparation.choose_schema(replica, schema)
    snapshot = state.snapshot
    if snapshot is None and not state.autocommit and state.opens_read_only and command.is_read:
        snapshot = state.snapshot = Snapshot(
            autocommit=False, implied=True, apart=state.reads_apart
        )
    elif (
        snapshot is None
        and not state.autocommit
        and command.is_read
        and state.opens_snapshot(command.rules)
    ):
        snapshot = state.snapshot = SplitSnapshot(autocommit=False, implied=True)
    if snapshot is not None and mirror.snapshot is not snapshot:
        data += preparation.begin_transaction(replica, snapshot)
        if not snapshot.apart:
            snapshot.taken_on(
                replica.server,
                decision.proof_set or EMPTY,
                command.rules,
                trail.required,
                command.arrived_us,
                stale=decision.reason is Reason.WAIT_TIMEOUT,
            )
    if snapshot is not None and command.is_read:
        trail.snapshot_us = snapshot.asked_us
    split = state.split
    if split is None and snapshot is None and command.is_read and state.opens_split:
        split = state.split = Split(autocommit=False, implied=True)
    if split is not None and mirror.snapshot is not split and not split.stays:
        data += preparation.begin_transaction(replica, split)
    if command.statement is not None and command.statement.user_variables:
        names = command.statement.user_variables
        data += preparation.assign_user_variables(replica, state, names)
    if asks:
        data += previous.zero_on(replica)
    return data


# To the primary


def imitation(
    primary: ServerConnection, statement: Statement, state: Session, previous: Previous
) -> bytes:
    """What lets the primary answer a question about a statement that it has not run."""
    last = _asked_about(statement, state)
    if last is None:
        data = begun_on(primary)
    else:
        data = previous.imitated_on(primary) if last is not primary.server else b""
    return data + previous.zero_on(primary)


def _asked_about(statement: Statement, state: Session) -> Server | None:
    """Who ran the statement that this one asks about; None if none was run yet."""
    return state.found_on if statement.reason is Touch.FOUND_ROWS else state.last


def asks_about(primary: ServerConnection, command: Command, state: Session) -> bool:
    """Whether a command asks about a statement that the primary ran."""
    statement = command.statement
    if statement is None or not statement.asks_previous:
        return False
    return _asked_about(statement, state) is primary.server


def prepare_before(
    primary: ServerConnection, command: Command, state: Session, all_prepared: PreparedStatements
) -> bytes:
    """What must be prepared before a command changes how statements are read."""
    statement = command.statement
    if not len(all_prepared) or statement is None:
        return b""
    variables = state.variables
    if not any(
        one.name in READING and (one.value is None or variables.get(one.name) != one.value)
        for one in statement.assignments
    ):
        return b""
    primary.mirror.schema = schema = state.schema
    return b"".join(
        [
            prepare_on(primary, prepared, schema)
            for prepared in all_prepared.missing_on(primary)
            if prepared.is_read_alike(state)
        ]
    )


def older_than_seen(
    command: Command, state: Session, topology: Topology, status: int, now: float
) -> bool:
    """Whether the primary may not show yet what a replica has shown, and the answer may tell.

    A replica can have applied what the primary has in its binlog, and not in its engine. Not inside
    a transaction, which shows what there was when it began, unless its reads go elsewhere; nor
    without GTIDs, since nothing can be waited for.

    Args:
        command: what goes to the primary.
        state: of the session.
        topology: whose primary it is.
        status: the primary's last one.
        now: monotonic, s.
    """
    rules = command.rules
    if rules.level not in REMEMBERING:
        return False
    elsewhere = state.split is not None or (
        state.snapshot is not None and state.snapshot.is_elsewhere
    )
    if status & 0x0001 and not elsewhere:
        return False
    primary = topology.primary
    if command.shape != RESULTS or not primary.gtids or not _may_show(command):
        return False
    return shows_less(state.reading(rules, topology.term, now), primary)


def _may_show(command: Command) -> bool:
    """Whether the answer may show data, or take a snapshot that later ones show."""
    statement = command.statement
    if statement is None or statement.kind is StatementClass.READ:
        return True
    if statement.kind is StatementClass.TRANSACTION:
        return statement.begins
    if statement.kind is StatementClass.DIAGNOSTIC:
        return False
    return statement.may_write or b"FROM" in command.text.upper()


def can_wait(command: Command) -> bool:
    """Whether a statement can be kept until the primary shows what was seen, or refused.

    What may write runs in any case.
    """
    statement = command.statement
    return statement is not None and (not statement.may_write or statement.begins)


def may_be_withheld(command: Command, trail: Trail, *, inside: bool) -> bool:
    """Whether a command is not for a server of which it is not clear that it is the primary.

    `inside` says that a transaction is open.
    """
    statement = command.statement
    if not trail.may_write:
        return False
    ends = statement is not None and statement.kind is StatementClass.TRANSACTION
    # What begins a transaction, or ends none, may go there.
    return not (ends and not inside and b"XA" not in command.text.upper())

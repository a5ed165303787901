"""What goes to a server with a command: what it must be told first, and the command as it is there.

No I/O, and no connection: these functions are given a connection's `Mirror`, and return what is to
be sent as a batch. The caller registers each command, and writes the bytes, in that order.

What a batch tells the server is noted in the mirror while the batch is made, since each command
builds on the ones before (a reset forgets roles and variables, rights are looked up after both).
Nothing waits for the answers. A batch that was made must be sent; if the server then refuses one of
its commands, the connection is closed, and its mirror goes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import IN_TRANS
from protocol.constants import Command as Code
from protocol.response_stream import RESULTS
from proxy.client.statements import session_setup
from proxy.client.statements import transaction as transaction_statements
from proxy.client.statements.audit import audit
from proxy.client.statements.confirmation import confirm
from proxy.client.statements.prepared_statement import prepare_on
from proxy.client.statements.replica_checks import NOTHING
from proxy.client.statements.wait import wait
from proxy.server.exchange import (
    FORWARD,
    FORWARD_CURSOR,
    FORWARD_ROW,
)
from routing.consistency.rules import REMEMBERING
from routing.policy import shows_less
from routing.session.prepared import READING
from routing.session.session import depends_on_server
from routing.sql.statement import StatementClass, may_read_tables

if TYPE_CHECKING:
    from proxy.client.prepared import PreparedStatements
    from proxy.client.statements.replica_checks import ReplicaChecks
    from proxy.server.exchange import Batch, Exchange
    from proxy.server.mirror import Mirror
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.servers.topology import Topology
    from routing.session.prepared import PreparedHandle
    from routing.session.session import Session


def expected(command: Command) -> Exchange:
    """What the answer to the client's command is for."""
    prepared, statement = command.prepared, command.statement
    if prepared is not None and prepared.asks_cursor and command.code is Code.COM_STMT_EXECUTE:
        return FORWARD_CURSOR
    locks = statement is not None and bool(statement.holds) and statement.is_one_lock
    return FORWARD_ROW if locks else FORWARD[command.shape]


def own_packet(command: Command, handle: PreparedHandle | None, query_attributes: bool) -> bytes:
    """The client's command in the form for one server; empty if its parts follow.

    Args:
        command: the client's.
        handle: the prepared statement that it is about, as that server knows it; None if it is
            about none.
        query_attributes: the client's statements begin with attributes.
    """
    prepared = command.prepared
    if prepared is None or handle is None or not command.packet:
        return command.packet
    packet = prepared.command(command.packet, handle, query_attributes)
    return prepared.long_data_for(handle) + packet if prepared.long_data else packet


def knows(mirror: Mirror, command: Command) -> bool:
    """Whether a server knows the prepared statement that a command is about, if there is one."""
    prepared = command.prepared
    return prepared is None or prepared.number in mirror.statements


def can_know(mirror: Mirror, command: Command, state: Session) -> bool:
    """Whether the primary knows it, as `knows` says, or can be told."""
    prepared = command.prepared
    return knows(mirror, command) or prepared is None or prepared.is_read_alike(state)


def replica_can_know(mirror: Mirror, command: Command, state: Session) -> bool:
    """The same of a replica, which is not told what would mean something else there."""
    prepared = command.prepared
    return knows(mirror, command) or prepared is None or prepared.means_alike(state)


# To a replica


def before_read(
    mirror: Mirror,
    checks: ReplicaChecks,
    command: Command,
    state: Session,
    settings: bytes,
    query_attributes: bool,
    *,
    is_diagnostic: bool,
) -> Batch:
    """What a replica is told in front of a statement, so that its answer may count.

    Args:
        mirror: of the connection to it.
        checks: what the replica is asked about itself.
        command: the statement.
        state: of the session, whose transaction is begun there if it was not yet.
        settings: the SET statement that made the connection fit for its purpose.
        query_attributes: were negotiated on the connection.
        is_diagnostic: the statement asks about the one before, and this replica has the answer.
    """
    batch: Batch = ()
    gtids, question, audited = checks.gtids, checks.question, checks.audited
    # A question about the statement before needs no rights, and a look-up would make it void.
    schema = state.schema if is_diagnostic and mirror.schema != state.schema else ""
    rights = not is_diagnostic and (
        mirror.role_version != state.role_version
        or (bool(state.schema) and mirror.schema_version != state.schema_version)
    )
    if (
        checks is not NOTHING
        or schema
        or rights
        or mirror.needs_reset
        or mirror.variables_version != state.variables_version
    ):
        batch = session_setup.set_up(mirror, state, settings, query_attributes)
        if gtids is not None:
            batch += wait(state, gtids, checks.budget, question, query_attributes)
        elif question:
            batch += confirm(state, question, query_attributes)
        if audited is not None:
            batch += audit(state, audited, query_attributes)
        if rights:
            refreshed = bool(batch)
            batch += session_setup.rights(mirror, state, refreshed, query_attributes)
        if schema:
            batch += session_setup.choose_schema(mirror, schema)
    statement = command.statement
    reads = state.transaction.to_begin(statement)
    if reads is not None and mirror.transaction_reads is not reads:
        batch += transaction_statements.begin_transaction(mirror, reads, query_attributes)
    if statement is not None and statement.user_variables:
        names = statement.user_variables
        batch += session_setup.assign_user_variables(mirror, state, names, query_attributes)
    return batch


# To the primary


def prepare_before(
    mirror: Mirror, command: Command, state: Session, all_prepared: PreparedStatements
) -> Batch:
    """What must be prepared before a command changes how statements are read."""
    statement = command.statement
    if not len(all_prepared) or statement is None:
        return ()
    variables = state.variables
    if not any(
        assignment.name in READING
        and (assignment.value is None or variables.get(assignment.name) != assignment.value)
        for assignment in statement.assignments
    ):
        return ()
    mirror.schema = schema = state.schema
    batch: Batch = ()
    for prepared in all_prepared.missing_on(mirror):
        if prepared.is_read_alike(state):
            batch += prepare_on(mirror, prepared, schema)
    return batch


def sets_unnamed_roles(command: Command) -> bool:
    """Whether it is a SET ROLE after which only the server knows which roles are active."""
    statement = command.statement
    return statement is not None and any(
        assignment.name == "role"
        and assignment.value is not None
        and depends_on_server(assignment.value)
        for assignment in statement.assignments
    )


def older_than_seen(command: Command, state: Session, topology: Topology, now: float) -> bool:
    """Whether the primary may lack what a replica has shown, and the answer may reveal that.

    A replica can have applied what the primary has in its binlog, but not yet in its engine. False
    inside a transaction, which shows what there was when it began, unless its reads go elsewhere;
    also without GTIDs, since nothing can be waited for.

    Args:
        command: what goes to the primary.
        state: of the session.
        topology: whose primary it is.
        now: monotonic, s.
    """
    rules = command.rules
    if rules.level not in REMEMBERING:
        return False
    transaction = state.transaction
    if transaction.status & IN_TRANS and not transaction.reads_elsewhere:
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
    return statement.may_write or may_read_tables(command.text)


def can_wait(command: Command) -> bool:
    """Whether a statement can be held until the primary shows what was seen, or refused.

    What may write runs in any case.
    """
    statement = command.statement
    return statement is not None and (not statement.may_write or statement.begins)


def may_be_withheld(command: Command, outcome: CommandOutcome, *, inside: bool) -> bool:
    """Whether a command must not go to a server that may not be the primary.

    `inside` says that a transaction is open.
    """
    statement = command.statement
    if not outcome.may_write:
        return False
    ends = statement is not None and statement.kind is StatementClass.TRANSACTION
    # A command that begins a transaction, or ends none, may go there.
    return not (ends and not inside and b"XA" not in command.text.upper())

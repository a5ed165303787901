"""What the primary is told of a transaction that reads a replica's snapshot, and may write later.

The transaction is opened on the primary with its first statement that needs it
(`routing.transaction.replica_snapshot`). Where that statement has to read what the replica showed,
the primary is asked for a snapshot of its own first, and what that shows; then the statement goes
on, or the transaction is rolled back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.gtid import EMPTY
from proxy.client.statements import transaction as transaction_statements
from proxy.client.statements.probe import probe_result
from proxy.server.exchange import Purpose
from routing.consistency.decision import ConflictPolicy
from routing.transaction.stage import SNAPSHOT_MOVED

if TYPE_CHECKING:
    from proxy.client.servers import Servers
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.session.session import Session


class ReplicaSnapshots:
    """The replicas' snapshots of one session's transactions; there is one at a time."""

    def __init__(self, state: Session, servers: Servers, metrics: Metrics) -> None:
        """Hold the snapshots of the session with this state and these servers."""
        self._transaction = state.transaction
        self._servers = servers
        self._metrics = metrics

    def needs_same_snapshot(self, command: Command, outcome: CommandOutcome) -> bool:
        """Whether a command for the primary is to see there what was seen on a replica."""
        needs = self._transaction.needs(command.statement, outcome.may_write, command.text)
        return needs == "same"

    def ask_or_roll_back(
        self, primary: ServerConnection, command: Command, outcome: CommandOutcome
    ) -> bool:
        """Ask what the primary's snapshot shows, or roll back where that is known to differ.

        Returns:
            Whether the command waits for the primary's answer to that.
        """
        if not self.needs_same_snapshot(command, outcome):
            return False
        if self._transaction.stage != SNAPSHOT_MOVED:
            primary.send(self._move(primary))
            return True
        policy = command.rules.on_split_conflict
        self._metrics.split_conflict(policy.value)
        if policy is ConflictPolicy.ALLOW:
            outcome.conflicts = True
            return False
        primary.send(transaction_statements.roll_back(primary.query_attributes))
        return True

    def in_front(
        self, primary: ServerConnection, command: Command, outcome: CommandOutcome
    ) -> Batch:
        """What goes in front of a command for the primary in a transaction that replicas have."""
        transaction = self._transaction
        if transaction.needs(command.statement, outcome.may_write, command.text) == "snapshot":
            return self._move(primary)
        reads = transaction.reads
        if reads is None or not transaction.is_unheard_of:
            return ()
        transaction.on_primary_begin()
        return transaction_statements.begin_implied(reads, primary.query_attributes)

    def _move(self, primary: ServerConnection) -> Batch:
        """Let the transaction go on from a snapshot of the primary's."""
        self._servers.end_transactions()
        self._transaction.move(primary.server)
        return transaction_statements.take_primary_snapshot(primary.query_attributes)

    def take_answer(self, connection: ServerConnection, purpose: Purpose) -> bool:
        """Take what a server says of its snapshot; whether that was its last answer."""
        of_primary = connection is self._servers.primary
        reads = connection.mirror.transaction_reads
        moment = self._transaction.moment(reads, of_primary=of_primary)
        if moment is None:
            return False
        if purpose is Purpose.SNAPSHOT:
            if connection.stream.error is not None:
                moment.on_failure()
            return False
        answer = probe_result(connection)
        executed = None if answer is None else answer.executed
        if purpose is Purpose.SNAPSHOT_BEFORE:
            moment.before(executed)
            return False
        moment.behind(executed, EMPTY if answer is None else answer.owned)
        return True

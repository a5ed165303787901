"""A session's transactions that read from replicas: whether one has begun or ended, or must stay.

The primary's status flags tell what is open there. READ ONLY transactions have a `Snapshot`; those
that may write a `Split` or a `SplitSnapshot`, until they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import AUTOCOMMIT, IN_TRANS, IN_TRANS_READONLY
from protocol.constants import Command as Code
from routing.session import split as splitting
from routing.session.snapshot import Snapshot, begins_anew, ends_transaction, reads_data
from routing.session.split import Split
from routing.session.split_snapshot import SplitSnapshot, needed
from routing.session.transactions import (
    is_serializable,
    opens_split,
    reads_apart,
    splits_snapshots,
)

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.servers import Servers
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from routing.request.command import Command
    from routing.request.trail import Trail
    from routing.session.session import Session

_READ_ONLY_OPEN: Final = IN_TRANS | IN_TRANS_READONLY
"""Status flags of an open READ ONLY transaction."""


class Transactions:
    """Follows the transactions of one session."""

    def __init__(self, state: Session, servers: Servers, metrics: Metrics) -> None:
        """Those of a session of which routing knows `state`, and that has `servers`."""
        self._state = state
        self._servers = servers
        self._metrics = metrics

    # READ ONLY transactions

    def follow_snapshot(
        self,
        primary: ServerConnection,
        command: Command,
        trail: Trail,
        status: int,
        *,
        opened: bool,
    ) -> None:
        """See whether a READ ONLY transaction has begun or ended, or reads from the primary.

        `opened`: none was open before, and all that the command does is read.
        """
        state, metrics = self._state, self._metrics
        statement = command.statement
        snapshot = state.snapshot
        if command.code == Code.COM_STMT_PREPARE:
            return  # nothing ran
        still_open = status & _READ_ONLY_OPEN == _READ_ONLY_OPEN
        over = ends_transaction(statement, trail.may_write, still_open)
        # An earlier error may have ended it, and has no status flags to show that.
        over = over or (snapshot is not None and not snapshot.implied and not still_open)
        ended = snapshot if over else None
        if ended is not None:
            state.snapshot = snapshot = None
            self._servers.end_transactions()
        if not still_open:
            return
        reads = reads_data(statement, trail.may_write, command.text)
        if snapshot is None:
            apart = reads_apart(state)
            state.snapshot = snapshot = Snapshot(autocommit=status & AUTOCOMMIT != 0, apart=apart)
            text = command.text.upper()
            modes = state.modes
            # A transaction that COMMIT AND CHAIN begins has the isolation level of the previous
            # one.
            changed = not opened and ended is not None and ended.apart is not apart
            changed = changed and statement is not None and not statement.begins
            if (
                (reads and not (apart and opened))
                or not (begins_anew(statement) or (apart and opened))
                or changed
                or modes.isolates
                or is_serializable(state)
                or state.trackers.of_transactions
                or b"SNAPSHOT" in text
                or not text
            ):
                snapshot.taken_on(primary.server)
                if ended is not None and ended.is_replicas and not begins_anew(statement):
                    metrics.snapshot_split()  # it may be the same transaction
        elif snapshot.server is None and reads and not snapshot.apart:
            snapshot.taken_on(primary.server)
        elif snapshot.is_replicas and reads:
            metrics.snapshot_split()

    def follow_implied(self, stream: ResponseStream) -> None:
        """See whether the first read with autocommit off has begun a transaction on its replica.

        A read of no table has not, and for a failed one it does not matter.
        """
        state = self._state
        began = stream.error is None and stream.status & _READ_ONLY_OPEN == _READ_ONLY_OPEN
        if began:
            state.in_transaction = True
            state.modes.spent()
            writes = state.split is not None or isinstance(state.snapshot, SplitSnapshot)
            self._servers.status |= IN_TRANS if writes else _READ_ONLY_OPEN
        else:
            state.snapshot = state.split = None
            self._servers.lingers = True  # its end would take the warnings away

    # Transactions that read from replicas until they write

    def follow_split(
        self, primary: ServerConnection, command: Command, trail: Trail, status: int
    ) -> None:
        """See whether one has begun or ended, or later statements must run on the primary."""
        state = self._state
        if command.code == Code.COM_STMT_PREPARE:
            return  # nothing ran
        statement, may_write = command.statement, trail.may_write
        before = state.split
        snapshot = state.snapshot if isinstance(state.snapshot, SplitSnapshot) else None
        still_open = status & _READ_ONLY_OPEN == IN_TRANS
        if snapshot is not None:
            if splitting.goes_on(statement, may_write, still_open):
                if snapshot.server is None and needed(statement, may_write, command.text) != (
                    "nothing"
                ):
                    snapshot.taken_on(primary.server)
                return
            state.snapshot = None
            self._servers.end_transactions()
        if before is not None:
            if splitting.goes_on(statement, may_write, still_open):
                if not before.stays and not splitting.is_plain(statement, may_write):
                    self._stay(before)
                return
            state.split = None
            self._servers.end_transactions()
        if not still_open or state.snapshot is not None:
            return
        opened = command.is_read and opens_split(state) and not may_write
        began = splitting.begins(statement, command.text, before or snapshot)
        autocommit = status & AUTOCOMMIT != 0
        if opened or (began and reads_apart(state) and not state.modes.isolates):
            state.split = Split(autocommit=autocommit)
        elif began and splits_snapshots(state, state.rules):
            state.snapshot = SplitSnapshot(autocommit=autocommit)

    def failed(self, command: Command, trail: Trail) -> None:
        """The primary answered with an error, which has no status flags: one may have ended."""
        state, may_write = self._state, trail.may_write
        if state.split is not None and not splitting.is_plain(command.statement, may_write):
            self._stay(state.split)
        snapshot = state.snapshot
        if isinstance(snapshot, SplitSnapshot) and not snapshot.moved and may_write:
            # No transaction is begun on the primary in its place.
            state.snapshot = None
            self._servers.end_transactions()

    def _stay(self, split: Split) -> None:
        """What follows in the transaction runs on the primary."""
        split.stays = True
        self._servers.end_transactions()

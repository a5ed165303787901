"""Where the reads of one READ ONLY transaction go.

A transaction reads from one snapshot, which its first read takes. A transaction that the client
begins is begun and ended on the primary, as the client says; if its first read may go to a replica,
a transaction is begun there, too, right before that read, and all later reads share its snapshot.
With autocommit off the first read itself begins the transaction (`implied`): on the replica, and on
the primary as soon as that is sent anything. What only the primary can answer is answered there,
from the primary's own snapshot.

The snapshot has what the first read must see, by level and scope. Later reads belong to the same
snapshot, as on a single server: nothing newer is required of them.

At READ COMMITTED and READ UNCOMMITTED each statement has a snapshot of its own: there each read is
routed by itself (`per_statement`), as in a READ WRITE transaction (`PerStatementReads`).
"""

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Level
from routing.consistency.rules import Rules
from routing.servers.topology import Role, Server
from routing.transaction.replica_reads import ReplicaReads


class Snapshot(ReplicaReads):
    """Of a READ ONLY transaction, or the base of a `ReplicaSnapshot`.

    Attributes:
        per_statement: there is no common snapshot: each of its statements has its own.
        server: which server has it; None before the first read, and where each statement has its
            own.
        gtids: of a replica: what it was proved to have when the snapshot was taken.
        rules: what its first read asked for; None if nobody knows.
        required: what that had to see; None if unknown.
        asked_us: when that arrived, UTC µs.
        stale: it lacks what the first read had to see, which was answered openly as stale.
    """

    def __init__(
        self,
        *,
        autocommit: bool = True,
        implied: bool = False,
        per_statement: bool = False,
        may_write: bool = False,
    ) -> None:
        super().__init__(autocommit, implied, may_write)
        self.per_statement = per_statement
        self.server: Server | None = None
        self.gtids: GtidSet = EMPTY
        self.rules: Rules | None = None
        self.required: GtidSet | None = EMPTY
        self.asked_us = 0
        self.stale = False

    def begin_on(
        self,
        server: Server,
        gtids: GtidSet = EMPTY,
        rules: Rules | None = None,
        required: GtidSet | None = EMPTY,
        asked_us: int = 0,
        *,
        stale: bool = False,
    ) -> None:
        """The transaction's first read goes there; see the attributes."""
        self.server = server
        self.gtids = gtids
        self.rules = rules
        self.required = required
        self.asked_us = asked_us
        self.stale = stale

    @property
    def is_on_replica(self) -> bool:
        """Whether a replica has it, which may have become the primary since it was taken."""
        return self.server is not None and self.server.role is not Role.PRIMARY

    def gives(self, rules: Rules) -> bool:
        """Whether the snapshot gives a later read under these rules what it asks for."""
        first = self.rules
        if first is None or first is rules or rules.level is Level.BEST_EFFORT:
            return True
        same_level = first.level is rules.level and first.staleness == rules.staleness
        return same_level and first.scope is rules.scope and first.application == rules.application

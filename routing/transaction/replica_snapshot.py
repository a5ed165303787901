"""A REPEATABLE READ transaction that may write, and reads from a replica's snapshot until it does.

Theory of operation
===================

All plain reads of such a transaction belong to one snapshot, which its first read takes. That may
be a replica's, as in a READ ONLY transaction: it cannot be told from the primary's own, as long as
only reads follow. A statement that writes, or locks what it reads, reads the newest state in any
case; so it may run on the primary after such reads, as it would on a single server.

A plain read after that has to see what was written, so only the primary can answer it, from its own
snapshot. The two snapshots are the same if both servers had exactly the same transactions. Each
server is asked for its transactions twice, before its snapshot is taken and after it (`Moment`):
the snapshot shows what the server had executed before; it does not show what the server has not
even begun to commit after. Where the two answers agree, the snapshot's transactions are known
exactly. The primary's snapshot is taken before the first command there that might look at it, and
no later: then the two are most likely the same.

Where they are not the same, or that is not known, reads of data on the primary are a *conflict*:
an error that rolls the transaction back, or they are answered openly (`on-split-conflict`).
"""

from protocol.gtid import EMPTY, GtidSet
from routing.servers.topology import Server
from routing.transaction.snapshot import Snapshot


class Moment:
    """What a server had when a snapshot was taken there.

    Attributes:
        exact: its transactions; None if they are not known, since something was being committed.
    """

    def __init__(self) -> None:
        self.exact: GtidSet | None = None
        self._before: GtidSet | None = None

    def before(self, executed: GtidSet | None) -> None:
        """What the server had executed before; None if it does not say."""
        self._before = executed
        self.exact = None

    def on_failure(self) -> None:
        """No snapshot was taken."""
        self._before = None

    def behind(self, executed: GtidSet | None, owned: GtidSet = EMPTY) -> None:
        """What it had executed, and had begun to commit, when the snapshot was taken."""
        before = self._before
        if before is not None and executed is not None and executed | owned == before:
            self.exact = before


class ReplicaSnapshot(Snapshot):
    """Of an open READ WRITE transaction at REPEATABLE READ.

    Attributes:
        replica: of the replica's snapshot.
        primary: of the primary's.
    """

    def __init__(self, *, autocommit: bool = True, implied: bool = False) -> None:
        super().__init__(autocommit=autocommit, implied=implied, may_write=True)
        self.replica = Moment()
        self.primary = Moment()

    @property
    def is_same(self) -> bool:
        """Whether both snapshots are known to show the same state."""
        exact = self.replica.exact
        return exact is not None and exact == self.primary.exact

    def move(self, primary: Server) -> None:
        """The primary's snapshot is taken now; all that follows runs there."""
        self.implied = False
        self.server = primary
        self.primary = Moment()

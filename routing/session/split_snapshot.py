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

from typing import Final, Literal

from protocol.gtid import EMPTY, GtidSet
from routing.servers.topology import Server
from routing.session.snapshot import Snapshot
from routing.sql.statement import Statement, StatementClass, Touch, may_read_tables

Needs = Literal["nothing", "snapshot", "same"]
"""What a command on the primary needs in such a transaction: that a snapshot is taken there first,
or also that it is known to be the same."""

_UNTOUCHED: Final = (StatementClass.DIAGNOSTIC, StatementClass.PROXY)
_WITHOUT_DATA: Final = (Touch.DEFINITION, Touch.ACCOUNT, Touch.ADMINISTRATION)


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

    def failed(self) -> None:
        """No snapshot was taken."""
        self._before = None

    def behind(self, executed: GtidSet | None, owned: GtidSet = EMPTY) -> None:
        """What it had executed, and had begun to commit, when the snapshot was taken."""
        before = self._before
        if before is not None and executed is not None and executed | owned == before:
            self.exact = before


class SplitSnapshot(Snapshot):
    """Of an open READ WRITE transaction at REPEATABLE READ.

    Attributes:
        there: of the replica's snapshot.
        here: of the primary's.
        moved: the primary's was taken, and what follows runs there.
    """

    def __init__(self, *, autocommit: bool = True, implied: bool = False) -> None:
        super().__init__(autocommit=autocommit, implied=implied)
        self.there = Moment()
        self.here = Moment()
        self.moved = False

    @property
    def is_same(self) -> bool:
        """Whether both snapshots are known to show the same state."""
        exact = self.there.exact
        return exact is not None and exact == self.here.exact

    def move(self, primary: Server) -> None:
        """The primary's snapshot is taken now; all that follows runs there."""
        self.moved = True
        self.server = primary
        self.here = Moment()

    def needs(self, statement: Statement | None, may_write: bool, text: bytes) -> Needs:
        """What a command needs that is to run on the primary.

        Args:
            statement: what it is; None if it is none, or nobody looked at it.
            may_write: it may commit something.
            text: bytes that hold its text; empty if that is not known.
        """
        if not self.moved and not self.is_replicas:
            return "nothing"  # no replica has shown anything
        needs = needed(statement, may_write, text)
        if self.moved:
            return "same" if needs == "same" and not self.is_same else "nothing"
        return needs


def needed(statement: Statement | None, may_write: bool, text: bytes) -> Needs:
    """What any such command needs; see `SplitSnapshot.needs`."""
    if statement is None:
        return "same" if may_write else "nothing"
    if statement.multi:
        return "same"
    kind, reason = statement.kind, statement.reason
    if kind is StatementClass.READ:
        dictionary = reason is Touch.METADATA and b"SELECT" not in text.upper()
        return "same" if statement.identifiers and not dictionary else "nothing"
    if kind in _UNTOUCHED:
        return "nothing"
    if kind is StatementClass.TRANSACTION:
        ends = reason is not Touch.SAVEPOINT and not statement.assignments
        return "nothing" if ends else "snapshot"
    if statement.is_current or reason in _WITHOUT_DATA:
        return "snapshot"
    if kind is StatementClass.WRITE or reason in (Touch.EXECUTED, Touch.HANDLER):
        return "same"
    if may_read_tables(text):
        return "same"
    return "snapshot" if statement.assignments or statement.holds else "nothing"

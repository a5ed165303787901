"""What a server keeps for its replicas: committed transactions, in commit order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mysql_mocker.replication.logged_statement import LoggedStatement
from mysql_mocker.sql.value import Value
from protocol.binlog.commit_timestamps import CommitTimestamps
from protocol.gtid import GtidSet


@dataclass(frozen=True, slots=True)
class Write:
    """One statement that changed data, in the form in which SQLite ran it.

    Running it again on the same data gives the same data: the clock and the random numbers
    that it saw come with it.

    Attributes:
        sql: SQLite's SQL.
        parameters: for its placeholders.
        timestamp: what NOW() is, in seconds since the epoch.
        seed: where RAND() and UUID() start.
        statement: the MySQL statement that it is (a part of), None if that is not known.
        touches: stored names of the tables that it reads or writes, each with the primary key of
            the one row that it is about, or None; empty if that is not known.
    """

    sql: str
    parameters: Mapping[str, Value]
    timestamp: float
    seed: int
    statement: LoggedStatement | None = None
    touches: tuple[tuple[str, int | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Transaction:
    """One committed transaction.

    Attributes:
        gtid: a set of one GTID.
        writes: its statements in order; empty for one that only has a GTID.
        committed_at: when its first server committed it, on the event loop's clock.
        timestamps: when its first server and this one committed it, in microseconds UTC.
        server_version: of the server that committed it first, such as 90704.
    """

    gtid: GtidSet
    writes: Sequence[Write]
    committed_at: float
    timestamps: CommitTimestamps
    server_version: int


class Binlog:
    """Transactions in commit order, and the listeners that are told of new ones.

    Attributes:
        server_uuid: that of its server.
        resets: how often it was reset.
        starts: how many transactions were there when each of its files began.
    """

    def __init__(self, server_uuid: str = "") -> None:
        self.server_uuid = server_uuid
        self.transactions: list[Transaction] = []
        self.resets = 0
        self.starts = [0]
        self._listeners: set[Callable[[], None]] = set()

    def append(self, transaction: Transaction) -> None:
        """Adds a transaction and tells the listeners."""
        self.transactions.append(transaction)
        self._tell()

    def reset(self) -> None:
        """Forgets all transactions."""
        self.transactions.clear()
        self.starts = [0]
        self.resets += 1

    def rotate(self) -> None:
        """Begins a new file."""
        self.starts.append(len(self.transactions))
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    @property
    def gtids(self) -> GtidSet:
        """The GTIDs of all its transactions."""
        found: dict[str, list[tuple[int, int]]] = {}
        for transaction in self.transactions:
            for tsid in transaction.gtid.tsids:
                found.setdefault(tsid, []).extend(transaction.gtid.intervals(tsid))
        return GtidSet(found)

    def listen(self, listener: Callable[[], None]) -> None:
        """Has `listener` called after each new transaction and file."""
        self._listeners.add(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Ends `listen`."""
        self._listeners.discard(listener)

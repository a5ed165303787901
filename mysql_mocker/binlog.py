"""What a server keeps for its replicas: committed transactions, in commit order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mysql_mocker.value import Value
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
    """

    sql: str
    parameters: Mapping[str, Value]
    timestamp: float
    seed: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """One committed transaction.

    Attributes:
        gtid: a set of one GTID.
        writes: its statements in order; empty for one that only has a GTID.
        committed_at: when its first server committed it, on the event loop's clock.
    """

    gtid: GtidSet
    writes: Sequence[Write]
    committed_at: float


class Binlog:
    """Transactions in commit order, and who wants to hear of new ones.

    Attributes:
        resets: how often it began anew.
    """

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.resets = 0
        self._listeners: set[Callable[[], None]] = set()

    def append(self, transaction: Transaction) -> None:
        """Adds a transaction and tells the listeners."""
        self.transactions.append(transaction)
        for listener in self._listeners:
            listener()

    def reset(self) -> None:
        """Forgets all transactions."""
        self.transactions.clear()
        self.resets += 1

    def listen(self, listener: Callable[[], None]) -> None:
        """Has `listener` called after each new transaction."""
        self._listeners.add(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """Ends `listen`."""
        self._listeners.discard(listener)

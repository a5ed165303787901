"""A transaction that belongs to no session."""

from dataclasses import dataclass

from mysql_mocker.replication.binlog import Write
from mysql_mocker.state.storage import Storage


@dataclass(slots=True)
class Detached:
    """A transaction after XA PREPARE (it keeps the write lock).

    Attributes:
        storage: the connection with the open SQLite transaction.
        writes: what it did.
        locked: whether it holds the engine's write lock.
    """

    storage: Storage
    writes: list[Write]
    locked: bool

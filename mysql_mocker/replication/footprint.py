"""What a transaction reads and writes: that decides whether two may be applied at the same time.

The server compares hashes of rows (WRITESET, the only way in 9.7). Replicas of the mocker run
statements, so what a statement reads counts as much as what it writes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mysql_mocker.replication.binlog import Write


@dataclass(frozen=True, slots=True)
class Footprint:
    """Rows, whole tables, or everything.

    Attributes:
        rows: stored name and primary key of each row that is named by its key.
        tables: stored names of tables of which more than such rows is read or written.
        everything: true for definitions, and for statements whose tables are not known.
    """

    rows: frozenset[tuple[str, int]]
    tables: frozenset[str]
    everything: bool

    @classmethod
    def of(cls, writes: Iterable[Write], has_key: Callable[[str], bool]) -> "Footprint":
        """The footprint of a transaction.

        Args:
            writes: its statements.
            has_key: whether a table has a primary key; without one, a statement reads all its rows.
        """
        rows: set[tuple[str, int]] = set()
        tables: set[str] = set()
        everything = False
        for write in writes:
            everything = everything or not write.touches
            for table, row in write.touches:
                if row is not None and has_key(table):
                    rows.add((table, row))
                else:
                    tables.add(table)
        return cls(frozenset(rows), frozenset(tables), everything)

    def overlaps(self, other: "Footprint") -> bool:
        """Whether the two transactions must be applied one after the other."""
        if self.everything or other.everything:
            return True
        if not (self.rows.isdisjoint(other.rows) and self.tables.isdisjoint(other.tables)):
            return True
        return self._covers_row_of(other) or other._covers_row_of(self)

    def _covers_row_of(self, other: "Footprint") -> bool:
        return any(table in self.tables for table, _ in other.rows)

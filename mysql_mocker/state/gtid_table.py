"""The table `mysql.gtid_executed` (WL#6559): GTIDs that outlive the server, in intervals."""

from pathlib import Path
from typing import Final

from mysql_mocker.sql.value import Row
from mysql_mocker.state.storage import Storage
from protocol.gtid import GtidSet

SCHEMA: Final = "mysql, stored"
"""The table's schema in its own database; `mysql` has the virtual table for statements."""

NAME: Final = f"{SCHEMA}.gtid_executed"
COLUMNS: Final = ("source_uuid", "interval_start", "interval_end", "gtid_tag")
DEFINITION: Final = """\
CREATE TABLE `gtid_executed` (
  `source_uuid` char(36) NOT NULL \
COMMENT 'uuid of the source where the transaction was originally executed.',
  `interval_start` bigint NOT NULL COMMENT 'First number of interval.',
  `interval_end` bigint NOT NULL COMMENT 'Last number of interval.',
  `gtid_tag` char(32) NOT NULL COMMENT 'GTID Tag.',
  PRIMARY KEY (`source_uuid`,`gtid_tag`,`interval_start`)
) /*!50100 TABLESPACE `mysql` */ ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 \
COLLATE=utf8mb4_0900_ai_ci STATS_PERSISTENT=0 ROW_FORMAT=DYNAMIC"""
"""SHOW CREATE TABLE of MySQL 9.7.4."""

_CREATE: Final = f"""
CREATE TABLE "{NAME}" (
  source_uuid TEXT NOT NULL, interval_start INTEGER NOT NULL, interval_end INTEGER NOT NULL,
  gtid_tag TEXT NOT NULL, PRIMARY KEY (source_uuid, gtid_tag, interval_start)
) WITHOUT ROWID
"""
_INSERT: Final = f'INSERT OR REPLACE INTO "{NAME}" VALUES (?, ?, ?, ?)'  # noqa: S608 - a constant
_DELETE: Final = (
    f'DELETE FROM "{NAME}" WHERE source_uuid = ? AND gtid_tag = ? '  # noqa: S608 - a constant
    "AND interval_start BETWEEN ? AND ?"
)
_ROWS: Final = (
    "SELECT source_uuid, interval_start, interval_end, gtid_tag "  # noqa: S608 - a constant
    f'FROM "{NAME}" ORDER BY source_uuid, gtid_tag, interval_start'
)


class GtidTable:
    """What the worklog calls Gtid_table_persistor; intervals include their ends.

    It has a database of its own, in memory, so that neither rotation nor compression waits for a
    client that holds the lock for writing. Its changes are committed at once.

    Attributes:
        storage: a client's statements about the table run here.
    """

    def __init__(self) -> None:
        self.storage = Storage(Path(":memory:"))
        self.storage.read(_CREATE)

    def close(self) -> None:
        """Closes the database."""
        self.storage.close()

    def save(self, gtids: GtidSet) -> None:
        """Adds one row for each interval to the rows that are there."""
        for tsid in gtids.tsids:
            uuid, _, tag = tsid.partition(":")
            for start, end in gtids.intervals(tsid):
                self.storage.read(_INSERT, (uuid, start, end - 1, tag))

    def compress(self) -> None:
        """Makes each range of consecutive numbers one row, a transaction for each range."""
        ranges: list[list[Row]] = []
        for row in self.rows():
            last = ranges[-1][-1] if ranges else None
            if last is not None and _continues(last, row):
                ranges[-1].append(row)
            else:
                ranges.append([row])
        for rows in ranges:
            if len(rows) > 1:
                self._join(rows)

    def _join(self, rows: list[Row]) -> None:
        uuid, start, _, tag = rows[0]
        _, last_start, end, _ = rows[-1]
        self.storage.begin(write=True)
        self.storage.read(_DELETE, (uuid, tag, start, last_start))
        self.storage.read(_INSERT, (uuid, start, end, tag))
        self.storage.commit()

    def reset(self) -> None:
        """Deletes all rows."""
        self.storage.read(f'DELETE FROM "{NAME}"')  # noqa: S608 - a constant

    def rows(self) -> list[Row]:
        """All rows in the order of the primary key."""
        return list(self.storage.read(_ROWS)[1])

    def fetch(self) -> GtidSet:
        """The GTIDs of all rows.

        Raises:
            MalformedGtidSetError: a client wrote rows that are not GTIDs.
        """
        found: dict[str, list[tuple[int, int]]] = {}
        for uuid, start, end, tag in self.rows():
            tsid = f"{uuid!s}:{tag!s}" if tag else str(uuid)
            found.setdefault(tsid, []).append((int(str(start)), int(str(end)) + 1))
        return GtidSet(found)


def _continues(last: Row, row: Row) -> bool:
    """Whether `row` begins where `last` ends."""
    same = (last[0], last[3]) == (row[0], row[3])
    return same and isinstance(last[2], int) and last[2] + 1 == row[1]

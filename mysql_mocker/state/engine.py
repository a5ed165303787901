"""A server's data, shared by its connections: a SQLite database of its own."""

import asyncio
import tempfile
from pathlib import Path

from mysql_mocker.error import lock_wait_timeout
from mysql_mocker.state.gtid_table import GtidTable
from mysql_mocker.state.storage import Storage

SYSTEM_SCHEMAS = ("information_schema", "mysql", "performance_schema", "sys")


class Engine:
    """The database file, the one writer's lock and the list of schemas.

    The file is in the temporary directory, is never synced to the disk, and is deleted with the
    engine. It is a file, not ``:memory:``, because only a file in WAL mode gives readers snapshots
    beside a writer.

    Attributes:
        write_lock: held by the session whose transaction has written; one per server, whereas
            MySQL locks rows.
        counters: the last AUTO_INCREMENT number of each table that gave one out; no rollback
            takes it back.
        own: the engine's own connection, for the applier and for metadata.
        gtid_table: `mysql.gtid_executed`.
    """

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="mysql_mocker-")
        self._path = Path(self._directory.name) / "data.sqlite"
        self.write_lock = asyncio.Lock()
        self.counters: dict[str, int] = {}
        self.own = self.open()
        self.own.begin(write=True)
        self.own.read('CREATE TABLE ".schemata" (name TEXT PRIMARY KEY)')
        self.own.read(
            'CREATE TABLE ".routines" (kind TEXT, schema TEXT, name TEXT, body TEXT, '
            "PRIMARY KEY (kind, schema, name))"
        )
        self.own.read('CREATE TABLE ".gtids" (number INTEGER PRIMARY KEY, epoch INT, gtid TEXT)')
        self.own.commit()
        self.gtid_table = GtidTable()

    def open(self) -> Storage:
        """A new connection."""
        return Storage(self._path)

    async def lock(self, seconds: float) -> None:
        """Takes the lock for writing.

        Raises:
            MySQLError: 1205 after `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                await self.write_lock.acquire()
        except TimeoutError:
            raise lock_wait_timeout() from None

    def create_schema(self, name: str) -> None:
        """Makes a schema without a transaction."""
        self.own.read('INSERT OR IGNORE INTO ".schemata" VALUES (?)', (name,))

    def close(self) -> None:
        """Deletes the data; all connections must be closed."""
        self.own.close()
        self.gtid_table.close()
        self._directory.cleanup()

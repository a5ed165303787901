"""The transaction of one session: when it starts, what it wrote, how it ends."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mysql_mocker.binlog import Write
from mysql_mocker.error import MySQLError
from mysql_mocker.storage import Storage
from protocol.gtid import GtidSet

if TYPE_CHECKING:
    from mysql_mocker.session import Session


@dataclass(slots=True)
class Detached:
    """A transaction after XA PREPARE: it belongs to no session (and keeps the write lock).

    Attributes:
        storage: the connection with the open SQLite transaction.
        writes: what it did.
        locked: whether it holds the engine's write lock.
    """

    storage: Storage
    writes: list[Write]
    locked: bool


@dataclass(slots=True)
class Transaction:
    """The open transaction of a session, if there is one, else the next one.

    The snapshot of its reads begins with its first read and is renewed by its first write: from
    then on the session is the server's only writer.

    Attributes:
        explicit: BEGIN, START TRANSACTION or XA START opened it.
        implicit: autocommit=0 and a table was accessed.
        read_only: writes are refused.
        writes: its statements that changed data.
        savepoints: name, and how many writes came before it.
        xid: of XA START.
    """

    session: "Session"
    explicit: bool = False
    implicit: bool = False
    read_only: bool = False
    writes: list[Write] = field(default_factory=list)
    savepoints: list[tuple[str, int]] = field(default_factory=list)
    xid: str | None = None
    _locked: bool = False

    @property
    def active(self) -> bool:
        """SERVER_STATUS_IN_TRANS."""
        return self.explicit or self.implicit

    @property
    def _storage(self) -> Storage:
        return self.session.storage

    def begin(self, *, read_only: bool) -> None:
        """BEGIN; what was open is committed first, which ALL_GTIDS (only) keeps to itself."""
        self.commit(told=False)
        self.explicit = True
        self.read_only = read_only
        self.session.trackers.transaction_began()

    def read(self) -> None:
        """A statement is about to read tables."""
        self._open_implicitly()
        if not self.active:
            return
        committed_reads = self.session.variables["transaction_isolation"] == "READ-COMMITTED"
        renewed = committed_reads and not self._locked and not self.savepoints
        if renewed and self._storage.in_transaction:
            self._storage.commit()
        if not self._storage.in_transaction:
            self._storage.begin(write=False)

    async def lock(self) -> None:
        """A statement is about to write: waits for the other writer, if there is one.

        Raises:
            MySQLError: 1205 after `innodb_lock_wait_timeout`, 1317 after KILL QUERY.
        """
        self._open_implicitly()
        if self._locked:
            return
        seconds = float(self.session.variables["innodb_lock_wait_timeout"])
        acquired = self.session.server.engine.write_lock.acquire()
        if await self.session.interruptible(acquired, seconds) is None:
            raise MySQLError(
                1205, "HY000", "Lock wait timeout exceeded; try restarting transaction"
            )
        self._locked = True
        if self._storage.in_transaction:
            self._storage.commit()
        self._storage.begin(write=True)
        for name, _ in self.savepoints:
            self._storage.savepoint("SAVEPOINT", name)

    def _open_implicitly(self) -> None:
        if not self.session.variables["autocommit"] and not self.active:
            self.implicit = True
            self.read_only = bool(self.session.variables["transaction_read_only"])
            self.session.trackers.transaction_began(implicit=True)

    def end_statement(self, *, failed: bool) -> None:
        """After a statement: outside a transaction it is committed, or undone."""
        if self.active:
            return
        if failed:
            self.rollback()
        else:
            self.commit()
            self._tell_all()

    def commit(self, *, numbered: bool = False, told: bool = True) -> None:
        """COMMIT, if anything is open.

        Args:
            numbered: it gets a GTID even without a write.
            told: ALL_GTIDS reports at this point.
        """
        if self._storage.in_transaction:
            self._storage.commit()
        if self.writes or numbered or (self.active and self._named_gtid() is not None):
            self._number(self.writes)
        if self.active and told:
            self._tell_all()
        self._end()

    def _tell_all(self) -> None:
        self.session.trackers.statement_committed(self.session.server.gtids.executed)

    def rollback(self) -> None:
        """ROLLBACK, if anything is open."""
        if self._storage.in_transaction:
            self._storage.rollback()
        self._end()

    def _end(self) -> None:
        if self._locked:
            self._locked = False
            self.session.server.engine.write_lock.release()
        if self.active:
            self.session.trackers.transaction_ended()
        self.explicit = self.implicit = self.read_only = False
        self.xid = None
        self.writes = []
        self.savepoints = []

    def _named_gtid(self) -> GtidSet | None:
        """The GTID of ``SET gtid_next = 'uuid:number'``."""
        name = str(self.session.variables["gtid_next"])
        return None if name.upper() in ("AUTOMATIC", "ANONYMOUS") else GtidSet.parse(name)

    def _number(self, writes: Sequence[Write]) -> None:
        """Gives what was just committed its GTID, and so to the replicas."""
        session = self.session
        if not session.variables["sql_log_bin"]:
            return
        gtid = self._named_gtid()
        session.variables["gtid_next"] = "AUTOMATIC"
        gtid = session.server.committed(writes, gtid)
        session.trackers.transaction_committed(gtid)

    # Savepoints.

    def savepoint(self, name: str) -> None:
        """SAVEPOINT; an older one of this name goes."""
        if not self.active:
            return
        self.read()
        self.savepoints = [(n, count) for n, count in self.savepoints if n != name]
        self.savepoints.append((name, len(self.writes)))
        self._storage.savepoint("SAVEPOINT", name)

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TO SAVEPOINT.

        Raises:
            MySQLError: 1305.
        """
        place = self._find(name)
        self._storage.savepoint("ROLLBACK TO", name)
        del self.writes[self.savepoints[place][1] :]
        del self.savepoints[place + 1 :]

    def release(self, name: str) -> None:
        """RELEASE SAVEPOINT.

        Raises:
            MySQLError: 1305.
        """
        place = self._find(name)
        self._storage.savepoint("RELEASE", name)
        del self.savepoints[place:]

    def _find(self, name: str) -> int:
        for place, (known, _) in enumerate(self.savepoints):
            if known == name:
                return place
        raise MySQLError(1305, "42000", f"SAVEPOINT {name} does not exist")

    # XA.

    def prepare(self) -> Detached:
        """XA PREPARE: one GTID now, the data stay unseen until XA COMMIT (fact 2.2)."""
        detached = Detached(self._storage, self.writes, self._locked)
        self.writes = []
        self._locked = False
        self.session.storage = self.session.server.engine.open()
        self.session.storage.surroundings.user_variables = (
            detached.storage.surroundings.user_variables
        )
        self._number([])
        self._end()
        return detached

    def finish(self, detached: Detached, *, keep: bool) -> None:
        """XA COMMIT or XA ROLLBACK of a prepared transaction: the second GTID."""
        if detached.storage.in_transaction:
            if keep:
                detached.storage.commit()
            else:
                detached.storage.rollback()
        detached.storage.close()
        if detached.locked:
            self.session.server.engine.write_lock.release()
        self._number(detached.writes if keep else [])

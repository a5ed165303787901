"""The transaction of one session: when it starts, what it wrote, how it ends."""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from mysql_mocker.error import MySQLError, lock_wait_timeout
from mysql_mocker.replication.binlog import Write
from mysql_mocker.state import gtid_next
from mysql_mocker.state.gtid_next import GtidNext
from mysql_mocker.state.semi_sync import WaitPoint
from mysql_mocker.state.storage import Storage
from mysql_mocker.state.trackers import Trackers
from mysql_mocker.state.variables import DEFINITIONS, Setting
from protocol.gtid import GtidSet


class Owner(gtid_next.Owner, Protocol):
    """What a transaction needs of its session, besides what `GtidNext` needs.

    Attributes:
        storage: its connection to the data.
        next_read_only: what SET TRANSACTION said about the next transaction, if it did.
        next_isolation: the same for its isolation.
    """

    storage: Storage
    next_read_only: bool | None
    next_isolation: str | None

    @property
    def variables(self) -> dict[str, Setting]:
        """Its system variables."""
        ...

    @property
    def trackers(self) -> Trackers:
        """What its client is told."""
        ...

    @property
    def gtid_next(self) -> GtidNext:
        """Gives its next transaction a GTID."""
        ...

    def check_write(self) -> None:
        """Raises 1290 or 1792 where nothing may be written."""
        ...


@dataclass(slots=True)
class Transaction:
    """The open transaction of a session, if there is one, else the next one.

    The snapshot of its reads begins with its first read and is renewed by its first write: from
    then on the session is the server's only writer.

    Attributes:
        explicit: BEGIN or START TRANSACTION opened it.
        implicit: autocommit=0 and a table was accessed.
        read_only: writes are refused.
        writes: its statements that changed data.
        savepoints: name, and how many writes came before it. With autocommit off, one can be set
            before anything has opened the transaction.
        acknowledgement: when it was logged, on the event loop's clock, if its client is still to
            wait for a replica to have it.
    """

    session: Owner
    explicit: bool = False
    implicit: bool = False
    read_only: bool = False
    writes: list[Write] = field(default_factory=list)
    savepoints: list[tuple[str, int]] = field(default_factory=list)
    acknowledgement: float | None = None
    _locked: bool = False
    _logged: GtidSet | None = None
    _used: bool = False

    @property
    def active(self) -> bool:
        """SERVER_STATUS_IN_TRANS."""
        return self.explicit or self.implicit

    @property
    def _storage(self) -> Storage:
        return self.session.storage

    def begin(self, *, read_only: bool | None = None) -> None:
        """BEGIN.

        An open transaction is committed first; under ALL_GTIDS, and only there, that is not
        reported.
        """
        if read_only is None:
            # If the transaction that is committed implicitly was READ ONLY, so is the new one.
            read_only = self.read_only or self.next_read_only
        self.commit(tracked=False)
        self.explicit = True
        self.read_only = read_only
        self.session.trackers.transaction_began()

    @property
    def next_read_only(self) -> bool:
        """Whether the next transaction refuses writes if it does not say otherwise."""
        if self.session.next_read_only is not None:
            return self.session.next_read_only
        return bool(self.session.variables["transaction_read_only"])

    def read(self, *, tracked: bool = True) -> None:
        """A statement is about to read tables.

        If that begins a transaction, trackers report it only where `tracked`.
        """
        self._used = True
        self._open_implicitly(tracked=tracked)
        if not self.active:
            return
        committed_reads = self.session.variables["transaction_isolation"] == "READ-COMMITTED"
        renewed = committed_reads and not self._locked and not self.savepoints
        if renewed and self._storage.in_transaction:
            self._storage.commit()
        if not self._storage.in_transaction:
            self._begin(write=False)

    def _begin(self, *, write: bool) -> None:
        self._storage.begin(write=write)
        for name, _ in self.savepoints:
            self._storage.savepoint("SAVEPOINT", name)

    async def lock(self, *, defining: bool = False) -> None:
        """A statement is about to write: waits for the other writer, if there is one.

        Args:
            defining: it commits at its end, and begins no transaction.

        Raises:
            MySQLError: 1205 after `innodb_lock_wait_timeout`, 1317 after KILL QUERY.
        """
        if not defining:
            self._open_implicitly()
        self._used = True
        if self._locked:
            return
        seconds = float(self.session.variables["innodb_lock_wait_timeout"])
        acquired = self.session.server.engine.write_lock.acquire()
        if await self.session.interruptible(acquired, seconds) is None:
            raise lock_wait_timeout()
        self._locked = True
        if self._storage.in_transaction:
            self._storage.commit()
        self._begin(write=True)

    def _open_implicitly(self, *, tracked: bool = True) -> None:
        if not self.session.variables["autocommit"] and not self.active:
            self.implicit = True
            self.read_only = self.next_read_only
            if tracked:
                self.session.trackers.transaction_began(implicit=True)

    def end_statement(self, *, failed: bool) -> None:
        """After a statement: outside a transaction it is committed, or undone."""
        if self.active:
            return
        if self._used:
            self.spend_settings()
        savepoints = [] if self._locked else self.savepoints
        if failed:
            self.rollback()
        else:
            self.commit()
            self._tell_all()
        if not self.session.variables["autocommit"]:
            self.savepoints = savepoints

    async def before_commit(self) -> None:
        """Checks, and waits, before anybody can see what was written.

        Under AFTER_SYNC the transaction is in the binary log from here on, and is committed in any
        case: a server that dies meanwhile commits it when it recovers.

        Raises:
            MySQLError: 1290: the server has become read only.
        """
        session = self.session
        server = session.server
        if not (self._locked and self.writes):
            return
        if server.read_only:
            self.rollback()
            session.check_write()
        before = server.semi_sync.point is WaitPoint.AFTER_SYNC
        gtid = session.gtid_next.take() if before and session.variables["sql_log_bin"] else None
        if gtid is None:
            return
        server.keeper.prepare(self._storage, gtid, own=True)
        server.log(self.writes, gtid, *self._original())
        self._logged = gtid
        try:
            with server.gtids.spoken_for(gtid, session.id):
                await server.semi_sync.acknowledged(asyncio.get_running_loop().time())
        except asyncio.CancelledError:
            self.commit()
            raise

    async def acknowledged(self) -> None:
        """Waits until a replica has the session's transaction, which is visible already."""
        logged, self.acknowledgement = self.acknowledgement, None
        if logged is not None:
            await self.session.server.semi_sync.acknowledged(logged)

    def spend_settings(self) -> None:
        """Forgets what SET TRANSACTION said: the transaction that it was for has ended."""
        session = self.session
        self._used = False
        session.next_read_only = session.next_isolation = None
        session.trackers.characteristics_set(isolation="", access="")

    def commit(self, *, numbered: bool = False, tracked: bool = True) -> None:
        """COMMIT, if anything is open.

        Args:
            numbered: it gets a GTID even without a write.
            tracked: ALL_GTIDS reports at this point.
        """
        numbered = numbered or (self.active and self.session.gtid_next.owned is not None)
        self._commit(numbered=numbered)
        if self.active:
            self.session.gtid_next.end()
            if tracked:
                self._tell_all()
        self._end()

    def _commit(self, *, numbered: bool) -> None:
        """Makes writes visible, with their GTID where they have one, and gives it to replicas."""
        session, storage, writes = self.session, self._storage, self.writes
        gtid, self._logged = self._logged, None
        logged = gtid is not None
        if not logged and (writes or numbered) and session.variables["sql_log_bin"]:
            gtid = session.gtid_next.take()
        prepared = gtid is not None and self._locked and storage.in_transaction
        if gtid is not None and prepared and not logged:
            session.server.keeper.prepare(storage, gtid, own=True)
        if storage.in_transaction:
            storage.commit()
        if gtid is not None:
            original = self._original()
            session.server.committed(writes, gtid, *original, prepared=prepared, logged=logged)
            if not logged:
                self.acknowledgement = asyncio.get_running_loop().time()
            self._forget_original()
            session.gtid_next.end()
            session.trackers.gtids.transaction_committed(gtid)

    def _tell_all(self) -> None:
        self.session.trackers.gtids.statement_committed(self.session.server.gtids.executed)

    def rollback(self) -> None:
        """ROLLBACK, if anything is open."""
        if self._storage.in_transaction:
            self._storage.rollback()
        if self.active:
            self.session.gtid_next.end()
            if self.session.server.follows_worklogs:
                self._forget_original()
        self._end()

    def _original(self) -> tuple[int, int]:
        """When, and by which version, the session says that its transaction was committed first."""
        variables = self.session.variables
        return (
            int(variables["original_commit_timestamp"]),
            int(variables["original_server_version"]),
        )

    def _forget_original(self) -> None:
        """What a session was told about a transaction's first commit applies to that one only.

        WL#7319 (I6) has a rollback forget it, too; MySQL 9.7 keeps it for the next transaction.
        """
        for name in ("original_commit_timestamp", "original_server_version"):
            self.session.variables[name] = DEFINITIONS[name].default

    def _end(self) -> None:
        if self._locked:
            self._locked = False
            self.session.server.engine.write_lock.release()
        if self.active:
            self.session.trackers.transaction_ended()
        self.explicit = self.implicit = self.read_only = False
        self.writes = []
        self.savepoints = []

    # Savepoints.

    def savepoint(self, name: str) -> None:
        """SAVEPOINT; an older one of this name is dropped."""
        if self.active:
            self.read()
        elif self.session.variables["autocommit"]:
            return
        self.savepoints = [(n, count) for n, count in self.savepoints if n != name]
        self.savepoints.append((name, len(self.writes)))
        self._at_storage("SAVEPOINT", name)

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TO SAVEPOINT.

        Raises:
            MySQLError: 1305.
        """
        index = self.savepoint_at(name)
        self._at_storage("ROLLBACK TO", name)
        del self.writes[self.savepoints[index][1] :]
        del self.savepoints[index + 1 :]

    def release(self, name: str) -> None:
        """RELEASE SAVEPOINT.

        Raises:
            MySQLError: 1305.
        """
        index = self.savepoint_at(name)
        self._at_storage("RELEASE", name)
        del self.savepoints[index:]

    def _at_storage(self, action: str, name: str) -> None:
        if self._storage.in_transaction:
            self._storage.savepoint(action, name)

    def savepoint_at(self, name: str) -> int:
        """Its place among the savepoints.

        Raises:
            MySQLError: 1305.
        """
        for index, (known, _) in enumerate(self.savepoints):
            if known == name:
                return index
        raise MySQLError(1305, "42000", f"SAVEPOINT {name} does not exist")

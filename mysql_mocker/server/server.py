"""One MySQL server of the mocker."""

import asyncio
import sqlite3
import ssl
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mysql_mocker.error import MySQLError, applying_failed
from mysql_mocker.replication.applier import Applier, ApplierSettings
from mysql_mocker.replication.binlog import Binlog, Transaction, Write
from mysql_mocker.replication.log_files import LogFiles
from mysql_mocker.server.catalogue import Catalogue
from mysql_mocker.server.commit_clock import CommitClock
from mysql_mocker.server.engine import Engine
from mysql_mocker.server.faults import Faults
from mysql_mocker.server.gtid_keeper import GtidKeeper, GtidLogging
from mysql_mocker.server.gtid_state import GtidState
from mysql_mocker.server.locks import NamedLocks
from mysql_mocker.server.semi_sync import SemiSync
from mysql_mocker.server.session import Session
from mysql_mocker.server.transaction import Detached
from mysql_mocker.server.variables import DEFINITIONS, UNDEFINED_VERSION, VERSION, VERSION_ID, Reach
from mysql_mocker.sql.result import Result
from mysql_mocker.sql.value import Row, Value
from mysql_mocker.wire.channel import Accepts, Channel
from mysql_mocker.wire.connection import Connection
from mysql_mocker.wire.login import rsa_key
from protocol.binlog.commit_timestamps import UNDEFINED
from protocol.gtid import GtidSet

Setting = bool | int | float | str
Procedures = Callable[[str, Sequence[Value]], Awaitable[Result]]
"""Runs the procedure of this name with these arguments."""

_STATEMENTS_KEPT: Final = 10_000


class Server(Accepts):
    """A server: one that applies what another commits if it follows one.

    Its data, its GTIDs and its `server_uuid` outlive `stop`, `crash` and `start`, as those of a
    real server do: what it has executed is read from its table and its binary log again. `close`
    deletes them.

    Args:
        accounts: password by user.
        server_id: for @@server_id.
        name: what a cluster calls it.
        server_uuid: for @@server_uuid and its GTIDs; a random one if it is not given.
        ssl_context: lets clients use TLS.
        host: the address to listen on.
        logging: whether it has a binary log, and what is in it.

    Attributes:
        port: 0 until the server runs, if none was asked for; from then on it stays.
        gtids: what it has executed.
        binlog: what its replicas read.
        logs: the binary log as files.
        error_log: what it warns of.
        clock: what the timestamps of its commits are taken from.
        administrators: users who may set session variables that need a privilege.
        follows_worklogs: it does what the worklogs say where MySQL 9.7 does something else.
        keeper: writes its GTIDs where a crash leaves them.
        applier: set if it is a replica.
        faults: what shall go wrong.
        semi_sync: how its commits wait for its replicas.
        ack_delay: seconds before it acknowledges a transaction of its source.
        login_delay: seconds before a client is greeted.
        procedures: what runs ``CALL mock.name(…)``, where there is something of the kind.
        questions: how many statements clients sent.
        statements: the newest statements that clients sent, as (connection id, text).
        password_cache: users who log in the fast way.
    """

    def __init__(
        self,
        accounts: Mapping[str, str],
        server_id: int = 1,
        server_uuid: str | None = None,
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        name: str = "",
        logging: GtidLogging | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.accounts = dict(accounts)
        self.port = port
        self.ssl_context = ssl_context
        self.engine = Engine()
        self.gtids = GtidState(server_uuid or str(uuid.uuid4()))
        self.binlog = Binlog(self.gtids.server_uuid)
        self.error_log: list[str] = []
        warn = self.error_log.append
        self.logs = LogFiles(self.binlog, server_id, VERSION, VERSION_ID, warn)
        self.clock = CommitClock(warn)
        self.administrators = {"root"}
        self.follows_worklogs = False
        self.keeper = GtidKeeper(
            self.engine,
            self.binlog,
            logging or GtidLogging(),
            lambda: int(self._variables["gtid_executed_compression_period"]),
            lambda: self.follows_worklogs,
        )
        self.applier: Applier | None = None
        self.faults = Faults()
        self.semi_sync = SemiSync()
        self.ack_delay = 0.0
        self.login_delay = 0.0
        self.procedures: Procedures | None = None
        self.locks = NamedLocks()
        self.password_cache: set[str] = set()
        self.prepared_transactions: dict[str, Detached] = {}
        self.statements: deque[tuple[int, str]] = deque(maxlen=_STATEMENTS_KEPT)
        self._variables = {name: known.default for name, known in DEFINITIONS.items()}
        self._variables |= {"server_id": server_id, "server_uuid": self.gtids.server_uuid}
        self._variables["log_bin"] = self.keeper.logging.binary_log
        self._variables["log_replica_updates"] = self.keeper.logging.replica_updates
        self._connections: dict[int, Connection] = {}
        self._next_connection = 1
        self._listener: asyncio.Server | None = None
        self._started = 0.0
        self.questions = 0
        self._awake = asyncio.Event()
        self._awake.set()

    # Life.

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether clients can connect."""
        return self._listener is not None

    async def start(self) -> None:
        """Listens, and applies transactions if it is a replica.

        Raises:
            OSError: the port is taken.
        """
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(rsa_key)
        self._listener = await loop.create_server(lambda: Channel(self), self.host, self.port)
        self.port = self._listener.sockets[0].getsockname()[1]
        self._variables["port"] = self.port
        self._started = time.monotonic()
        self.keeper.start()
        if self.applier is not None:
            self.applier.start()

    async def stop(self) -> None:
        """Shuts down: the port closes, every connection breaks; what was committed stays.

        Raises:
            MalformedGtidSetError: a client wrote rows into mysql.gtid_executed that are none.
        """
        if self.running:
            await self._end()
            self.keeper.shut_down(self.gtids.executed)
            self.gtids.restore(*self.keeper.recover())

    async def crash(self) -> None:
        """Dies: like `stop`, but nothing more is written down.

        Raises:
            MalformedGtidSetError: a client wrote rows into mysql.gtid_executed that are none.
        """
        if self.running:
            await self._end()
            self.gtids.restore(*self.keeper.recover())

    async def _end(self) -> None:
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        if self.applier is not None:
            await self.applier.stop()
        await self.keeper.stop()
        for connection in list(self._connections.values()):
            await connection.kill()
        self.frozen = False
        if not self.prepared_transactions:
            # A connection that died while it was given the lock could not give it back.
            self.engine.write_lock = asyncio.Lock()
        self.password_cache.clear()

    async def restart(self) -> None:
        """Stops and starts on the same port, with the same UUID and data."""
        await self.stop()
        await self.start()

    async def close(self) -> None:
        """Stops for good and deletes the data."""
        await self._end()
        for detached in self.prepared_transactions.values():
            detached.storage.close()
        self.engine.close()

    @property
    def frozen(self) -> bool:
        """True is SIGSTOP: connections stay and open, and nothing is answered or applied."""
        return not self._awake.is_set()

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        if frozen:
            self._awake.clear()
        else:
            self._awake.set()

    async def awake(self) -> None:
        """Waits while the server is frozen."""
        await self._awake.wait()

    # Replication.

    def follow(self, source: "Server", delay: float) -> None:
        """Makes `source` its source; from then on it refuses writes (super_read_only)."""
        self.applier = Applier(
            source.binlog,
            self.gtids,
            self.apply,
            delay,
            self._applier_settings,
            lambda table: any(column.key for column in Catalogue(self.engine.own).columns(table)),
            self.faults.apply_held,
        )
        self.read_only = True
        if self.running:
            self.applier.start()

    async def unfollow(self) -> None:
        """Ends its replication (RESET REPLICA ALL); it still refuses writes."""
        if self.applier is not None:
            await self.applier.stop()
            self.applier = None

    @property
    def _replication(self) -> Applier:
        if self.applier is None:
            raise ValueError("the server is no replica")
        return self.applier

    @property
    def apply_delay(self) -> float:
        """Seconds between a commit on the source and its visibility here; may change any time."""
        return self._replication.delay

    @apply_delay.setter
    def apply_delay(self, seconds: float) -> None:
        self._replication.delay = seconds

    @property
    def applying(self) -> bool:
        """False stops the applier, as STOP REPLICA SQL_THREAD does."""
        return self._replication.running

    @applying.setter
    def applying(self, running: bool) -> None:
        self._replication.running = running

    @property
    def apply_error(self) -> MySQLError | None:
        """Why the applier stopped by itself."""
        return self._replication.error

    # Connections.

    def accept(self, channel: Channel) -> None:
        """A client connected."""
        connection = Connection(self, channel, self._next_connection)
        self._connections[connection.id] = connection
        self._next_connection += 1
        connection.start()

    def forget(self, connection: Connection) -> None:
        """A connection ended."""
        self._connections.pop(connection.id, None)

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def disconnect(self) -> int:
        """Breaks all connections without a word, and says how many there were."""
        connections = list(self._connections.values())
        for connection in connections:
            connection.abort()
        return len(connections)

    def kill(self, connection_id: int, *, query_only: bool) -> bool:
        """KILL; False if there is no such connection."""
        connection = self._connections.get(connection_id)
        if connection is None:
            return False
        if query_only:
            connection.interrupt()
        else:
            connection.abort()
        return True

    def note(self, connection_id: int, text: str) -> None:
        """A client sent a statement."""
        self.questions += 1
        self.statements.append((connection_id, text))

    def processes(self) -> list[Row]:
        """SHOW PROCESSLIST."""
        return [connection.process() for connection in self._connections.values()]

    def threads(self) -> list[Row]:
        """performance_schema.threads: those that GTIDs need; no client sees or kills them."""
        return [
            (33, "thread/innodb/clone_gtid_thread", "BACKGROUND", None, None,
             "waiting for handler commit"),
            (37, "thread/sql/compress_gtid_table", "FOREGROUND", 6, "Daemon",
             self.keeper.thread_state),
        ]  # fmt: skip

    # Data.

    def committed(
        self,
        writes: Sequence[Write],
        gtid: GtidSet,
        original_commit: int = UNDEFINED,
        original_version: int = UNDEFINED_VERSION,
        *,
        prepared: bool = False,
        logged: bool = False,
    ) -> None:
        """A transaction of a client became visible: here it gets its GTID.

        Args:
            writes: what it did.
            gtid: its GTID.
            original_commit: ``original_commit_timestamp`` of its session.
            original_version: ``original_server_version`` of its session.
            prepared: the keeper was told before.
            logged: it is in the binary log already.
        """
        if not logged:
            self.log(writes, gtid, original_commit, original_version)
        self.keeper.committed(gtid, own=True, prepared=prepared)
        self.gtids.add(gtid)

    def log(
        self, writes: Sequence[Write], gtid: GtidSet, original_commit: int, original_version: int
    ) -> None:
        """Writes a transaction of a client to the binary log, and so to the replicas."""
        if self.keeper.logging.binary_log:
            now = asyncio.get_running_loop().time()
            timestamps = self.clock.stamp(original_commit, by_applier=False)
            version = VERSION_ID if original_version == UNDEFINED_VERSION else original_version
            self.binlog.append(Transaction(gtid, tuple(writes), now, timestamps, version))

    async def apply(self, transaction: Transaction) -> None:
        """Applies a source's transaction.

        Raises:
            MySQLError: the data contradict it, or 1205 if a client holds the lock too long.
        """
        await self.awake()
        await self.engine.lock(float(self._variables["innodb_lock_wait_timeout"]))
        try:
            if transaction.gtid <= self.gtids.executed:
                return  # a client's, under this very name, while this waited for the lock
            try:
                self.engine.own.apply(
                    transaction.writes,
                    lambda: self.keeper.prepare(self.engine.own, transaction.gtid, own=False),
                )
            except sqlite3.Error as error:
                raise applying_failed(error) from error
            timestamps = self.clock.stamp(transaction.timestamps.original, by_applier=True)
            self.keeper.committed(transaction.gtid, own=False, prepared=True)
            logging = self.keeper.logging
            if logging.binary_log and logging.replica_updates:
                self.binlog.append(replace(transaction, timestamps=timestamps))
            else:
                self.gtids.purged |= transaction.gtid
            self.gtids.add(transaction.gtid)
        finally:
            self.engine.write_lock.release()

    def create_schema(self, name: str) -> None:
        """Makes a schema without a GTID, as if it had always been there."""
        self.engine.create_schema(name)

    # Variables.

    @property
    def read_only(self) -> bool:
        """super_read_only."""
        return bool(self._variables["super_read_only"])

    @read_only.setter
    def read_only(self, value: bool) -> None:
        self.set_variable("super_read_only", value)

    def variable(self, name: str) -> Setting:
        """A variable's global value; `name` is canonical."""
        if name == "gtid_executed":
            return str(self.gtids.executed)
        if name == "gtid_purged":
            logged = self.keeper.logging.binary_log
            return str(self.gtids.purged if logged else self.gtids.executed)
        if name == "gtid_owned":
            return self.gtids.owned_text or self._variables[name]
        return self._variables[name]

    def _applier_settings(self) -> ApplierSettings:
        values = self._variables
        return ApplierSettings(
            int(values["replica_parallel_workers"]),
            bool(values["replica_preserve_commit_order"]),
            int(values["replica_transaction_retries"]),
            float(values["innodb_lock_wait_timeout"]),
        )

    def set_variable(self, name: str, value: Setting) -> None:
        """SET GLOBAL; super_read_only implies read_only."""
        self._variables[name] = value
        if name == "super_read_only" and value:
            self._variables["read_only"] = True
        if name == "read_only" and not value:
            self._variables["super_read_only"] = False

    def session_variables(self) -> dict[str, Setting]:
        """What a new session starts with."""
        return {
            name: value
            for name, value in self._variables.items()
            if DEFINITIONS[name].reach in (Reach.BOTH, Reach.SESSION)
        }

    def variables_of(self, session: Session, shared: bool) -> Iterable[tuple[str, Setting]]:
        """All variables in alphabetical order, as a session or the whole server has them."""
        for name in sorted(DEFINITIONS):
            if not (shared and DEFINITIONS[name].reach is Reach.SESSION):
                yield name, session.value_of(name, shared=shared)

    def status(self) -> dict[str, str]:
        """Status variables."""
        return {
            "Connections": str(self._next_connection - 1),
            "Questions": str(self.questions),
            "Queries": str(self.questions),
            "Threads_connected": str(len(self._connections)),
            "Threads_running": "1",
            "Uptime": str(self.uptime),
            "Slow_queries": "0",
        }

    @property
    def uptime(self) -> int:
        """Whole seconds since the start."""
        return int(time.monotonic() - self._started)

"""One running MySQL server of the mocker: its connections, and the source that it follows."""

import asyncio
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import replace

from mysql_mocker.error import MySQLError, applying_failed
from mysql_mocker.replication.applier import Applier, ApplierSettings
from mysql_mocker.replication.binlog import Transaction
from mysql_mocker.server.listening import ANYWHERE, Listening
from mysql_mocker.state.catalogue import Catalogue
from mysql_mocker.state.gtid_keeper import GtidLogging
from mysql_mocker.state.instance import Instance
from mysql_mocker.wire.channel import Accepts, Channel
from mysql_mocker.wire.connection import Connection
from mysql_mocker.wire.login import rsa_key


class Server(Instance, Accepts):
    """A server; if it follows another one, it applies what that commits.

    Its data, its GTIDs and its `server_uuid` outlive `stop`, `crash` and `start`, as those of a
    real server do: what it has executed is read from its table and its binary log again. `close`
    deletes them.

    Args:
        accounts, server_id, server_uuid, logging: as for `Instance`.
        listening: where it listens, and how.
        name: its name in the cluster.

    Attributes:
        port: 0 until the server runs, if none was asked for; from then on it stays.
        ack_delay: seconds before it acknowledges a transaction of its source.
    """

    def __init__(
        self,
        accounts: Mapping[str, str],
        server_id: int = 1,
        server_uuid: str | None = None,
        listening: Listening = ANYWHERE,
        name: str = "",
        logging: GtidLogging | None = None,
    ) -> None:
        super().__init__(accounts, server_id, server_uuid, listening.ssl_context, logging)
        self.name = name
        self.host = listening.host
        self.port = listening.port
        self.ack_delay = 0.0
        self._listener: asyncio.Server | None = None
        self._awake = asyncio.Event()
        self._awake.set()

    # Start and stop.

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
        self.set_variable("port", self.port)
        self.started = time.monotonic()
        self.keeper.start()
        if self.applier is not None:
            self.applier.start()

    async def stop(self) -> None:
        """Shuts down: the port closes, every connection breaks; what was committed stays.

        Raises:
            MalformedGtidSetError: a client wrote rows into mysql.gtid_executed that are no GTIDs.
        """
        if self.running:
            await self._end()
            self.keeper.shut_down(self.gtids.executed)
            self.gtids.restore(*self.keeper.recover())

    async def crash(self) -> None:
        """Dies: like `stop`, but nothing more is written.

        Raises:
            MalformedGtidSetError: a client wrote rows into mysql.gtid_executed that are no GTIDs.
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
        await self.clients.die()
        self.frozen = False
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
        self.engine.close()

    @property
    def frozen(self) -> bool:
        """True is like SIGSTOP: connections stay and open; nothing is answered or applied."""
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
        """Seconds between a commit on the source and its visibility here; can be set any time."""
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

    async def apply(self, transaction: Transaction) -> None:
        """Applies a source's transaction.

        Raises:
            MySQLError: the data contradict it, or 1205 if a client holds the lock too long.
        """
        await self.awake()
        await self.engine.lock(float(self.variable("innodb_lock_wait_timeout")))
        try:
            if transaction.gtid <= self.gtids.executed:
                return  # a client committed this GTID while this waited for the lock
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

    def _applier_settings(self) -> ApplierSettings:
        return ApplierSettings(
            int(self.variable("replica_parallel_workers")),
            bool(self.variable("replica_preserve_commit_order")),
            int(self.variable("replica_transaction_retries")),
            float(self.variable("innodb_lock_wait_timeout")),
        )

    # Connections.

    def accept(self, channel: Channel) -> None:
        """A client connected."""

        def connect(connection_id: int) -> Connection:
            connection = Connection(self, channel, connection_id)
            connection.start()
            return connection

        self.clients.add(connect)

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self.clients)

    def disconnect(self) -> int:
        """Breaks all connections without an ERR packet; returns how many there were."""
        return self.clients.disconnect()

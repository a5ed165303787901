"""One MySQL server of the mocker."""

import asyncio
import sqlite3
import ssl
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mysql_mocker.binlog import Binlog, Transaction, Write
from mysql_mocker.channel import Accepts, Channel
from mysql_mocker.connection import Connection
from mysql_mocker.engine import Engine
from mysql_mocker.error import from_sqlite
from mysql_mocker.faults import Faults
from mysql_mocker.gtid_state import GtidState
from mysql_mocker.locks import NamedLocks
from mysql_mocker.login import rsa_key
from mysql_mocker.replication import Applier
from mysql_mocker.session import Session
from mysql_mocker.transaction import Detached
from mysql_mocker.value import Row
from mysql_mocker.variables import DEFINITIONS, Reach
from protocol.gtid import GtidSet

Setting = bool | int | float | str

_STATEMENTS_KEPT: Final = 10_000


class Server(Accepts):
    """A server that listens on 127.0.0.1.

    Its data, its GTIDs and its `server_uuid` outlive `stop` and `start`, as those of a real
    server do; `close` deletes them.

    Args:
        accounts: password by user.
        server_id: for @@server_id.
        server_uuid: for @@server_uuid and its GTIDs; a random one if it is not given.
        ssl_context: lets clients use TLS.

    Attributes:
        port: 0 until the server runs, if none was asked for; from then on it stays.
        gtids: what it has executed.
        binlog: what its replicas read.
        applier: set if it is a replica.
        faults: what shall go wrong.
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
    ) -> None:
        self.accounts = dict(accounts)
        self.port = port
        self.ssl_context = ssl_context
        self.engine = Engine()
        self.gtids = GtidState(server_uuid or str(uuid.uuid4()))
        self.binlog = Binlog()
        self.applier: Applier | None = None
        self.faults = Faults()
        self.locks = NamedLocks()
        self.password_cache: set[str] = set()
        self.prepared_transactions: dict[str, Detached] = {}
        self.statements: deque[tuple[int, str]] = deque(maxlen=_STATEMENTS_KEPT)
        self._variables = {name: known.default for name, known in DEFINITIONS.items()}
        self._variables |= {"server_id": server_id, "server_uuid": self.gtids.server_uuid}
        self._connections: dict[int, Connection] = {}
        self._next_connection = 1
        self._listener: asyncio.Server | None = None
        self._started = 0.0
        self._questions = 0

    # Life.

    @property
    def address(self) -> str:
        """``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

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
        self._listener = await loop.create_server(lambda: Channel(self), "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]
        self._variables["port"] = self.port
        self._started = time.monotonic()
        if self.applier is not None:
            self.applier.start()

    async def stop(self) -> None:
        """Dies: the port closes and every connection breaks; what was committed stays."""
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        if self.applier is not None:
            await self.applier.stop()
        for connection in list(self._connections.values()):
            await connection.kill()
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
        await self.stop()
        for detached in self.prepared_transactions.values():
            detached.storage.close()
        self.engine.close()

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
        self._questions += 1
        self.statements.append((connection_id, text))

    def processes(self) -> list[Row]:
        """SHOW PROCESSLIST."""
        return [connection.process() for connection in self._connections.values()]

    # Data.

    def committed(self, writes: Sequence[Write], gtid: GtidSet | None) -> GtidSet:
        """Gives a transaction that is visible already its GTID, `gtid` if that is set."""
        name = gtid or self.gtids.next_gtid()
        now = asyncio.get_running_loop().time()
        self.binlog.append(Transaction(name, tuple(writes), now))
        self.gtids.add(name)
        return name

    async def apply(self, transaction: Transaction) -> None:
        """Applies a source's transaction.

        Raises:
            MySQLError: the data contradict it.
        """
        async with self.engine.write_lock:
            try:
                self.engine.own.apply(transaction.writes)
            except sqlite3.Error as error:
                raise from_sqlite(error, None) from error
            self.binlog.append(transaction)
            self.gtids.add(transaction.gtid)

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
        return self._variables[name]

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
            "Questions": str(self._questions),
            "Queries": str(self._questions),
            "Threads_connected": str(len(self._connections)),
            "Threads_running": "1",
            "Uptime": str(self.uptime),
            "Slow_queries": "0",
        }

    @property
    def uptime(self) -> int:
        """Whole seconds since the start."""
        return int(time.monotonic() - self._started)

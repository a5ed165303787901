"""A MySQL cluster for tests: what `tidegate mock`, the pytest fixture and programs start."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypedDict, Unpack

from mysql_mocker.blocking_cluster import BlockingCluster
from mysql_mocker.control.control import Control
from mysql_mocker.control.error import ControlError, Wrong
from mysql_mocker.control.http_interface import HttpInterface
from mysql_mocker.control.procedures import Procedures
from mysql_mocker.control.values import duration
from mysql_mocker.error import MySQLError
from mysql_mocker.server.cluster import Cluster, ClusterLogs
from mysql_mocker.server.listening import Listening
from mysql_mocker.sql.result import Result
from mysql_mocker.state.session import Session
from mysql_mocker.statements.execution import Execution
from mysql_mocker.wire.certificate import self_signed_context

_MOST_REPLICAS = 100
_MOST_SHOWN = 80
_LAST_PORT = 65535


class MockOptions(TypedDict, total=False):
    """What a `MockCluster` can be told besides its size and lag; all of it has defaults.

    Attributes:
        user: the account of clients.
        password: its password.
        schemas: created on every server before it starts; `init` begins in the first.
        init: SQL that runs on the primary, and on the replicas at once, before any client connects.
        port: the primary's; the replicas have the next ones. 0 for any that are free.
        host: the address to listen on.
        http: port of the HTTP interface on 127.0.0.1, or its ``HOST:PORT``; 0 for any port.
        binlog_dir: where the servers write their binary logs, each in a folder of its name; if it
            is not given, they keep them in memory.
        tls: lets clients use TLS, with a self-signed certificate.
        server_uuids: of the servers, in their order; random ones if they are not given.
    """

    user: str
    password: str
    schemas: Sequence[str]
    init: str
    port: int
    host: str
    http: str | int | None
    binlog_dir: str | Path | None
    tls: bool
    server_uuids: Sequence[str]


_DEFAULTS: Final = MockOptions(
    user="root",
    password="",
    schemas=("test",),
    init="",
    port=0,
    host="127.0.0.1",
    http=None,
    binlog_dir=None,
    tls=False,
    server_uuids=(),
)


class MockCluster(Control):
    """A primary and its replicas, in this process, for as long as the context lasts.

    ``async with MockCluster(…) as cluster`` runs it in the running event loop, and its verbs are
    awaited. ``with MockCluster(…) as cluster`` runs it in a thread and returns a `BlockingCluster`,
    which has the same verbs. Either way it runs only once.

    Args:
        replicas: how many.
        lag: how long after its commit a transaction reaches them, such as ``300ms``.
        options: see `MockOptions`.

    Raises:
        ControlError: an argument has a value that it cannot have.
    """

    def __init__(
        self,
        replicas: int = 2,
        lag: str | float = 0.0,
        **options: Unpack[MockOptions],
    ) -> None:
        chosen: MockOptions = {**_DEFAULTS, **options}
        if unknown := chosen.keys() - _DEFAULTS.keys():
            raise TypeError(f"MockCluster has no options {', '.join(sorted(unknown))}")
        port, http, binlog_dir = chosen["port"], chosen["http"], chosen["binlog_dir"]
        if not 0 <= replicas <= _MOST_REPLICAS:
            raise ControlError(Wrong.WRONG_VALUE, f"replicas: want from 0 to {_MOST_REPLICAS}")
        if not 0 <= port <= _LAST_PORT - replicas:
            raise ControlError(
                Wrong.WRONG_VALUE, "port: choose a lower one: replicas take those above it"
            )
        self._user = chosen["user"]
        self._schemas = chosen["schemas"]
        self._init = chosen["init"]
        self._http = None if http is None else HttpInterface(self, http)
        self._begun = False
        self._ending = AsyncExitStack()
        self._blocking: BlockingCluster | None = None
        cluster = Cluster(
            replicas,
            duration("lag", lag),
            {self._user: chosen["password"]},
            self._schemas,
            chosen["server_uuids"],
            Listening(port, chosen["host"], self_signed_context() if chosen["tls"] else None),
            ClusterLogs(directory=None if binlog_dir is None else Path(binlog_dir)),
        )
        super().__init__(cluster)
        procedures = Procedures(self)
        for server in self.servers:
            server.procedures = procedures.call
            server.administrators = {self._user}

    @property
    def url(self) -> str:
        """The URL of the HTTP interface; empty if there is none."""
        return "" if self._http is None else self._http.url

    async def __aenter__(self) -> Self:
        """Starts.

        Raises:
            ControlError: `init` fails.
            OSError: a port is taken.
            RuntimeError: it ran before.
        """
        if self._begun:
            raise RuntimeError("a MockCluster runs once: make another")
        self._begun = True
        async with AsyncExitStack() as stack:
            for server in self.servers:
                stack.push_async_callback(server.close)
            await self._initialise()
            for server in self.servers:
                await server.start()
            if self._http is not None:
                await self._http.start()
                stack.push_async_callback(self._http.stop)
            self._ending = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._ending.aclose()

    def __enter__(self) -> BlockingCluster:
        self._blocking = BlockingCluster(self, self, lambda: self.url)
        return self._blocking.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._blocking is not None:
            self._blocking.__exit__(kind, error, traceback)

    async def _initialise(self) -> None:
        if not self._init.strip():
            return
        session = Session(self.primary, 0, self._user, "localhost")
        try:
            if self._schemas:
                session.choose_schema(self._schemas[0])
            await Execution(session).query(self._init, _ignored, multi_statements=True)
        except MySQLError as error:
            near = " ".join(session.statement.split())[:_MOST_SHOWN]
            raise ControlError(
                Wrong.WRONG_VALUE, f"init: {error.message} (in: {near or 'its text'})"
            ) from error
        finally:
            session.close()
        for replica in self.replicas:
            for transaction in self.primary.binlog.transactions:
                await replica.apply(transaction)


async def _ignored(_result: Result, _more: bool) -> None:
    """Ignores a result of `init`."""

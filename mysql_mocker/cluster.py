"""A primary and its replicas."""

import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from mysql_mocker.error import MySQLError
from mysql_mocker.replication import Applier
from mysql_mocker.server import Server


class Replica(Server):
    """A server that applies what another one commits; it refuses writes (super_read_only)."""

    def follow(self, source: Server, delay: float) -> None:
        """Makes `source` its source; before `start`."""
        self.applier = Applier(source.binlog, self.gtids, self.apply, delay)
        self.read_only = True

    @property
    def _applier(self) -> Applier:
        if self.applier is None:
            raise ValueError("the server is no replica")
        return self.applier

    @property
    def apply_delay(self) -> float:
        """Seconds between a commit on the source and its visibility here; may change any time."""
        return self._applier.delay

    @apply_delay.setter
    def apply_delay(self, seconds: float) -> None:
        self._applier.delay = seconds

    @property
    def applying(self) -> bool:
        """False stops the applier, as STOP REPLICA SQL_THREAD does."""
        return self._applier.running

    @applying.setter
    def applying(self, running: bool) -> None:
        self._applier.running = running

    @property
    def apply_error(self) -> MySQLError | None:
        """Why the applier stopped by itself."""
        return self._applier.error


class Cluster:
    """One primary and replicas, in this process, for as long as the context lasts.

    Args:
        replicas: how many.
        apply_delay: their lag in seconds.
        accounts: password by user.
        schemas: schemas that are there from the start on every server.
        ssl_context: lets clients use TLS.
        server_uuids: of the primary and the replicas; random ones if they are not given.
        port: the primary's; 0 for any that is free, as the replicas have.

    Attributes:
        primary: takes writes.
        replicas: apply them later.
    """

    def __init__(
        self,
        replicas: int = 2,
        apply_delay: float = 0.0,
        accounts: Mapping[str, str] | None = None,
        schemas: Sequence[str] = ("test",),
        ssl_context: ssl.SSLContext | None = None,
        server_uuids: Sequence[str] = (),
        port: int = 0,
    ) -> None:
        chosen = {"root": ""} if accounts is None else accounts
        uuids = [*server_uuids, *[None] * (replicas + 1)]
        self.primary = Server(chosen, 1, uuids[0], port, ssl_context)
        self.replicas = [
            Replica(chosen, 2 + place, uuids[1 + place], ssl_context=ssl_context)
            for place in range(replicas)
        ]
        for replica in self.replicas:
            replica.follow(self.primary, apply_delay)
        for server in self.servers:
            for schema in schemas:
                server.create_schema(schema)

    @property
    def servers(self) -> list[Server]:
        """All of them, the primary first."""
        return [self.primary, *self.replicas]

    async def __aenter__(self) -> Self:
        for server in self.servers:
            await server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for server in reversed(self.servers):
            await server.close()

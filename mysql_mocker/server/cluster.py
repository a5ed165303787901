"""A primary and its replicas."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from mysql_mocker.error import MySQLError
from mysql_mocker.server.server import Server
from mysql_mocker.state.gtid_keeper import GtidLogging


class PromotionError(Exception):
    """The promotion is not possible; the message says why, and the roles have not changed."""


class Cluster:
    """One primary and replicas, in this process, for as long as the context lasts.

    Args:
        replicas: how many.
        apply_delay: their lag in seconds.
        accounts: password by user.
        schemas: schemas that exist from the start on every server.
        ssl_context: lets clients use TLS.
        server_uuids: of the primary and the replicas; random ones if they are not given.
        port: the primary's; 0 for any that is free.
        replica_ports: the replicas', in order; any that are free if they are not given.
        host: the address that all listen on.
        primary_logging: whether the primary has a binary log, and what is in it.
        replica_logging: whether replicas have binary logs, and what is in them.
        binlog_dir: where the servers write their binary logs, each in a folder of its name; if it
            is not given, they keep them in memory.

    Attributes:
        servers: all of them, in the order in which they were made: ``primary``, ``replica1`` and so
            on. A promotion changes neither order nor names.
        primary: the server that takes writes.
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
        replica_ports: Sequence[int] = (),
        host: str = "127.0.0.1",
        primary_logging: GtidLogging | None = None,
        replica_logging: GtidLogging | None = None,
        binlog_dir: Path | None = None,
    ) -> None:
        chosen = {"root": ""} if accounts is None else accounts
        uuids = [*server_uuids, *[None] * (replicas + 1)]
        ports = [port, *replica_ports, *[0] * replicas]
        logging = [primary_logging, *[replica_logging] * replicas]
        names = ["primary", *(f"replica{number}" for number in range(1, replicas + 1))]
        self.servers = [
            Server(
                *(chosen, 1 + place, uuids[place], ports[place], ssl_context, host, name),
                logging=logging[place],
            )
            for place, name in enumerate(names)
        ]
        self.primary = self.servers[0]
        self._promoting = asyncio.Lock()
        for replica in self.replicas:
            replica.follow(self.primary, apply_delay)
        for server in self.servers:
            server.semi_sync.replicas = partial(self.followers, server)
            if binlog_dir is not None and server.keeper.logging.binary_log:
                server.logs.write_to(binlog_dir / server.name)
        for server in self.servers:
            for schema in schemas:
                server.create_schema(schema)

    @property
    def replicas(self) -> list[Server]:
        """All servers but the primary."""
        return [server for server in self.servers if server is not self.primary]

    def followers(self, source: Server) -> list[Server]:
        """The servers that replicate from a server."""
        return [
            server
            for server in self.servers
            if server.applier is not None and server.applier.source is source.binlog
        ]

    async def promote(self, new: Server, lose: int = 0) -> list[Server]:
        """Makes a replica the primary; the others follow it.

        The replica first applies all that it has not applied yet, except the newest `lose`
        transactions of the old primary: these are lost. Servers that have lost transactions, such
        as the old primary, cannot follow: they are stopped.

        Returns:
            The servers that were stopped.

        Raises:
            PromotionError: it is not a running replica, or has applied what it should lose, or
                there are fewer than `lose` transactions.
        """
        async with self._promoting:
            return await self._promote(new, lose)

    async def _promote(self, new: Server, lose: int) -> list[Server]:
        applier = new.applier
        if new is self.primary or applier is None or not new.running or new.frozen:
            raise PromotionError(f"{new.name} is not a running replica")
        transactions = self.primary.binlog.transactions
        kept = len(transactions) - lose
        if kept < 0:
            raise PromotionError(
                f"{self.primary.name} has {len(transactions)} transactions to lose"
            )
        had = sum(lost.gtid <= new.gtids.executed for lost in transactions[kept:])
        if had:
            raise PromotionError(
                f"{new.name} has applied {had} of the newest {lose} transactions already; let it "
                "lag, or stop its applier, before they are written"
            )
        was_read_only, self.primary.read_only = self.primary.read_only, True
        await applier.stop()
        try:
            for transaction in transactions[:kept]:
                if not transaction.gtid <= new.gtids.executed:
                    await new.apply(transaction)
        except BaseException as error:
            if not was_read_only:
                self.primary.set_variable("read_only", False)
            applier.start()
            if not isinstance(error, MySQLError):
                raise
            raise PromotionError(f"{new.name} cannot apply all: {error.message}") from error
        await new.unfollow()
        new.set_variable("read_only", False)
        self.primary = new
        return [server for server in self.replicas if not await self._follow(server, applier.delay)]

    async def _follow(self, server: Server, delay: float) -> bool:
        """Has a server follow the new primary, or stops it if it has what the primary lacks."""
        if not server.gtids.executed <= self.primary.gtids.executed:
            await server.unfollow()
            await server.stop()
            return False
        if server.applier is None:
            server.follow(self.primary, delay)
        else:
            await server.applier.follow(self.primary.binlog)
        return True

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

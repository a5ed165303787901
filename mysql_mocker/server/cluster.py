"""A primary and its replicas."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mysql_mocker.error import MySQLError
from mysql_mocker.server.listening import ANYWHERE, Listening
from mysql_mocker.server.server import Server
from mysql_mocker.state.gtid_keeper import GtidLogging


class PromotionError(Exception):
    """The promotion is not possible; the message says why, and the roles have not changed."""


@dataclass(frozen=True, slots=True)
class ClusterLogs:
    """The binary logs of a cluster's servers.

    Attributes:
        primary: whether the primary has a binary log, and what is in it.
        replicas: whether replicas have binary logs, and what is in them.
        directory: where the servers write them, each in a folder of its name; if it is not given,
            they keep them in memory.
    """

    primary: GtidLogging | None = None
    replicas: GtidLogging | None = None
    directory: Path | None = None


IN_MEMORY: Final = ClusterLogs()


class Cluster:
    """One primary and replicas, in this process, for as long as the context lasts.

    Args:
        replicas: how many.
        apply_delay: their lag in seconds.
        accounts: password by user.
        schemas: schemas that exist from the start on every server.
        server_uuids: of the primary and the replicas; random ones if they are not given.
        listening: where the primary listens, and the replicas above it.
        logs: their binary logs.

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
        server_uuids: Sequence[str] = (),
        listening: Listening = ANYWHERE,
        logs: ClusterLogs = IN_MEMORY,
    ) -> None:
        chosen = {"root": ""} if accounts is None else accounts
        uuids = [*server_uuids, *[None] * (replicas + 1)]
        names = ["primary", *(f"replica{number}" for number in range(1, replicas + 1))]
        self.servers = [
            Server(
                chosen,
                1 + index,
                uuids[index],
                listening.of_replica(index) if index else listening,
                name,
                logs.replicas if index else logs.primary,
            )
            for index, name in enumerate(names)
        ]
        self.primary = self.servers[0]
        self._promoting = asyncio.Lock()
        for replica in self.replicas:
            replica.follow(self.primary, apply_delay)
        for server in self.servers:
            server.semi_sync.replicas = partial(self.followers, server)
            if logs.directory is not None and server.keeper.logging.binary_log:
                server.logs.write_to(logs.directory / server.name)
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

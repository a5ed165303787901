"""What keeping GTIDs in a table costs (WL#6559, NF-1 to NF-3): ``python -m benchmarks.gtid_table``.

The mocker applies transactions of one row as a single applier does, each with a GTID. A server that
keeps no GTIDs at all, and servers in the modes of the worklog, run in one process and take turns. A
figure is the median of the rounds; a ratio is the median of the ratios in each round.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from mysql_mocker.replication.binlog import Transaction, Write
from mysql_mocker.server.cluster import Cluster, ClusterLogs
from mysql_mocker.server.server import Server
from mysql_mocker.state.gtid_keeper import GtidKeeper, GtidLogging
from mysql_mocker.state.storage import Storage
from protocol.binlog.commit_timestamps import CommitTimestamps
from protocol.gtid import GtidSet

_SOURCE: Final = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
_OFF: Final = GtidLogging(binary_log=False)
_TABLE: Final = 'CREATE TABLE "test.t" (i INTEGER PRIMARY KEY, v INT)'
_ROW: Final = 'INSERT INTO "test.t" (v) VALUES (7)'


class NoKeeper(GtidKeeper):
    """A keeper that writes nothing."""

    def prepare(self, storage: Storage, gtid: GtidSet, *, own: bool) -> None:
        """Does nothing."""

    def committed(self, gtid: GtidSet, *, own: bool, prepared: bool) -> None:
        """Does nothing."""


def _transaction(number: int, sql: str = _ROW) -> Transaction:
    gtid = GtidSet({_SOURCE: [(number, number + 1)]})
    return Transaction(gtid, (Write(sql, {}, 0.0, number),), 0.0, CommitTimestamps(0, 0), 0)


async def _round(server: Server, first: int, transactions: int, *, rotating: bool) -> float:
    """Processor time for a transaction, µs, including what is written after its commit."""
    before = time.process_time()
    for number in range(first, first + transactions):
        await server.apply(_transaction(number))
    if rotating:
        server.keeper.rotate(server.gtids.executed)
    await asyncio.sleep(0.15)  # until the GTIDs that wait are in the table
    return (time.process_time() - before) / transactions * 1e6


_CASES: Final = {
    "no binlog, GTIDs lost": (_OFF, False, False, True),
    "no binlog, as 9.7": (_OFF, False, False, False),
    "no binlog, as designed": (_OFF, True, False, False),
    "binlog": (GtidLogging(), False, False, False),
    "binlog, rotated each round": (GtidLogging(), False, True, False),
}
"""Mode, whether rows are written as the worklog says, whether logs rotate, without a keeper."""


async def _measure(rounds: int, transactions: int) -> dict[str, list[float]]:
    async with AsyncExitStack() as stack:
        servers: dict[str, Server] = {}
        for name, (logging, designed, _, without) in _CASES.items():
            cluster = await stack.enter_async_context(Cluster(0, logs=ClusterLogs(logging)))
            server = cluster.primary
            server.follows_worklogs = designed
            server.set_variable("gtid_executed_compression_period", 1000 * designed)
            if without:
                server.keeper.__class__ = NoKeeper
            await server.apply(_transaction(1, _TABLE))
            servers[name] = server
        found: dict[str, list[float]] = {name: [] for name in servers}
        for round_index in range(rounds + 1):
            for name, server in servers.items():
                first = 2 + round_index * transactions
                rotating = _CASES[name][2]
                figure = await _round(server, first, transactions, rotating=rotating)
                if round_index:  # the first one warms up
                    found[name].append(figure)
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gtid_table", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="rounds (default 15)")
    parser.add_argument(
        "--transactions", type=int, default=500, metavar="N", help="in each round (default 500)"
    )
    options = parser.parse_args(arguments)
    found = asyncio.run(_measure(options.rounds, options.transactions))
    print(f"{'CPU per transaction':28}{'µs':>10}{'ratio':>8}")
    for name, figures in found.items():
        base = found["binlog" if name.startswith("binlog") else "no binlog, GTIDs lost"]
        ratios = [figure / other for figure, other in zip(figures, base, strict=True)]
        print(f"{name:28}{statistics.median(figures):10.1f}{statistics.median(ratios):8.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

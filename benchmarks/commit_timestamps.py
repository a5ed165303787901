"""What commit timestamps cost (WL#7319, NF1): ``python -m benchmarks.commit_timestamps``.

Clients of the mocker insert rows, one transaction each. A server without timestamps, one with them,
and one with them and with files of its binary log run in the same process and take turns. A figure
is the median of the rounds; a ratio is the median of the ratios in each round.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from mysql_mocker.server.cluster import Cluster, ClusterLogs
from mysql_mocker.sql.result import Result
from mysql_mocker.state.commit_clock import CommitClock
from mysql_mocker.state.session import Session
from mysql_mocker.statements.execution import Execution
from protocol.binlog.commit_timestamps import CommitTimestamps

_NEVER: Final = CommitTimestamps(0, 0)


class StoppedClock(CommitClock):
    """A clock that is never read."""

    def stamp(self, session_value: int, *, by_applier: bool) -> CommitTimestamps:
        """Always the same timestamps."""
        del session_value, by_applier
        return _NEVER


async def _ignore(_result: Result, _more: bool) -> None:
    pass


async def _round(execution: Execution, transactions: int) -> float:
    """Processor time for a transaction, µs."""
    before = time.process_time()
    for number in range(transactions):
        sql = f"INSERT INTO t (v) VALUES ({number})"  # noqa: S608 - a number of our own
        await execution.query(sql, _ignore, multi_statements=False)
    return (time.process_time() - before) / transactions * 1e6


async def _measure(rounds: int, transactions: int, folder: Path) -> dict[str, list[float]]:
    async with AsyncExitStack() as stack:
        sessions: dict[str, Execution] = {}
        for name, logs in (("without", None), ("timestamps", None), ("and files", folder)):
            cluster = await stack.enter_async_context(Cluster(0, logs=ClusterLogs(directory=logs)))
            if name == "without":
                cluster.primary.clock = StoppedClock(cluster.primary.error_log.append)
            session = Session(cluster.primary, 1, "root", "")
            stack.callback(session.close)
            session.schema = "test"
            create = "CREATE TABLE t (i INT PRIMARY KEY AUTO_INCREMENT, v INT)"
            execution = Execution(session)
            await execution.query(create, _ignore, multi_statements=False)
            await _round(execution, transactions)
            sessions[name] = execution
        found: dict[str, list[float]] = {name: [] for name in sessions}
        for _ in range(rounds):
            for name, execution in sessions.items():
                found[name].append(await _round(execution, transactions))
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.commit_timestamps", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="rounds (default 15)")
    parser.add_argument(
        "--transactions", type=int, default=500, metavar="N", help="in each round (default 500)"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        found = asyncio.run(_measure(options.rounds, options.transactions, Path(folder)))
    print(f"{'CPU per transaction':20}{'µs':>10}{'ratio':>8}")
    for name, figures in found.items():
        ratios = [figure / other for figure, other in zip(figures, found["without"], strict=True)]
        print(f"{name:20}{statistics.median(figures):10.1f}{statistics.median(ratios):8.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

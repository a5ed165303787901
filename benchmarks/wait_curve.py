"""What a read behind its own write costs, by policy: ``python -m benchmarks.wait_curve``.

Clients write a row and read it back, so many times a second. The replicas apply at once, some
milliseconds late, or a second late. Each policy has a Tidegate of its own, in turns: two fixed wait
budgets, ``auto``, and one without replicas, where the primary answers every read. Prints a table in
Markdown; each figure is the median of the rounds, and of stale reads the sum.
"""

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import report
from benchmarks.cluster import Cluster
from benchmarks.contender import Tidegate, running
from benchmarks.program import MissingProgramError, mysql_programs, sysbench
from benchmarks.workload import Generator, Workload, WorkloadError

_SCRIPT: Final = str(Path(__file__).parent / "write_read.lua")
_LATE_US: Final = 5_000
_COLUMNS: Final = (
    *("replicas", "pairs per second", "policy", "done", "p50 µs", "p99 µs", "on replicas"),
    "stale",
)


class PrimaryOnly(Tidegate):
    """Tidegate without replicas."""

    def arguments(self) -> Sequence[str]:
        """Those of Tidegate but for the replicas."""
        words = list(super().arguments())
        at = words.index("--replicas")
        return words[:at] + words[at + 2 :]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one policy.

    Attributes:
        pairs_per_second: writes that were read back.
        p50_us, p99_us: of the reads.
        on_replicas: the part of the clients' reads that replicas answered.
        stale: reads that returned an older value than was written before.
    """

    pairs_per_second: float
    p50_us: float
    p99_us: float
    on_replicas: float
    stale: int


def policies(cluster: Cluster) -> list[Tidegate]:
    """A contender for each policy."""
    return [
        PrimaryOnly(cluster, "primary"),
        *(
            Tidegate(cluster, budget, ("--wait-budget", budget))
            for budget in ("50ms", "250ms", "auto")
        ),
    ]


def run(generator: Generator, contender: Tidegate, workload: Workload, seconds: float) -> Run:
    """Run a workload once.

    Raises:
        WorkloadError: a client got an error.
    """
    before = contender.reads_on_replicas()
    load = generator.run(workload, contender.port, seconds, lambda: None)
    after = contender.reads_on_replicas()
    if load.latencies is None or not load.reads:
        raise WorkloadError("no read was timed")
    return Run(
        load.reads / load.seconds,
        load.latencies.percentile(50),
        load.latencies.percentile(99),
        min(1.0, (after - before) / load.reads),  # a line of a thread can get lost
        load.stale,
    )


@contextmanager
def late(cluster: Cluster, lag: str) -> Iterator[None]:
    """Let the replicas be so late."""
    delay_us = _LATE_US if lag == "5 ms late" else 0
    for replica in cluster.replicas:
        # Each group of commits waits for so long before it goes on.
        replica.query(f"SET GLOBAL binlog_group_commit_sync_delay = {delay_us}")
    if lag == "1 s late":
        cluster.delay(1)
    yield
    cluster.delay(0)
    for replica in cluster.replicas:
        replica.query("SET GLOBAL binlog_group_commit_sync_delay = 0")
    cluster.settle()


def row(lag: str, rate: int, policy: str, runs: Sequence[Run]) -> str:
    """A line of the table.

    Args:
        lag: how late the replicas are.
        rate: pairs per second that were asked for; 0 for as many as can be.
        policy: its name.
        runs: of it, one at least.
    """
    cells = (
        *(lag, str(rate) if rate else "as many as can be", policy),
        f"{median(run.pairs_per_second for run in runs):.0f}",
        f"{median(run.p50_us for run in runs):.0f}",
        f"{median(run.p99_us for run in runs):.0f}",
        f"{median(run.on_replicas for run in runs):.0%}",
        str(sum(run.stale for run in runs)),
    )
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wait_curve", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default 3)")
    parser.add_argument("--seconds", type=float, default=3, metavar="S", help="of each run")
    parser.add_argument("--connections", type=int, default=4, metavar="N", help="clients")
    parser.add_argument(
        "--rates",
        type=lambda text: [int(rate) for rate in text.split(",")],
        default=[50, 200, 0],
        metavar="N[,...]",
        help="writes per second that are read back; 0 for as many as can be (default 50,200,0)",
    )
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is stopped
    try:
        programs = mysql_programs(router=False)
        generator = Generator(sysbench(), programs / "mysqlslap")
    except MissingProgramError as error:
        print(f"wait_curve: {error}", file=sys.stderr)
        return 1
    with Cluster(programs) as cluster:
        generator.prepare(cluster.primary)
        cluster.settle()
        for name, value in report.machine().items():
            print(f"{name}: {value}")
        print()
        print("| " + " | ".join(_COLUMNS) + " |")
        print("|" + "---|" * len(_COLUMNS), flush=True)
        contenders = policies(cluster)
        with running(contenders) as ready:
            for lag in ("free", "5 ms late", "1 s late"):
                with late(cluster, lag):
                    _measure(
                        cluster, generator, [c for c in contenders if c in ready], lag, options
                    )
        print("\nload at the end:", *(f"{load:.1f}" for load in os.getloadavg()))
    return 0


def _measure(
    cluster: Cluster,
    generator: Generator,
    contenders: Sequence[Tidegate],
    lag: str,
    options: argparse.Namespace,
) -> None:
    for rate in options.rates:
        arguments = ("--db-ps-mode=disable", *([f"--rate={rate}"] if rate else []))
        workload = Workload("curve", "", _SCRIPT, options.connections, arguments)
        runs: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
        for _ in range(options.rounds):
            for contender in contenders:
                cluster.settle()
                try:
                    runs[contender.name].append(
                        run(generator, contender, workload, options.seconds)
                    )
                except WorkloadError as error:  # the other contenders go on
                    print(f"{lag}, {rate}, {contender.name}: {error}", file=sys.stderr)
        for name, found in runs.items():
            if found:
                print(row(lag, rate, name.removeprefix("tidegate-"), found), flush=True)


if __name__ == "__main__":
    sys.exit(main())

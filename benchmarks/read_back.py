"""What a read behind its own write takes, one client: ``python -m benchmarks.read_back``.

Each way writes a row and reads it back, many times, in turns with the other ways. Two ways have no
proxy: the read at the primary, and the read at a replica behind a WAIT, sent together as soon as
the write was acknowledged. No proxy that reads at replicas can be quicker than the latter, since it
is the replica that needs this time. Prints a table in Markdown; a figure is the median of rounds.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Protocol

from benchmarks import report
from benchmarks.cluster import SCHEMA, Cluster
from benchmarks.connect import PACKETS, Client
from benchmarks.contender import Contender, HAProxy, Tidegate, running
from benchmarks.program import MissingProgramError, mysql_programs
from benchmarks.router import Router

_COLUMNS: Final = "id INT PRIMARY KEY, value BIGINT NOT NULL"
_TABLE: Final = f"CREATE TABLE {SCHEMA}.note ({_COLUMNS}) SELECT 1 AS id, 0 AS value"
_SELECT: Final = "SELECT value FROM note WHERE id = 1"
_OK: Final = 1
"""Packets of an answer without rows."""


class Way(Protocol):
    """How a client writes and reads back."""

    def write(self, value: int) -> None:
        """Write, and return when that was acknowledged."""

    def read(self) -> bytes:
        """The text that is read back."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of one way has shown.

    Attributes:
        times: how long each read took, µs, in ascending order.
        on_primary: the part of the reads that the primary answered, about: SELECTs of monitors
            count.
    """

    times: list[float]
    on_primary: float


class OneAddress:
    """Over one connection, to the primary or to a proxy."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def write(self, value: int) -> None:
        """As `Way` says."""
        self._client.run(_update(value), _OK)

    def read(self) -> bytes:
        """As `Way` says."""
        return self._client.run(_SELECT, PACKETS)[2][1:]


class AtReplica:
    """Written at the primary, and read at a replica behind a WAIT, without a proxy."""

    def __init__(self, cluster: Cluster, primary: Client, replica: Client) -> None:
        """The clients are logged in; nobody else writes meanwhile."""
        self._primary = primary
        self._replica = replica
        ((executed,),) = cluster.primary.query("SELECT @@GLOBAL.gtid_executed")
        self._source, _, numbers = executed.partition(":")
        self._last = int(numbers.rpartition("-")[2])

    def write(self, value: int) -> None:
        """As `Way` says."""
        self._primary.run(_update(value), _OK)
        self._last += 1

    def read(self) -> bytes:
        """As `Way` says."""
        wait = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{self._source}:{self._last}', 10)"
        waited, read = self._replica.run_both(wait, _SELECT, PACKETS)
        if waited[2][1:] != b"0":
            raise RuntimeError("the replica does not catch up")
        return read[2][1:]


def _update(value: int) -> str:
    return f"UPDATE note SET value = {value} WHERE id = 1"  # noqa: S608 - a number


def measure(way: Way, first: int, pairs: int) -> list[float]:
    """How long each read took, µs, in ascending order; values are written from `first` on.

    Raises:
        RuntimeError: a read was stale, or a server answered with an error.
    """
    times = []
    for value in range(first, first + pairs):
        way.write(value)
        began = time.perf_counter()
        found = way.read()
        times.append((time.perf_counter() - began) * 1e6)
        if found != str(value).encode():
            raise RuntimeError(f"a stale read: {found!r} instead of {value}")
    return sorted(times)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.read_back", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds (default 7)")
    parser.add_argument(
        "--pairs", type=int, default=1000, metavar="N", help="of each round (default 1000)"
    )
    options = parser.parse_args(arguments)
    try:
        with Cluster(mysql_programs(router=True)) as cluster:
            cluster.primary.query(_TABLE)
            cluster.settle()
            contenders = [
                HAProxy(cluster),
                Router(cluster),
                Tidegate(cluster),
                Tidegate(cluster, "auto", ("--wait-budget", "auto")),
            ]
            with running(contenders) as ready:
                _print(_rounds(cluster, ready, options.rounds, options.pairs))
    except MissingProgramError as error:
        print(f"read_back: {error}", file=sys.stderr)
        return 1
    return 0


def _rounds(
    cluster: Cluster, contenders: Sequence[Contender], rounds: int, pairs: int
) -> dict[str, list[Round]]:
    """The rounds by the name of the way."""
    first, replica = cluster.primary.port, cluster.replicas[0].port
    ports = {"the primary": first} | {each.name: each.port for each in contenders}
    found: dict[str, list[Round]] = {name: [] for name in ("a replica", *ports)}
    value = 1
    for number in range(rounds + 1):
        for name, done in found.items():
            with (
                closing(Client(ports.get(name, first))) as client,
                closing(Client(replica)) as reader,
            ):
                client.log_in()
                reader.log_in()
                cluster.settle()
                way: Way = (
                    OneAddress(client) if name in ports else AtReplica(cluster, client, reader)
                )
                before = _selects(cluster)
                times = measure(way, value, pairs)
                share = (_selects(cluster) - before) / pairs
            value += pairs
            if number:  # the first one fills pools and caches
                done.append(Round(times, share))
    return found


def _selects(cluster: Cluster) -> int:
    """The SELECTs that the primary has run."""
    (count,) = cluster.status([cluster.primary], "Com_select")
    return count


def _print(found: dict[str, list[Round]]) -> None:
    for name, value in report.machine().items():
        print(f"{name}: {value}")
    print("\n| read at | p50 µs | p99 µs | on replicas |\n|---|---:|---:|---:|")
    for name, rounds in found.items():
        p50, p99 = (
            statistics.median(done.times[int(share * len(done.times))] for done in rounds)
            for share in (0.5, 0.99)
        )
        on_replicas = max(0.0, 1 - statistics.median(done.on_primary for done in rounds))
        print(f"| {name} | {p50:.0f} | {p99:.0f} | {on_replicas:.0%} |")


if __name__ == "__main__":
    sys.exit(main())

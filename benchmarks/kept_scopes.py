"""What it costs to keep scopes in the state directory: ``python -m benchmarks.kept_scopes``.

A client writes a row and reads it, again and again: in the scope of its user, and in the scope of
another application each time. Two proxies, with and without a state directory, run at the same time
and are loaded in turns. A figure is the median of the rounds; a ratio is the median of the ratios
in each round.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Final

from benchmarks.cluster import SCHEMA, Cluster
from benchmarks.connect import Client
from benchmarks.contender import Contender, Tidegate, running
from benchmarks.processor import cpu_seconds
from benchmarks.program import MissingProgramError, mysql_programs

_TABLE: Final = f"CREATE TABLE {SCHEMA}.kept (id INT PRIMARY KEY, n INT) SELECT 1 AS id, 0 AS n"
_WRITE: Final = " UPDATE kept SET n = n + 1 WHERE id = 1"
_READ: Final = " SELECT n FROM kept WHERE id = 1"
_READ_PACKETS: Final = 4
_APPLICATIONS: Final = 2000
_SETTLE_S: Final = 0.5
"""Until the last writes' scopes are kept: that belongs to the round."""


def _of_user() -> Iterator[str]:
    return itertools.repeat("/* tidegate scope=user */")


def _of_applications() -> Iterator[str]:
    for number in itertools.cycle(range(_APPLICATIONS)):
        yield f"/* tidegate scope=application application='tenant {number}' */"


_WORK: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "one scope": _of_user,
    "a scope for each pair": _of_applications,
}


def _round(contender: Contender, comments: Iterator[str], pairs: int) -> float:
    """Processor time for a statement, µs."""
    if contender.pid is None:
        raise ValueError(f"{contender.name} has no process")
    with closing(Client(contender.port)) as client:
        client.log_in()
        before = cpu_seconds(contender.pid)
        for comment in itertools.islice(comments, pairs):
            client.run(comment + _WRITE, 1)
            client.run(comment + _READ, _READ_PACKETS)
        time.sleep(_SETTLE_S)
        busy = cpu_seconds(contender.pid) - before
        client.quit()
    return busy / (2 * pairs) * 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kept_scopes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds (default 7)")
    parser.add_argument(
        "--pairs", type=int, default=1000, metavar="N", help="in each round (default 1000)"
    )
    options = parser.parse_args(arguments)
    try:
        with Cluster(mysql_programs(router=False)) as cluster:
            cluster.primary.query(_TABLE)
            cluster.settle()
            kept = Tidegate(cluster, "kept")
            kept.add_options("--state-dir", str(kept.directory / "state"))
            with running([Tidegate(cluster), kept]) as ready:
                print(f"{'CPU per statement, µs':40}{'without':>10}{'kept':>10}{'ratio':>8}")
                for name, comments in _WORK.items():
                    at_work = [(proxy, comments()) for proxy in ready]
                    for proxy, proxy_comments in at_work:
                        _round(proxy, proxy_comments, _APPLICATIONS)  # so that all scopes exist
                    figures = [
                        [
                            _round(proxy, proxy_comments, options.pairs)
                            for proxy, proxy_comments in at_work
                        ]
                        for _ in range(options.rounds)
                    ]
                    without, with_it = (
                        statistics.median(column) for column in zip(*figures, strict=True)
                    )
                    ratio = statistics.median(kept / plain for plain, kept in figures)
                    print(f"{name:40}{without:10.0f}{with_it:10.0f}{ratio:8.2f}", flush=True)
    except MissingProgramError as error:
        print(f"kept_scopes: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How much memory clients leave behind that have come and gone: ``python -m benchmarks.churn``.

Each client connects, writes, reads it back and quits; no client stays. Tidegate's memory must not
grow: the figure is a step's growth, divided by its clients. Beside it are the logins per second,
which mean little on a machine that does other work.
"""

import argparse
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pymysql

from benchmarks.cluster import PASSWORD, SCHEMA, USER, Cluster
from benchmarks.contender import Tidegate
from benchmarks.program import MissingProgramError, mysql_programs

Visit = Callable[[], None]

_TABLE: Final = f"CREATE TABLE IF NOT EXISTS {SCHEMA}.churn (id INT PRIMARY KEY)"


@dataclass(frozen=True, slots=True)
class Step:
    """Some clients, one after another.

    Attributes:
        clients: how many.
        seconds: how long they took.
        grown: bytes by which the proxy's memory (RSS) grew meanwhile.
    """

    clients: int
    seconds: float
    grown: int


def churn(pid: int, visit: Visit, steps: int, clients: int) -> Iterator[Step]:
    """Let clients visit the proxy with this process id: `steps` times, `clients` of them."""
    for _ in range(steps):
        before, began = resident(pid), time.monotonic()
        for _ in range(clients):
            visit()
        yield Step(clients, time.monotonic() - began, resident(pid) - before)


def resident(pid: int) -> int:
    """Bytes of memory that a process has (RSS).

    Raises:
        OSError: no such process.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"process {pid} has ended")


def visitor(port: int, user: str, password: str, schema: str, *, tls: bool) -> Visit:
    """A visit that writes to the table `churn` of `schema` and reads it back."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the proxy's certificate is self-signed

    def visit() -> None:
        with (
            pymysql.connect(
                host="127.0.0.1",
                port=port,
                user=user,
                password=password,
                database=schema,
                autocommit=True,
                ssl=context if tls else None,
                ssl_disabled=not tls,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("REPLACE INTO churn VALUES (1)")
            cursor.execute("SELECT id FROM churn")

    return visit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.churn", description=__doc__)
    parser.add_argument("--steps", type=int, default=6, metavar="N", help="steps (default 6)")
    parser.add_argument(
        "--clients", type=int, default=500, metavar="N", help="clients in each (default 500)"
    )
    options = parser.parse_args(arguments)
    try:
        with Cluster(mysql_programs(router=False)) as cluster:
            cluster.primary.query(_TABLE)
            cluster.settle()
            for tls in (False, True):
                print("with TLS" if tls else "without TLS", flush=True)
                _measure(Tidegate(cluster), options.steps, options.clients, tls=tls)
    except MissingProgramError as error:
        print(f"churn: {error}", file=sys.stderr)
        return 1
    return 0


def _measure(tidegate: Tidegate, steps: int, clients: int, *, tls: bool) -> None:
    try:
        tidegate.start()
        if tidegate.pid is None:
            raise RuntimeError("Tidegate has ended")
        visit = visitor(tidegate.port, USER, PASSWORD, SCHEMA, tls=tls)
        for number, step in enumerate(churn(tidegate.pid, visit, steps, clients), 1):
            print(
                f"  {number * clients:6} clients: {resident(tidegate.pid) / 2**20:6.1f} MiB"
                f" {step.grown / step.clients:8.0f} bytes per client"
                f" {step.clients / step.seconds:6.0f} logins/s",
                flush=True,
            )
    finally:
        tidegate.stop()


if __name__ == "__main__":
    sys.exit(main())

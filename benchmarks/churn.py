"""How much memory clients leave behind that have come and gone: ``python -m benchmarks.churn``.

Each client connects, writes, reads it back and quits; no client stays. Tidegate's memory must not
grow: the figure is a step's growth, divided by its clients. Beside it are the logins per second,
which mean little on a machine that does other work.

With ``--at-once`` the clients of a round are connected at the same time, each reads once, and then
all leave: what a round needs at its peak, and what is left of it when they have gone. TLS is then
on both sides, towards clients and towards servers, or on neither. Thousands of clients need as many
descriptors (``ulimit -n``) here, and in the workers together:
``python -m benchmarks.churn --at-once --tls-only --steps 2 --clients 10000 -- --workers 2``.
"""

from __future__ import annotations

import argparse
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pymysql

from benchmarks.cluster import PASSWORD, SCHEMA, USER, Cluster
from benchmarks.contender import Tidegate
from benchmarks.program import MissingProgramError, mysql_programs

Visit = Callable[[], None]
Connect = Callable[[], "pymysql.Connection[pymysql.cursors.Cursor]"]

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


@dataclass(frozen=True, slots=True)
class Round:
    """Some clients at the same time.

    Attributes:
        clients: how many.
        before: the proxy's memory (RSS) before they came, bytes.
        peak: while all were connected, and each had read once.
        after: a while after the last one had left.
        refused: how many could not log in, or not read.
    """

    clients: int
    before: int
    peak: int
    after: int
    refused: int = 0


def churn(pid: int, visit: Visit, steps: int, clients: int) -> Iterator[Step]:
    """Let clients visit the proxy with this process id: `steps` times, `clients` of them."""
    for _ in range(steps):
        before, began = resident(pid), time.monotonic()
        for _ in range(clients):
            visit()
        yield Step(clients, time.monotonic() - began, resident(pid) - before)


def crowds(pid: int, connect: Connect, rounds: int, clients: int, rest: float) -> Iterator[Round]:
    """Let `clients` be connected at once and leave, `rounds` times, with a `rest` after each."""
    for _ in range(rounds):
        before, refused = resident(pid), 0
        with ExitStack() as stack:
            for _ in range(clients):
                try:
                    connection = stack.enter_context(connect())
                    with connection.cursor() as cursor:
                        cursor.execute("SELECT id FROM churn")
                except pymysql.err.MySQLError as error:
                    refused += 1
                    if refused == 1:
                        print(f"  the first that failed: {error}", file=sys.stderr)
            peak = resident(pid)
        time.sleep(rest)
        yield Round(clients, before, peak, resident(pid), refused)


def resident(pid: int) -> int:
    """Bytes of memory that a process has (RSS); of its children alone if it has any.

    They are the workers then, and it is their supervisor.

    Raises:
        OSError: no such process.
    """
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(map(_resident, map(int, children))) if children else _resident(pid)


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"process {pid} has ended")


def connector(port: int, user: str, password: str, schema: str, *, tls: bool) -> Connect:
    """What connects a client whose default schema is `schema`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the proxy's certificate is self-signed

    def connect() -> pymysql.Connection[pymysql.cursors.Cursor]:
        return pymysql.connect(
            host="127.0.0.1",
            port=port,
            user=user,
            password=password,
            database=schema,
            autocommit=True,
            ssl=context if tls else None,
            ssl_disabled=not tls,
        )

    return connect


def visitor(connect: Connect) -> Visit:
    """A visit that writes to the table `churn` of the default schema and reads it back."""

    def visit() -> None:
        with connect() as connection, connection.cursor() as cursor:
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
    parser.add_argument(
        "--at-once", action="store_true", help="the clients of a step are connected together"
    )
    parser.add_argument(
        "--rest",
        type=float,
        default=15.0,
        metavar="S",
        help="with --at-once: seconds between the last client and the measurement (default 15)",
    )
    parser.add_argument("--tls-only", action="store_true", help="only with TLS")
    parser.add_argument("options", nargs="*", help="further options of Tidegate, after --")
    options = parser.parse_args(arguments)
    try:
        with Cluster(mysql_programs(router=False)) as cluster:
            cluster.primary.query(_TABLE)
            cluster.settle()
            for tls in (True,) if options.tls_only else (False, True):
                print("with TLS" if tls else "without TLS", flush=True)
                _measure(cluster, options, tls=tls)
    except MissingProgramError as error:
        print(f"churn: {error}", file=sys.stderr)
        return 1
    return 0


def _measure(cluster: Cluster, options: argparse.Namespace, *, tls: bool) -> None:
    to_servers = ("--server-tls", "required") if tls and options.at_once else ()
    tidegate = Tidegate(cluster, options=(*to_servers, *options.options))
    try:
        tidegate.start()
        if tidegate.pid is None:
            raise RuntimeError("Tidegate has ended")
        connect = connector(tidegate.port, USER, PASSWORD, SCHEMA, tls=tls)
        visitor(connect)()  # what the first client loads is not what clients leave behind
        if options.at_once:
            _print_rounds(
                crowds(tidegate.pid, connect, options.steps, options.clients, options.rest)
            )
        else:
            _print_steps(
                tidegate.pid, churn(tidegate.pid, visitor(connect), options.steps, options.clients)
            )
    finally:
        tidegate.stop()


def _print_steps(pid: int, steps: Iterator[Step]) -> None:
    clients = 0
    for step in steps:
        clients += step.clients
        print(
            f"  {clients:6} clients: {resident(pid) / 2**20:6.1f} MiB"
            f" {step.grown / step.clients:8.0f} bytes per client"
            f" {step.clients / step.seconds:6.0f} logins/s",
            flush=True,
        )


def _print_rounds(rounds: Iterator[Round]) -> None:
    for round_ in rounds:
        print(
            f"  {round_.clients:6} clients: {round_.before / 2**20:6.1f} MiB before,"
            f" {round_.peak / 2**20:6.1f} at the peak"
            f" ({(round_.peak - round_.before) / round_.clients / 1024:5.1f} KiB each),"
            f" {round_.after / 2**20:6.1f} after, {round_.refused} refused",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())

"""What clients do while a contender is measured: sysbench runs its own scripts and ours.

All clients speak the text protocol without TLS unless a workload says otherwise. sysbench's client
library is MariaDB's, which does not negotiate CLIENT_DEPRECATE_EOF; mysqlslap's is MySQL's own,
which does.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from benchmarks.cluster import PASSWORD, SCHEMA, USER, Server
from benchmarks.histogram import Histogram
from benchmarks.program import Program, sysbench_script

TABLE_SIZE: Final = 10_000
_HERE: Final = Path(__file__).parent


class WorkloadError(Exception):
    """A load generator failed; the message is what it printed."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a load generator did in one run.

    Attributes:
        queries: statements that were answered.
        seconds: how long they took in all.
        latencies: of reads; None if the generator does not report them.
        reads, stale: reads that were checked, and those that returned an older value.
    """

    queries: int
    seconds: float
    latencies: Histogram | None
    reads: int = 0
    stale: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of work.

    Attributes:
        name: as the report and the command line call it.
        title: one line for people.
        script: sysbench's or our Lua script; None for mysqlslap.
        connections: clients at once.
        arguments: further arguments of sysbench.
        replica_delay: seconds by which the replicas apply late during this workload.
    """

    name: str
    title: str
    script: str | None
    connections: int = 8
    arguments: tuple[str, ...] = ()
    replica_delay: int = 0


_TEXT: Final = ("--db-ps-mode=disable",)
_POINT_SELECT: Final = "oltp_point_select"
_WRITE_READ: Final = str(_HERE / "write_read.lua")
_TABLE: Final = ("--tables=1", f"--table-size={TABLE_SIZE}")

WORKLOADS: Final = (
    Workload("point-select", "point select", _POINT_SELECT, arguments=(*_TEXT, *_TABLE)),
    Workload("write-read", "write, then read it back", _WRITE_READ, arguments=_TEXT),
    Workload(
        "write-read-one",
        "write, then read it back, 1 connection",
        _WRITE_READ,
        connections=1,
        arguments=_TEXT,
    ),
    Workload(
        "write-read-late",
        "write, then read it back, replicas 1 s late",
        _WRITE_READ,
        arguments=_TEXT,
        replica_delay=1,
    ),
    Workload(
        "prepared",
        "point select, prepared",
        _POINT_SELECT,
        arguments=("--db-ps-mode=auto", *_TABLE),
    ),
    Workload("rows", "10,000 rows a query", str(_HERE / "rows.lua"), arguments=_TEXT),
    Workload("mysqlslap", "point select by MySQL's own client library", None),
    Workload(
        "write-read-64",
        "write, then read it back, 64 connections",
        _WRITE_READ,
        connections=64,
        arguments=_TEXT,
    ),
    Workload(
        "read-only",
        "transactions that only read (sysbench's oltp_read_only)",
        "oltp_read_only",
        arguments=(*_TEXT, *_TABLE),
    ),
    Workload(
        "read-write",
        "transactions that read and then write (sysbench's oltp_read_write)",
        "oltp_read_write",
        arguments=(*_TEXT, *_TABLE, "--mysql-ignore-errors=1213"),
    ),
    *(
        Workload(
            f"point-select-{connections}",
            "point select",
            _POINT_SELECT,
            connections=connections,
            arguments=(*_TEXT, *_TABLE),
        )
        for connections in (1, 4, 16, 64)
    ),
)


@dataclass(frozen=True, slots=True)
class Generator:
    """The load generators of a machine."""

    sysbench: Program
    mysqlslap: Path

    def prepare(self, primary: Server) -> None:
        """Make the tables of all workloads on the primary."""
        for script in (_POINT_SELECT, _WRITE_READ):
            command = self._sysbench(script, primary.port, _TABLE if script[0] == "o" else ())
            done = subprocess.run(
                [*command, "prepare"],
                env=self.sysbench.environ(),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise WorkloadError(_complaint(done.stdout + done.stderr))

    def run(
        self, workload: Workload, port: int, seconds: float, when_started: Callable[[], None]
    ) -> Load:
        """Put load on a port.

        Args:
            workload: the work.
            port: where clients connect.
            seconds: for how long.
            when_started: called once all clients have logged in.

        Raises:
            WorkloadError: a client got an error.
        """
        if workload.script is None:
            return self._run_mysqlslap(workload, port, seconds, when_started)
        command = [
            *self._sysbench(workload.script, port, workload.arguments),
            *(f"--threads={workload.connections}", f"--time={seconds:g}"),
            *("--histogram=on", "run"),
        ]
        with subprocess.Popen(
            command,
            env=self.sysbench.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None  # noqa: S101  # it is a pipe
            text = "".join(_telling(process.stdout, "Threads started!", when_started))
        if process.returncode or "FATAL" in text:
            raise WorkloadError(_complaint(text))
        return parse_sysbench(text)

    def _sysbench(self, script: str, port: int, arguments: tuple[str, ...]) -> list[str]:
        path = script if script.endswith(".lua") else sysbench_script(script)
        return [
            *(*self.sysbench.command, path, "--mysql-host=127.0.0.1", f"--mysql-port={port}"),
            *(f"--mysql-user={USER}", f"--mysql-password={PASSWORD}", f"--mysql-db={SCHEMA}"),
            *arguments,
        ]

    def _run_mysqlslap(
        self, workload: Workload, port: int, seconds: float, when_started: Callable[[], None]
    ) -> Load:
        # It takes a number of queries, not a time: about as many as the slowest contender does.
        queries = int(seconds * 8_000)
        ids = (1 + 97 * number % TABLE_SIZE for number in range(50))
        statements = ";".join(map("SELECT c FROM sbtest1 WHERE id={}".format, ids))
        when_started()
        done = subprocess.run(
            [
                *(str(self.mysqlslap), "--no-defaults", "--host=127.0.0.1", f"--port={port}"),
                *(f"--user={USER}", f"--password={PASSWORD}", f"--create-schema={SCHEMA}"),
                *("--no-drop", "--ssl-mode=DISABLED", "--get-server-public-key", "--csv"),
                *(f"--concurrency={workload.connections}", f"--number-of-queries={queries}"),
                *("--delimiter=;", f"--query={statements}"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise WorkloadError(_complaint(done.stdout + done.stderr))
        return Load(queries, parse_mysqlslap(done.stdout), None)


def parse_sysbench(text: str) -> Load:
    """Read what ``sysbench --histogram=on run`` printed.

    Raises:
        WorkloadError: numbers are missing.
    """
    queries = re.search(r"^\s*queries:\s+([0-9]+) ", text, re.M)
    seconds = re.search(r"^\s*total time:\s+([0-9.]+)s", text, re.M)
    if queries is None or seconds is None:
        raise WorkloadError(_complaint(text))
    checked = re.findall(
        r"^write_read reads=([0-9]+) stale=([0-9]+) microseconds=(.*)$", text, re.M
    )
    counts: dict[float, int] = {}
    if checked:
        for _, _, buckets in checked:
            for number, count in re.findall(r"([0-9]+):([0-9]+)", buckets):
                latency = round(1.01 ** (int(number) + 0.5), 1)
                counts[latency] = counts.get(latency, 0) + int(count)
    else:
        for milliseconds, count in re.findall(r"^ +([0-9.]+) \|[* ]* ([0-9]+)$", text, re.M):
            latency = round(float(milliseconds) * 1000, 1)
            counts[latency] = counts.get(latency, 0) + int(count)
    return Load(
        queries=int(queries[1]),
        seconds=float(seconds[1]),
        latencies=Histogram(counts),
        reads=sum(int(reads) for reads, _, _ in checked),
        stale=sum(int(stale) for _, stale, _ in checked),
    )


def parse_mysqlslap(text: str) -> float:
    """The seconds that all queries took, of what ``mysqlslap --csv`` printed.

    Raises:
        WorkloadError: it is something else.
    """
    # engine, kind of load, average, least and greatest seconds, clients, queries of each client
    values = text.strip().split(",")
    if len(values) != 7:
        raise WorkloadError(_complaint(text))
    return float(values[2])


def _telling(lines: IO[str], wanted: str, tell: Callable[[], None]) -> Iterator[str]:
    """Pass the lines on; call `tell` when one begins with `wanted`."""
    for line in lines:
        if line.startswith(wanted):
            tell()
        yield line


def _complaint(text: str) -> str:
    lines = [line for line in text.splitlines() if "FATAL" in line or "rror" in line]
    return "\n".join(lines[:3]) or text[-500:]

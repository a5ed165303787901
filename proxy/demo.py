"""`tidegate demo`: a cluster that lags, a workload that reads back what it wrote, and the figures.

The mock cluster runs in this process; each proxy is a process of its own, as in production. The
figures in the table are measured: the clients count stale reads, and the routing log says where the
reads went, what proved them, and how long they waited. The audit of that log comes last.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proxy import demo_audit
from proxy.config import ConfigError
from routing.consistency.decision import Level

try:
    import pymysql

    from mysql_mocker.server.cluster import Cluster
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("pymysql", "sqlglot"):
        raise
    raise ConfigError("demo needs PyMySQL and sqlglot (pip install 'tidegate[demo]')") from error

USER: Final = "demo"
PASSWORD: Final = "demo"  # noqa: S105 - the account of a cluster that ends with this process
SCHEMA: Final = "demo"

LAG_S: Final = 0.3
CONNECTIONS: Final = 4
ROUNDS: Final = 12
READS_PER_ROUND: Final = 3

_READY: Final = re.compile(r"listening on \S+:(\d+)")
_START_S: Final = 30


class DemoError(Exception):
    """The demo cannot go on; the message says why."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run the proxy.

    Attributes:
        title: what the table calls it.
        level: its --consistency.
        budget: its --wait-budget.
    """

    title: str
    level: Level
    budget: str


SETTINGS: Final = (
    Setting("BEST_EFFORT", Level.BEST_EFFORT, "1s"),
    Setting("READ_OWN_WRITES, budget 50 ms", Level.READ_OWN_WRITES, "50ms"),
    Setting("READ_OWN_WRITES, budget 1 s", Level.READ_OWN_WRITES, "1s"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the workload under one setting.

    Attributes:
        stale: reads that missed what their own connection had written before.
        reads: the routing records of the reads.
    """

    stale: int
    reads: Sequence[dict[str, object]]


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A `tidegate run` in front of the cluster."""

    port: int
    process: asyncio.subprocess.Process


def run_demo(once: bool, audit_setup: Sequence[str] | None = ()) -> int:
    """Run the demo; return the exit status.

    Args:
        once: end after the audit; else a proxy goes on to serve until Ctrl-C.
        audit_setup: a program and its arguments, run when the table is shown, that installs what
            the audit needs; empty if that is installed; None to go without the audit.
    """
    try:
        asyncio.run(_demo(once, audit_setup))
    except KeyboardInterrupt:
        print("\nThe demo has ended: its servers are stopped, and its routing log is deleted.")
    except (DemoError, demo_audit.AuditError) as error:
        print(f"tidegate demo: {error}", file=sys.stderr)
        return 1
    return 0


async def _demo(once: bool, audit_setup: Sequence[str] | None) -> None:
    print(
        f"A primary and two replicas that lag {LAG_S * 1000:.0f} ms. {CONNECTIONS} connections"
        f" write {ROUNDS} times each\nand read back {READS_PER_ROUND} times after each write.\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as folder:
        log = Path(folder) / "routing-log"
        async with Cluster(2, LAG_S, {USER: PASSWORD}, (SCHEMA,)) as cluster:
            await asyncio.to_thread(_create_table, cluster.primary.port)
            print(_HEADS, "-" * len(_HEADS), sep="\n", flush=True)
            for number, setting in enumerate(SETTINGS):
                name = f"demo-{number}"
                await _catch_up(cluster)
                async with _proxy(cluster, setting, name, log) as proxy:
                    stale = await asyncio.to_thread(_workload, proxy.port)
                print(_line(setting, Outcome(stale, _reads(log, name))), flush=True)
            print(_LEGEND, flush=True)
            if audit_setup is None:
                print("No audit of the routing log, as asked for.")
            elif await demo_audit.prepare(audit_setup):
                await demo_audit.show(log, name)
            if not once:
                async with _proxy(cluster, SETTINGS[-1], "demo", log) as proxy:
                    print(_invitation(proxy.port), flush=True)
                    await proxy.process.wait()
                    raise DemoError("the proxy ended by itself")


@contextlib.asynccontextmanager
async def _proxy(
    cluster: Cluster, setting: Setting, name: str, log: Path
) -> AsyncIterator[RunningProxy]:
    replicas = [option for server in cluster.replicas for option in ("--replica", server.address)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tidegate",
        "run",
        "--listen",
        "127.0.0.1:0",
        "--primary",
        cluster.primary.address,
        *replicas,
        "--consistency",
        setting.level,
        "--scope",
        "connection",
        "--wait-budget",
        setting.budget,
        "--proxy-name",
        name,
        "--routing-log",
        str(log),
        stderr=asyncio.subprocess.PIPE,
    )
    messages: list[str] = []
    listening: asyncio.Task[None] | None = None
    try:
        port = await asyncio.wait_for(_port(process, messages), _START_S)
        listening = asyncio.create_task(_listen(process, messages))
        yield RunningProxy(port, process)
    except TimeoutError as error:
        raise DemoError("the proxy did not start:\n" + "".join(messages)) from error
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if listening is not None:
            await listening


async def _port(process: asyncio.subprocess.Process, messages: list[str]) -> int:
    """Read the proxy's messages until one names its port; return the port."""
    if process.stderr is None:
        raise DemoError("the proxy has no standard error")
    while line := (await process.stderr.readline()).decode(errors="replace"):
        messages.append(line)
        if found := _READY.search(line):
            return int(found[1])
    raise DemoError("the proxy did not start:\n" + "".join(messages))


async def _listen(process: asyncio.subprocess.Process, messages: list[str]) -> None:
    """Read the proxy's later messages, so that it never blocks on a full pipe."""
    if process.stderr is not None:
        while line := (await process.stderr.readline()).decode(errors="replace"):
            messages.append(line)


def _create_table(port: int) -> None:
    with (
        pymysql.connect(
            host="127.0.0.1", port=port, user=USER, password=PASSWORD, database=SCHEMA
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE registers (id INT PRIMARY KEY, value INT)")


async def _catch_up(cluster: Cluster) -> None:
    """Wait until the replicas have all writes, so that no setting sees those of an earlier one."""
    for replica in cluster.replicas:
        await replica.gtids.wait(cluster.primary.gtids.executed, seconds=0)


def _workload(port: int) -> int:
    """Write and read back on several connections at once; return how many reads were stale."""

    def client(register: int) -> int:
        stale = 0
        with (
            pymysql.connect(
                host="127.0.0.1",
                port=port,
                user=USER,
                password=PASSWORD,
                database=SCHEMA,
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("REPLACE INTO registers VALUES (%s, -1)", (register,))
            for value in range(ROUNDS):
                cursor.execute("UPDATE registers SET value = %s WHERE id = %s", (value, register))
                for _ in range(READS_PER_ROUND):
                    cursor.execute("SELECT value FROM registers WHERE id = %s", (register,))
                    stale += cursor.fetchall() != ((value,),)
        return stale

    try:
        with ThreadPoolExecutor(CONNECTIONS) as executor:
            return sum(executor.map(client, range(CONNECTIONS)))
    except pymysql.MySQLError as error:
        raise DemoError(f"the workload failed: {error}") from error


def _reads(log: Path, name: str) -> list[dict[str, object]]:
    """The routing records of one proxy's reads; it has ended, so they are all there."""
    records = [
        json.loads(line)
        for path in sorted(log.glob(f"date=*/{name}-*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return [record for record in records if record["class"] == "read"]


_COLUMNS: Final = ("reads", "stale", "replicas", "primary", "known", "waited", "p50", "p99")
_LEGEND: Final = """
replicas, primary: where reads were answered. known: the replica had already proved that
it had what the read must see; waited: the read waited for it. p50, p99: duration of the
waits, including those that were given up.
"""


def _row(title: str, cells: Sequence[str]) -> str:
    return title.ljust(max(len(setting.title) for setting in SETTINGS)) + "".join(
        cell.rjust(max(len(head), 6) + 2) for head, cell in zip(_COLUMNS, cells, strict=True)
    )


_HEADS: Final = _row("", _COLUMNS)


def _line(setting: Setting, outcome: Outcome) -> str:
    roles = Counter(record["role"] for record in outcome.reads)
    proofs = Counter(record["proof"] for record in outcome.reads)
    waits = sorted(
        wait for record in outcome.reads if isinstance(wait := record["wait_us"], int) and wait
    )
    return _row(
        setting.title,
        (
            *(str(len(outcome.reads)), str(outcome.stale)),
            *(str(roles["replica"]), str(roles["primary"])),
            *(str(proofs["known"]), str(proofs["waited"])),
            *(_quantile(waits, 0.50), _quantile(waits, 0.99)),
        ),
    )


def _quantile(values: Sequence[int], share: float) -> str:
    if not values:
        return "-"
    return f"{values[min(len(values) - 1, int(len(values) * share))] / 1000:.0f} ms"


def _invitation(port: int) -> str:
    return f"""
The proxy stays up. Connect to it:

    mysql --host=127.0.0.1 --port={port} --user={USER} --password={PASSWORD} {SCHEMA}

    import pymysql
    connection = pymysql.connect(host="127.0.0.1", port={port}, user="{USER}",
                                 password="{PASSWORD}", database="{SCHEMA}", autocommit=True)

Ctrl-C ends it."""

"""How many calls a statement costs: ``python -m benchmarks.trace``.

A client of a proxy in this process, before the mocker, sends a read whose proof is known, a write,
and a read that waits. Each call in `proxy/`, `routing/` and `protocol/` is counted from
`ClientConnection.data_received` to the written answer, and as plain Python: what is compiled is not
seen. One statement differs from the next only by what was learned before, so the last of a few is
taken.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import pymysql

from mysql_mocker.server.cluster import Cluster
from proxy.address import Address
from proxy.client.listener import Listener
from proxy.config import Config
from proxy.observe.metrics import Metrics
from proxy.serve import build as build_shared
from proxy.serve import drain
from proxy.server.monitor import Monitor
from proxy.tls import build, make_key_ring

_ROOT: Final = str(Path(__file__).resolve().parent.parent) + "/"
_COUNTED: Final = ("proxy/", "routing/", "protocol/")
_ENTRY: Final = ("proxy/client/connection.py", "proxy/server/connection.py")
"""Where bytes come in. What the mocker calls, and what runs by a timer, is not counted."""
_WARM_UP: Final = 3
_APPLY_DELAY_S: Final = 0.05
_PASSWORD: Final = "trace"  # of an account that lives as long as this program


class Trace:
    """The calls of one statement.

    Attributes:
        calls: of functions, by file and name.
        changes: calls of a function in another file than the caller's.
    """

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.changes = 0
        self._files: list[str] = []  # of the frames from the entry on

    @property
    def files(self) -> set[str]:
        """Those that were entered."""
        return {file for file, _ in self.calls}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count during a `with` block."""
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "return"):
            return
        file = frame.f_code.co_filename.removeprefix(_ROOT)
        if not file.startswith(_COUNTED):
            return
        files = self._files
        if event == "return":
            if files:
                files.pop()
            return
        if not files and (file not in _ENTRY or frame.f_code.co_name != "data_received"):
            return
        if files and files[-1] != file:
            self.changes += 1
        files.append(file)
        self.calls[file, frame.f_code.co_name] += 1

    def __str__(self) -> str:
        return f"{self.calls.total()} calls, {len(self.files)} files, {self.changes} file changes"


class _Client:
    """One session of the proxy, which is in this process, too."""

    def __init__(self, port: int) -> None:
        self._connection = pymysql.connect(
            host="127.0.0.1",
            port=port,
            user="root",
            password=_PASSWORD,
            database="trace",
            autocommit=True,
        )

    async def query(self, sql: str) -> None:
        """Run a statement."""
        await asyncio.to_thread(self._query, sql)

    def _query(self, sql: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            cursor.fetchall()

    async def traced(self, sql: str) -> Trace:
        """Run a statement, and count what it takes."""
        trace = Trace()
        with trace.running():
            await self.query(sql)
        return trace

    def close(self) -> None:
        """Leave."""
        self._connection.close()


async def _traces(port: int) -> dict[str, Trace]:
    client = await asyncio.to_thread(_Client, port)
    read = "SELECT n FROM traced WHERE id = 1"
    write = "UPDATE traced SET n = n + 1 WHERE id = 1"
    try:
        await client.query("CREATE TABLE traced (id INT PRIMARY KEY, n INT)")
        await client.query("INSERT INTO traced VALUES (1, 0)")
        traces = {}
        for _ in range(_WARM_UP):
            traces["a write"] = await client.traced(write)
            traces["a read that waits"] = await client.traced(read)
            traces["a known read"] = await client.traced(read)
        return traces
    finally:
        await asyncio.to_thread(client.close)


async def _run() -> dict[str, Trace]:
    async with Cluster(
        1, _APPLY_DELAY_S, accounts={"root": _PASSWORD}, schemas=("trace",)
    ) as cluster:
        config = Config(
            primary=Address.parse(
                cluster.primary.address, default_host="127.0.0.1", default_port=3306
            ),
            replicas=(
                Address.parse(
                    cluster.replicas[0].address, default_host="127.0.0.1", default_port=3306
                ),
            ),
            listen=Address("127.0.0.1", 0),
            server_tls="disabled",
            wait_budget=5.0,
            proof_max_age=3600.0,
        )
        materials = build(config, make_key_ring(config))
        proxy = build_shared(config, materials, Metrics(), None, 0)
        monitor = Monitor(proxy)
        await monitor.start()
        await proxy.offer.learn(proxy.topology.primary, config, proxy.metrics)
        listener = Listener(proxy)
        try:
            return await _traces(await listener.start(reuse_port=False))
        finally:
            listener.stop()
            await monitor.stop()
            await drain(proxy)
            proxy.pool.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, and say; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", action="store_true", help="name each function, too")
    options = parser.parse_args(arguments)
    for name, trace in sorted(asyncio.run(_run()).items()):
        print(f"{name}: {trace}")
        if options.calls:
            for (file, function), count in trace.calls.items():
                print(f"  {count:3} {file} {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

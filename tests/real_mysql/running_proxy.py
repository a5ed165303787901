"""A Tidegate process before a real cluster."""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import pymysql
from prometheus_client.parser import text_string_to_metric_families
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from proxy.supervisor import NOT_SERVING
from scripts.ports import reserve_port
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.fork_server import ForkedProxy
from tests.real_mysql.template import (
    APP_PASSWORD,
    APP_USER,
    MONITOR_PASSWORD,
    MONITOR_USER,
)

Record = dict[str, object]


class RunningProxy:
    """`tidegate run` in a process of its own.

    Attributes:
        port: where clients connect, on 127.0.0.1.
        command: the command line.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        options: dict[str, str | None],
        module: str = "proxy.cli",
    ) -> None:
        self.port, self._metrics_port = reserve_port(), reserve_port()
        self._scratch = cluster.scratch
        self._name = name
        self._stderr = self._scratch.path / f"{name}.stderr"
        self._log_folder = self._scratch.path / f"{name}-log"
        password_file = self._scratch.path / "monitor-password"
        password_file.write_text(MONITOR_PASSWORD)
        password_file.chmod(0o600)
        settings: dict[str, str | None] = {
            "listen": f"127.0.0.1:{self.port}",
            "primary": cluster.primary.address,
            "replicas": ",".join(replica.address for replica in cluster.replicas),
            "monitor_user": MONITOR_USER,
            "monitor_password_file": str(password_file),
            "metrics": f"127.0.0.1:{self._metrics_port}",
            "routing_log": str(self._log_folder),
            "routing_log_compression": "off",  # its files are read as they come
            "rsa_key": str(cluster.rsa_key),  # to make one takes longer than all else
            # So long that no slow machine sends a read elsewhere. Where replicas are late for a
            # second, tests give a shorter one.
            "wait_budget": "3s",
            "drain_timeout": "500ms",  # tests end amid transactions
            "connection_sharing_delay": "1h",  # what rests must not depend on the machine
            # Tests that want others say so: with these, the fewest questions are asked.
            "scope": "connection",
            "table_dependencies": "off",
            "table_dependencies_rate": "16M",
            **options,
        }
        self.command = [sys.executable, "-m", module, "run"]
        for option, value in settings.items():
            if value is not None:
                self.command += [f"--{option.replace('_', '-')}", value]
        self._process = self._start(copied=module == "proxy.cli")
        self._scratch.watch(name, self._process.pid)
        self._wait_ready()

    def _start(self, *, copied: bool) -> subprocess.Popen[bytes] | ForkedProxy:
        """As a copy of a process that has loaded `proxy.cli`, or by its command."""
        with self._stderr.open("wb") as stderr:
            if copied:
                return ForkedProxy(self.command[3:], self._stderr)
            return subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr
            )

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id (with several workers: of their parent)."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    @property
    def stderr(self) -> str:
        """What it has said so far."""
        return self._stderr.read_text(errors="replace")

    def connect(
        self, user: str = APP_USER, password: str = APP_PASSWORD, database: str | None = "app"
    ) -> Connection[Cursor]:
        """Open a client connection through the proxy, in autocommit; the caller closes it."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            password=password,
            database=database,
            autocommit=True,
        )

    def metric(self, sample: str, **labels: str) -> float:
        """Sum the samples of a name (``…_total``, ``…_count``) that have these labels."""
        # Tests ask again and again, and to write all metrics takes long.
        name = urllib.parse.urlencode({"name[]": sample})
        url = f"http://127.0.0.1:{self._metrics_port}/metrics?{name}"
        with urllib.request.urlopen(url, timeout=10) as response:
            lines = response.read().decode().splitlines()
        wanted = "".join(f"{line}\n" for line in lines if line.startswith(sample))
        return sum(
            found.value
            for family in text_string_to_metric_families(wanted)
            for found in family.samples
            if found.name == sample and labels.items() <= found.labels.items()
        )

    def health(self, path: str = "/healthz") -> tuple[int, str]:
        """Status and text of `/healthz`, or another path."""
        url = f"http://127.0.0.1:{self._metrics_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def records(
        self, at_least: int = 0, timeout: float = 60, kind: str = "statement"
    ) -> list[Record]:
        """Read the routing log's records of one kind, waiting until there are so many.

        Raises:
            TimeoutError: there are fewer in time.
        """
        deadline = time.monotonic() + timeout
        while True:
            found = [record for record in self.log() if record["kind"] == kind]
            if len(found) >= at_least:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} {kind} records of {at_least}: {found[-3:]}")
            time.sleep(0.05)

    def log(self) -> list[Record]:
        """All that the routing log holds so far."""
        records: list[Record] = []
        for path in sorted(self._log_folder.rglob("*.jsonl*")):
            with contextlib.suppress(FileNotFoundError):  # renamed meanwhile: found next time
                whole, _, _ = path.read_text().rpartition("\n")
                records += [json.loads(line) for line in whole.splitlines()]
        return sorted(records, key=lambda record: (record["worker"], record["run"], record["seq"]))

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout: float = 60) -> int:
        """End it and give its exit status (negative: the signal that ended it).

        Raises:
            TimeoutError: it did not end; it has been killed then.
        """
        self.signal(number)
        return self.wait(number, timeout)

    def wait(self, number: signal.Signals = signal.SIGTERM, timeout: float = 60) -> int:
        """Wait for its end after a signal, as `stop` does."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise TimeoutError(f"the proxy did not end on {number.name}:\n{self.stderr}") from None
        finally:
            self._scratch.unwatch(self._name)
        return status

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        if self.running:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.stop(signal.SIGKILL)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                if NOT_SERVING not in self.health()[1]:
                    return
            if not self.running or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the proxy did not start:\n{self.stderr}")
            time.sleep(0.02)

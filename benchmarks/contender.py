"""What is measured: ways from a client to the cluster, each with a port of its own."""

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.cluster import MONITOR, PASSWORD, Cluster, log_in, wait_for_port
from benchmarks.program import ROOT, MissingProgramError, Program, haproxy
from scripts.ports import reserve_port


class Contender(ABC):
    """One way to the cluster.

    Attributes:
        name: as the report and the command line call it.
        port: where clients connect.
        pid: the process whose processor time counts; None if there is no proxy.
    """

    name: str
    port: int
    pid: int | None = None

    @abstractmethod
    def start(self) -> None:
        """Start; afterwards clients can connect to `port`."""

    @abstractmethod
    def stop(self) -> None:
        """Stop, and leave nothing behind."""

    def version(self) -> str:
        """The program's version, as it prints it."""
        return "-"

    def fallbacks(self) -> int | None:
        """Reads so far that left a replica for another server; None if they are not counted."""
        return None

    def probes(self) -> int | None:
        """How often the primary was asked so far for what it has; None if that is not counted."""
        return None


class Direct(Contender):
    """No proxy: the primary itself."""

    name = "direct"

    def __init__(self, cluster: Cluster) -> None:
        self.port = cluster.primary.port

    def start(self) -> None:
        """Does nothing: the cluster runs."""

    def stop(self) -> None:
        """Does nothing: the cluster is stopped elsewhere."""


class Proxy(Contender):
    """A proxy, started as a process of its own with a folder that is deleted afterwards."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name = name
        self.cluster = cluster
        self.port = reserve_port()
        self.directory = Path(tempfile.mkdtemp(prefix=f"tidegate-bench-{name}-"))
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def program(self) -> Program:
        """The program to run."""

    @abstractmethod
    def arguments(self) -> Sequence[str]:
        """Write the proxy's configuration; returns its command line arguments."""

    def start(self) -> None:
        """Start, and return once it accepts connections."""
        program, log = self.program(), self.directory / "log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*program.command, *self.arguments()],
                env=program.environ(),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = self._process.pid
        wait_for_port(self.port, self._process, log)
        self._wait_until_it_works(log)

    def stop(self) -> None:
        """End the process and remove its folder."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait_until_it_works(self, log: Path) -> None:
        """Return once a client can log in: a proxy may need time to find its servers."""
        deadline = time.monotonic() + 15
        while True:
            try:
                return log_in(self.cluster.programs, self.port)
            except RuntimeError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"{self.name}: {error}\n{log.read_text()[-2000:]}"
                    ) from error
                time.sleep(0.2)

    def version(self) -> str:
        """The first line of ``--version``."""
        return self.program().version()


class HAProxy(Proxy):
    """HAProxy in TCP mode, in front of the primary: it does not look at the traffic."""

    def __init__(self, cluster: Cluster, *, threads: int | None = None) -> None:
        super().__init__(f"haproxy-{threads}" if threads else "haproxy", cluster)
        self._threads = threads  # None: HAProxy's own default, one per processor
        self._program = haproxy()

    def program(self) -> Program:
        """The installed or unpacked haproxy."""
        return self._program

    def arguments(self) -> Sequence[str]:
        """Run in the foreground, with a configuration file."""
        configuration = self.directory / "haproxy.cfg"
        configuration.write_text(
            "global\n"
            + (f"  nbthread {self._threads}\n" if self._threads else "")
            + "  maxconn 1000\n"
            "defaults\n"
            "  mode tcp\n"
            "  timeout connect 5s\n"
            "  timeout client 1h\n"
            "  timeout server 1h\n"
            "listen mysql\n"
            f"  bind 127.0.0.1:{self.port}\n"
            f"  server primary 127.0.0.1:{self.cluster.primary.port}\n"
        )
        return ["-db", "-f", str(configuration)]

    def version(self) -> str:
        """The first line of ``-v``."""
        return self.program().version("-v")


class Tidegate(Proxy):
    """Tidegate with everything switched on: consistency, monitor, metrics, routing log.

    Args:
        cluster: the servers.
        variant: the name of a variant, which follows a dash; "" for none.
        options: further options of ``tidegate run``.
        routing_log: whether to write one.
        pure: whether to run plain Python even if there are compiled modules.
    """

    def __init__(
        self,
        cluster: Cluster,
        variant: str = "",
        options: Sequence[str] = (),
        *,
        routing_log: bool = True,
        pure: bool = False,
    ) -> None:
        super().__init__(f"tidegate-{variant}" if variant else "tidegate", cluster)
        self._metrics = reserve_port()
        self._options = options
        self._routing_log = routing_log
        self._pure = pure

    def program(self) -> Program:
        """The console script of this project's environment."""
        path = ROOT / ".venv" / "bin" / "tidegate"
        if not path.exists():
            raise MissingProgramError("Tidegate is not installed here: run ./dev install")
        return Program((str(path),), {"TIDEGATE_PURE": "1"} if self._pure else {})

    def arguments(self) -> Sequence[str]:
        """All options are on the command line; only the monitor's password is in a file."""
        password = self.directory / "password"
        password.write_text(PASSWORD)
        password.chmod(0o600)
        replicas = ",".join(f"127.0.0.1:{replica.port}" for replica in self.cluster.replicas)
        return [
            *("run", "--listen", f"127.0.0.1:{self.port}"),
            *("--primary", f"127.0.0.1:{self.cluster.primary.port}", "--replicas", replicas),
            *("--server-tls", "disabled", "--metrics", f"127.0.0.1:{self._metrics}"),
            *("--monitor-user", MONITOR, "--monitor-password-file", str(password)),
            *_unless_given("--scope", "connection", self._options),  # what Router promises
            *_unless_given("--table-dependencies", "off", self._options),
            *(["--routing-log", str(self.directory / "routing")] if self._routing_log else []),
            *self._options,
        ]

    def add_options(self, *options: str) -> None:
        """Add options before the start, such as those that name a path in its folder."""
        self._options = (*self._options, *options)

    def fallbacks(self) -> int:
        """The sum of ``tidegate_fallbacks_total``, from the metrics."""
        return self._counted("tidegate_fallbacks_total")

    def probes(self) -> int:
        """The sum of ``tidegate_probes_total``, from the metrics."""
        return self._counted("tidegate_probes_total")

    def reads_on_replicas(self) -> int:
        """Reads so far that replicas answered, by what they had, from the metrics."""
        return self._counted("tidegate_statements_total", 'role="replica"', 'reason="read"')

    def _counted(self, name: str, *labels: str) -> int:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self._metrics}/metrics", timeout=5
        ) as answer:
            lines = answer.read().decode().splitlines()
        samples = [
            line
            for line in lines
            if line.startswith(name) and all(label in line for label in labels)
        ]
        return sum(int(float(line.rpartition(" ")[2])) for line in samples)


def _unless_given(name: str, value: str, options: Sequence[str]) -> Sequence[str]:
    return () if name in options else (name, value)


_SHARING = ("--connection-sharing", "on", "--wait-budget", "5s")
VARIANTS: Mapping[str, Sequence[str]] = {
    "auto": ("--wait-budget", "auto"),
    "best-effort": ("--consistency", "BEST_EFFORT"),
    "bounded": ("--consistency", "BOUNDED_STALENESS(1s)", "--monitor-interval", "500ms"),
    "user": ("--consistency", "READ_OWN_WRITES", "--scope", "user"),
    "default": ("--scope", "user", "--table-dependencies", "auto"),
    "tables": ("--scope", "user", "--table-dependencies", "on"),
    "monotonic": ("--consistency", "MONOTONIC_READS"),
    "all-writes": ("--consistency", "READ_ALL_WRITES"),
    "all-writes-proxy": ("--consistency", "READ_ALL_WRITES", "--scope", "proxy"),
    "strong": ("--consistency", "STRONG"),
    "shared": (*_SHARING, "--max-server-connections", "8", "--server-connection-timeout", "1m"),
    "snapshot": ("--transaction-reads", "snapshot"),
    "tls": ("--server-tls", "required"),
}
"""Options of Tidegate by variant: levels, scopes, and other settings that are not the default."""


@contextmanager
def running(contenders: Sequence[Contender]) -> Iterator[list[Contender]]:
    """Start contenders, and stop them all afterwards; yields those that started.

    Prints to stderr why one did not start.
    """
    ready = []
    with ExitStack() as stack:
        for contender in contenders:
            stack.callback(contender.stop)
            try:
                contender.start()
            except RuntimeError as error:
                print(f"{contender.name} does not start: {error}", file=sys.stderr)
            else:
                ready.append(contender)
        yield ready

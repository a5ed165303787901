"""What must be true of the proxy itself: it lives, recovers, counts right and leaks nothing."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pymysql

from tests.chaos.cluster import UnhealthyError, until
from tests.chaos.judge import Finding
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer

SERVERS = 3
RECOVERY_S = 30.0
"""Within this time of the cluster's healing all must be as before."""
_CLIENTS = "SELECT COUNT(*) FROM performance_schema.processlist WHERE user IN ('app', 'app2')"
_PROVEN = "tidegate_stale_reads_proven_total"
_MUST_BE_ZERO = (
    _PROVEN,
    "tidegate_stale_reads_total",
    "tidegate_unknown_gtid_encodings_total",
    "tidegate_routing_log_dropped_total",
    "tidegate_routing_log_errors_total",
    "tidegate_worker_restarts_total",
)
_MUST_RETURN_TO_ZERO = ("tidegate_clients_connected", "tidegate_pinned_sessions")


class ProxyWatch:
    """Looks at a proxy, trial after trial.

    Args:
        proxy: the one.
        address_of: where it reaches a server.
    """

    def __init__(self, proxy: RunningProxy, address_of: Callable[[RealServer], str]) -> None:
        self._proxy = proxy
        self._address_of = address_of
        self._said = 0
        self._seen: dict[str, float] = {}
        if "--monitor-user" in proxy.command:
            until(lambda: proxy.metric("tidegate_server_up") >= SERVERS, "its monitor is there")
        self._descriptors = self._count_descriptors()

    # --- while it works ------------------------------------------------------------------------

    def counts(self) -> Counter[str]:
        """Reads that left a replica, and statements that replicas answered."""
        metric = self._proxy.metric
        with contextlib.suppress(OSError):
            return Counter(
                fallbacks=round(metric("tidegate_fallbacks_total")),
                on_replicas=round(
                    metric("tidegate_statements_total", role="replica", reason="read", outcome="ok")
                ),
            )
        return Counter()

    def recovered(self, primary: RealServer, replicas: list[RealServer]) -> list[Finding]:
        """Wait until it takes writes and lets each replica answer reads."""
        try:
            until(lambda: self._writes_to(primary), "it takes writes at the primary", RECOVERY_S)
            for replica in replicas:
                self._wait_for_reads(replica)
        except UnhealthyError as error:
            return [Finding("the proxy did not recover", f"{error}\n{self._servers()}")]
        return []

    def wait_for_primary(self, primary: RealServer) -> None:
        """Wait until the proxy routes to a new primary.

        Raises:
            UnhealthyError: it does not.
        """
        until(lambda: self._writes_to(primary), f"it follows {primary.name}", RECOVERY_S)

    def _wait_for_reads(self, replica: RealServer) -> None:
        before = self._answered(replica)
        condition = f"{replica.name} ({self._address_of(replica)}) answers reads"
        until(lambda: self._answered(replica) > before, condition, RECOVERY_S)

    def _writes_to(self, primary: RealServer) -> bool:
        with contextlib.closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE app.probe SET value = value + 1")
            cursor.execute("SHOW TIDEGATE SERVERS")
            rows = cursor.fetchall()
        return bool(rows[0][0] == self._address_of(primary))

    def _connect(self) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
        return pymysql.connect(
            host="127.0.0.1",
            port=self._proxy.port,
            user="watch",
            password="watch-secret",
            autocommit=True,
            connect_timeout=10,
            read_timeout=10,
        )

    def answered(self, servers: list[RealServer]) -> list[float]:
        """How many statements each of these servers has answered."""
        return [self._answered(server) for server in servers]

    def _answered(self, server: RealServer) -> float:
        return self._proxy.metric(
            "tidegate_statements_total",
            server=self._address_of(server),
            role="replica",
            reason="read",
            outcome="ok",
        )

    def _servers(self) -> str:
        with (
            contextlib.suppress(pymysql.err.MySQLError, OSError),
            contextlib.closing(self._connect()) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SHOW TIDEGATE SERVERS")
            return "\n".join(str(row) for row in cursor.fetchall())
        return "and it takes no client"

    def complaints(self, *, may_prove: bool = False) -> list[Finding]:
        """What it said or counted since the last call that must not be.

        Args:
            may_prove: its audits may have found reads that would have been stale.
        """
        findings = []
        output = self._proxy.stderr
        news, self._said = output[self._said :], len(output)
        if "Traceback" in news or "never retrieved" in news or "never awaited" in news:
            findings.append(Finding("a traceback of the proxy", news[-4000:]))
        if not self._proxy.running:
            return [*findings, Finding("the proxy ended", output[-2000:])]
        for name in _MUST_BE_ZERO:
            value = self._proxy.metric(name)
            excused = may_prove and name == _PROVEN
            if value > self._seen.get(name, 0) and not excused:
                findings.append(Finding("a metric that must be 0", f"{name} is {value:g}"))
            self._seen[name] = value
        return findings

    # --- at the end ----------------------------------------------------------------------------

    def leaks(self, servers: list[RealServer]) -> list[Finding]:
        """What is left of clients that have all gone."""
        if not self._proxy.running:
            return []
        leaks: dict[str, float] = {}
        deadline = time.monotonic() + RECOVERY_S
        while time.monotonic() < deadline:
            leaks = self._leaks(servers)
            if not leaks:
                return []
            time.sleep(0.5)
        return [Finding("a leak", f"{name}: {count:g}") for name, count in leaks.items()]

    def _leaks(self, servers: list[RealServer]) -> dict[str, float]:
        leaks = {name: self._proxy.metric(name) for name in _MUST_RETURN_TO_ZERO}
        for server in servers:
            leaks[f"connections of clients on {server.name}"] = float(server.value(_CLIENTS))
        more = self._count_descriptors() - self._descriptors
        leaks["file descriptors more than at the beginning"] = max(0, more)
        return {name: count for name, count in leaks.items() if count}

    def _count_descriptors(self) -> int:
        """Sockets that the proxy holds (with several workers: their parent)."""
        return sum(
            1
            for descriptor in Path(f"/proc/{self._proxy.pid}/fd").iterdir()
            if _target(descriptor).startswith("socket:")
        )

    def stops(self) -> list[Finding]:
        """End it in good order."""
        if not self._proxy.running:
            return []
        try:
            status = self._proxy.stop()
        except TimeoutError as error:
            return [Finding("the proxy did not end", str(error)[-2000:])]
        found = self.complaints_of_the_last_words()
        return found if status == 0 else [*found, Finding("exit status", str(status))]

    def complaints_of_the_last_words(self) -> list[Finding]:
        """A traceback among what it said since the last look; it has ended."""
        news = self._proxy.stderr[self._said :]
        return [Finding("a traceback of the proxy", news)] if "Traceback" in news else []


def _target(descriptor: Path) -> str:
    with contextlib.suppress(OSError):  # closed meanwhile
        return str(descriptor.readlink())
    return ""

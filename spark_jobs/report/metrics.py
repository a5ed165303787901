"""The result of an audit as metrics for Prometheus."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    Metric,
    start_http_server,
    write_to_textfile,
)
from prometheus_client.registry import Collector

from spark_jobs.findings.findings import Findings
from spark_jobs.report import coverage
from spark_jobs.report.losses import count_lost
from spark_jobs.verdict import Verdict

NIGHTLY: Final = "tidegate_audit_"
LIVE: Final = "tidegate_audit_live_"

Address = tuple[str, int]
"""Host and port."""


def figures(
    prefix: str,
    *,
    log: str,
    exit_code: int,
    begun_s: float,
    duration_s: float,
    findings: Findings | None = None,
) -> CollectorRegistry:
    """Make the metrics of an audit.

    Args:
        prefix: the prefix of all names.
        log: the directory of the log, which distinguishes several audits on one machine.
        exit_code: the audit's.
        begun_s: when it began, Unix time.
        duration_s: how long it took, in seconds.
        findings: what it found; None if it could not judge at all.
    """
    registry = CollectorRegistry()

    def tell(name: str, meaning: str, value: float) -> None:
        Gauge(f"{prefix}{name}", meaning, ["log"], registry=registry).labels(log).set(value)

    tell("last_run_timestamp_seconds", "When the last audit began.", begun_s)
    tell("duration_seconds", "How long the last audit took.", duration_s)
    tell("exit_code", "0 clean, 1 not kept, lost or contradicted, 2 nobody can tell.", exit_code)
    if findings is None:
        return registry
    violations = findings.reads(Verdict.VIOLATION)
    tell("violations", "Reads that were not shown to see what they had to see.", violations)
    tell("coverage_ratio", "Share of reads with a promise that were judged.", findings.coverage)
    lost = count_lost(findings.lost)
    tell("lost_transactions", "Transactions that were acknowledged and lost.", lost)
    tell(
        "unreported_transactions",
        "Transactions that primaries came to have and no record names.",
        findings.unreported,
    )
    tell("lapses", "Reads that had no valid proof, as the procedure asks for.", findings.lapsed)
    if findings.runs:
        newest_s = max(row.number("to_us") for row in findings.runs) / 1e6
        tell("newest_record_timestamp_seconds", "End of the newest statement judged.", newest_s)
    reads = Gauge(
        f"{prefix}reads",
        "Reads by what they were promised and what the audit says of them.",
        ["log", "level", "scope", "verdict"],
        registry=registry,
    )
    for promise in coverage.by_promise(findings):
        for verdict in Verdict:
            reads.labels(log, promise.level, promise.scope, verdict.value).set(
                promise.counts[verdict]
            )
    return registry


class Metrics(Collector):
    """The metrics of a live view's newest judgement; none before the first one."""

    def __init__(self, log: str) -> None:
        """Begin without metrics.

        Args:
            log: the directory of the log.
        """
        self._log = log
        self._newest = CollectorRegistry()

    def collect(self) -> Iterable[Metric]:
        """The metrics, for Prometheus' client library."""
        return self._newest.collect()

    def tell(self, findings: Findings, begun_s: float, duration_s: float) -> None:
        """Replace the metrics by those of a judgement.

        Args:
            findings: the findings.
            begun_s: when it began, Unix time.
            duration_s: how long it took, in seconds.
        """
        self._newest = figures(
            LIVE,
            log=self._log,
            exit_code=findings.exit_code,
            begun_s=begun_s,
            duration_s=duration_s,
            findings=findings,
        )

    def write(self, path: Path) -> None:
        """Write them to a text file, in one step.

        Raises:
            OSError: it cannot be written.
        """
        write_to_textfile(str(path), self._newest)

    @contextmanager
    def served(self, address: Address | None) -> Iterator[None]:
        """Answer Prometheus by HTTP, if there is an address.

        Raises:
            OSError: it is impossible to listen at the address; the message says why.
        """
        if address is None:
            yield
            return
        host, port = address
        registry = CollectorRegistry()
        registry.register(self)
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            raise OSError(f"{host}:{port} cannot serve metrics: {error}") from error
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

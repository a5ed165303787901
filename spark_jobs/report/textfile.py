"""What an audit came to, as metrics in a text file for Prometheus' node exporter."""

from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from spark_jobs.findings import Findings
from spark_jobs.report import coverage
from spark_jobs.report.losses import count_lost
from spark_jobs.verdict import Verdict


def write(
    path: Path,
    *,
    log: str,
    exit_code: int,
    begun_s: float,
    duration_s: float,
    findings: Findings | None = None,
) -> None:
    """Write the file anew, in one step.

    Args:
        path: the file; a node exporter takes those that end in ``.prom``.
        log: the directory of the log, which tells several audits on a machine apart.
        exit_code: the audit's.
        begun_s: when it began, Unix time.
        duration_s: how long it took, in seconds.
        findings: what it found; None if it could not judge at all.

    Raises:
        OSError: it cannot be written.
    """
    registry = CollectorRegistry()

    def tell(name: str, meaning: str, value: float) -> None:
        Gauge(f"tidegate_audit_{name}", meaning, ["log"], registry=registry).labels(log).set(value)

    tell("last_run_timestamp_seconds", "When the last audit began.", begun_s)
    tell("duration_seconds", "How long the last audit took.", duration_s)
    tell("exit_code", "0 clean, 1 not kept, lost or contradicted, 2 nobody can tell.", exit_code)
    if findings is not None:
        violations = findings.reads(Verdict.VIOLATION)
        tell("violations", "Reads that were not shown to see what they had to see.", violations)
        tell("coverage_ratio", "Share of reads with a promise that were judged.", findings.coverage)
        lost = count_lost(findings.lost)
        tell("lost_transactions", "Transactions that were acknowledged and lost.", lost)
        reads = Gauge(
            "tidegate_audit_reads",
            "Reads by what they were promised and what the audit says of them.",
            ["log", "level", "scope", "verdict"],
            registry=registry,
        )
        for promise in coverage.by_promise(findings):
            for verdict in Verdict:
                reads.labels(log, promise.level, promise.scope, verdict.value).set(
                    promise.counts[verdict]
                )
    write_to_textfile(str(path), registry)

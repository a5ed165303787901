"""Writes the result of an audit as metrics in a text file for Prometheus' node exporter."""

from pathlib import Path

from prometheus_client import write_to_textfile

from spark_jobs.findings.findings import Findings
from spark_jobs.report.metrics import NIGHTLY, figures


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
        path: the file; a node exporter reads files whose names end in ``.prom``.
        log: the directory of the log, which distinguishes several audits on one machine.
        exit_code: the audit's.
        begun_s: when it began, Unix time.
        duration_s: how long it took, in seconds.
        findings: what it found; None if it could not judge at all.

    Raises:
        OSError: it cannot be written.
    """
    registry = figures(
        NIGHTLY,
        log=log,
        exit_code=exit_code,
        begun_s=begun_s,
        duration_s=duration_s,
        findings=findings,
    )
    write_to_textfile(str(path), registry)

"""Writes and removes the files of a report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark_jobs.disk import write_whole
from spark_jobs.findings.findings import Findings
from spark_jobs.findings.results import Results, Summary
from spark_jobs.report import page, summary
from spark_jobs.report.trend import NIGHTS

PAGE: Final = "report.html"
SUMMARY: Final = "report.md"


def write(
    findings: Findings,
    folder: Path,
    nights: Sequence[Summary] = (),
    duration_s: float = 0.0,
    place: Path | None = None,
) -> Path:
    """Write the page and the summary; return where the page is.

    Args:
        findings: the audit's.
        folder: the folder for them.
        nights: the newest judgement of each day that was kept, in any order.
        duration_s: how long the audit took, in seconds; 0 to leave it out.
        place: where the folder will be when it is complete; None if it stays.
    """
    report = folder / PAGE
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        SUMMARY: summary.render(findings, str((place or folder) / PAGE)),
        PAGE: page.render(findings, nights, duration_s),
    }
    for name, text in texts.items():
        write_whole(folder / name, [text])
    return report


def kept(results: Results) -> list[Summary]:
    """The newest judgement of each of the last days that were kept.

    Args:
        results: the judgements.

    Raises:
        OSError: one cannot be read; the message names it.
    """
    found = (results.newest(day) for day in results.days()[-NIGHTS:])
    return [night for night in found if night is not None]


def remove(folder: Path) -> None:
    """Remove the files, so that nobody takes an earlier report for the next one."""
    for name in (PAGE, SUMMARY):
        (folder / name).unlink(missing_ok=True)

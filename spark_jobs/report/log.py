"""The page's section on the log itself: runs, gaps, files, lines that are no record."""

from typing import Final

from spark_jobs.findings.findings import Findings
from spark_jobs.markdown import counted, span
from spark_jobs.report.table import Section, Table

_RUNS: Final = 20
"""If there are more runs than this, only those with gaps or repeats are listed."""

_CLOCK: Final = ("back_us", "ahead_us", "error_us")
_TROUBLES: Final = ("missing", "declared", "repeated", "conflicting")


def section(findings: Findings) -> Section:
    """Make the section."""
    notes = [
        f"{counted(findings.complete, 'complete segment')}, "
        f"{counted(findings.live, 'open segment')}. A run is one start of one worker; its records "
        "are numbered without gaps (“seq” in the log), so missing ones are noticed. “Declared” are "
        "those that the proxy itself reports as dropped."
    ]
    unseen = findings.in_runs("missing")
    if unseen:
        notes.append(
            f"Missing from the log: {counted(unseen, 'record')}. No figure in this report includes "
            "them."
        )
    if findings.unread:
        notes.append(f"Not read, though they seem to hold records: {', '.join(findings.unread)}.")
    notes += (f"Not read to the end: {file} ({why})." for file, why in findings.damaged.items())
    if findings.unknown:
        notes.append(f"Not taken for segments: {', '.join(findings.unknown)}.")
    faults = Table(
        ("File", "Fault", "Lines"),
        ((row.text("file"), row.text("fault"), row.number("lines")) for row in findings.faults),
        "Lines that are no record, so what they held is missing. A “torn” line is cut short: by a "
        "crash, or because the segment is still being written. A “damaged” line cannot be read, "
        "lacks a field or has an impossible number. A “foreign” line is of another version.",
        main="Lines",
    )
    return Section("The log", notes, (_runs(findings), _clocks(findings), faults))


def _clocks(findings: Findings) -> Table:
    return Table(
        ("Proxy", "Worker", "Run", "From record", "Set back by", "Ahead by", "Error at most"),
        (
            (
                *(row.text("proxy"), row.number("worker"), row.text("run"), row.number("from_seq")),
                *(span(row.number(name)) if row.has(name) else "" for name in _CLOCK),
            )
            for row in findings.clocks
        ),
        "Clocks that were set back, or that do not agree with the others (negative: behind them):",
        main="Ahead by",
    )


def _runs(findings: Findings) -> Table:
    runs, note = findings.runs, ""
    if len(runs) > _RUNS:
        runs = [row for row in runs if any(row.number(name) for name in _TROUBLES)][:_RUNS]
        note = f"{len(findings.runs):,} runs; these have missing, repeated or conflicting records:"
    return Table(
        (
            *("Proxy", "Worker", "Run", "Statements", "Proofs"),
            *("Missing", "Declared", "Repeated", "Conflicting"),
        ),
        (
            (
                *(row.text("proxy"), row.number("worker"), row.text("run")),
                *(row.number("statements"), row.number("proofs")),
                *(row.number(name) for name in _TROUBLES),
            )
            for row in runs
        ),
        note,
        main="Missing",
    )

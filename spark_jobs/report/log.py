"""What the page tells of the log itself: runs, gaps, files, lines that are no record."""

from typing import Final

from spark_jobs.findings import Findings
from spark_jobs.markdown import counted, span
from spark_jobs.report.table import Section, Table

_RUNS: Final = 20
"""Runs beyond which only those with something to tell are listed."""

_CLOCK: Final = ("back_us", "ahead_us", "error_us")
_TROUBLES: Final = ("missing", "declared", "repeated", "conflicting")


def section(findings: Findings) -> Section:
    """What can be relied on."""
    notes = [
        f"{counted(findings.complete, 'complete segment')}, "
        f"{counted(findings.live, 'open segment')}. A run is one start of one worker; its records "
        "are numbered without gaps, so what is missing is known. “Declared” are those that the "
        "proxy says itself it dropped."
    ]
    unseen = findings.in_runs("missing")
    if unseen:
        notes.append(
            f"Missing from the log: {counted(unseen, 'record')}. Nothing is said of what they "
            "would tell."
        )
    if findings.unread:
        notes.append(f"Not read, though they seem to hold records: {', '.join(findings.unread)}.")
    if findings.unknown:
        notes.append(f"Not taken for segments: {', '.join(findings.unknown)}.")
    faults = Table(
        ("File", "Fault", "Lines"),
        ((row.text("file"), row.text("fault"), row.number("lines")) for row in findings.faults),
        "Lines that are no record, so what they held is missing. A “torn” one is what a crash "
        "leaves at a file's end, or what the end of a segment looks like that is being written. A "
        "“damaged” one cannot be read, lacks a field or has a number that cannot be. A “foreign” "
        "one is of another version.",
    )
    return Section("The log", notes, (_runs(findings), _clocks(findings), faults))


def _clocks(findings: Findings) -> Table:
    return Table(
        ("Proxy", "Worker", "Run", "From seq", "Set back by", "Ahead by", "Give or take"),
        (
            (
                *(row.text("proxy"), row.number("worker"), row.text("run"), row.number("from_seq")),
                *(span(row.number(name)) if row.has(name) else "" for name in _CLOCK),
            )
            for row in findings.clocks
        ),
        "Clocks that were set back, or that do not agree with the others (below 0: behind them):",
    )


def _runs(findings: Findings) -> Table:
    runs, note = findings.runs, ""
    if len(runs) > _RUNS:
        runs = [row for row in runs if any(row.number(name) for name in _TROUBLES)][:_RUNS]
        note = f"{len(findings.runs):,} runs; these have something to tell:"
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
    )

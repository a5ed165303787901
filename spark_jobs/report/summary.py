"""Writes the audit in a few lines of Markdown, for a chat or a mail; the page has the rest."""

from collections.abc import Iterable
from itertools import groupby

from spark_jobs.counter_example import contradiction, counter_example, lost_writes
from spark_jobs.findings import Findings
from spark_jobs.markdown import code, counted, named, table
from spark_jobs.report import coverage
from spark_jobs.report.page import period
from spark_jobs.verdict import Verdict


def render(findings: Findings, page: str) -> str:
    """Write the summary.

    Args:
        findings: the audit's.
        page: where the whole report is.
    """
    parts = [
        "# Tidegate audit",
        f"**{findings.verdict}** {findings.explanation}",
        *findings.notes,
        *_log(findings),
        *_reads(findings),
        *_examples(findings),
        f"The whole report: {code(page)}",
    ]
    return "\n\n".join(parts) + "\n"


def _log(findings: Findings) -> Iterable[str]:
    if findings.runs:
        yield f"The log {code(findings.log)}, {period(findings)}."
    told = []
    if unseen := findings.in_runs("missing"):
        told.append(f"Missing from the log: {counted(unseen, 'record')}.")
    if findings.faults:
        lines = sum(row.number("lines") for row in findings.faults)
        files = len({row.text("file") for row in findings.faults})
        told.append(f"Lines that are no record: {lines:,} in {counted(files, 'file')}.")
    if findings.unknown:
        told.append(f"Not taken for segments: {named(findings.unknown)}.")
    if told:
        yield " ".join(told)


def _reads(findings: Findings) -> Iterable[str]:
    heads = list(coverage.HEADS.items())
    rows = [
        (it.level, it.scope, it.reads, it.judged, *(it.counts[verdict] for verdict, _ in heads))
        for it in coverage.by_promise(findings)
    ]
    if rows:
        yield table(("Level", "Scope", "Reads", "Judged", *(head for _, head in heads)), rows)
    why = coverage.not_judged(findings)
    if why:
        yield "Why reads were not judged:"
        yield table(("Level", "Scope", "Finding", "Reads"), why)


def _examples(findings: Findings) -> Iterable[str]:
    """The first counter-example of each finding, the first loss, the first contradiction."""
    totals = {
        it.finding: it.reads for it in coverage.grounds(findings) if it.verdict == Verdict.VIOLATION
    }
    for finding, reads in groupby(findings.violations, key=lambda read: read.text("finding")):
        read = next(reads)
        yield f"{_first(totals.get(finding, 1), finding)}:"
        yield _block(counter_example(read))
    if findings.lost:
        yield f"{_first(len(findings.lost), 'acknowledged and lost')}:"
        yield _block(lost_writes(findings.lost[0]))
    if findings.binlogs is not None and findings.contradicted:
        yield f"{_first(findings.contradicted, 'contradicted by a binary log')}:"
        yield _block(contradiction(findings.binlogs.first_contradicted[0]))


def _first(number: int, what: str) -> str:
    return f"The first of {number:,}, {what}" if number > 1 else what.capitalize()


def _block(text: str) -> str:
    return f"```text\n{text}\n```"

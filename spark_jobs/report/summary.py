"""Writes the audit in a few lines of Markdown, for a chat or a mail; the page has the rest."""

from collections.abc import Iterable

from spark_jobs.findings.counter_example import contradiction, dependence
from spark_jobs.findings.findings import Findings
from spark_jobs.markdown import code, counted, escaped, named, table
from spark_jobs.report import coverage, incidents
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
        *_incidents(findings),
        *findings.remarks,
        *findings.notes,
        *_log(findings),
        *_reads(findings),
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
    rare = () if findings.reads(Verdict.BY_WORD) else (Verdict.BY_WORD,)
    heads = [head for head in coverage.HEADS.items() if head[0] not in rare]
    rows = [
        (
            promise.level,
            promise.scope,
            promise.reads,
            promise.judged,
            *(promise.counts[verdict] for verdict, _ in heads),
        )
        for promise in coverage.by_promise(findings)
    ]
    if rows:
        yield table(("Level", "Scope", "Reads", "Judged", *(head for _, head in heads)), rows)
    why = coverage.not_judged(findings)
    if why:
        yield "Why reads were not judged:"
        yield table(("Level", "Scope", "Finding", "Reads"), why)


def _incidents(findings: Findings) -> Iterable[str]:
    """Each incident with its first case, and the first contradiction."""
    for _, description in incidents.shown(findings):
        yield f"**{escaped(description.title)}** {escaped(' '.join(description.facts))}"
        yield f"Next: {escaped(description.next_step)}"
        yield from map(_block, description.examples)
    if more := incidents.beyond(findings):
        yield more
    if findings.binlogs is not None and findings.contradicted:
        number = findings.contradicted
        first = f"The first of {number:,}, contradicted" if number > 1 else "Contradicted"
        yield f"{first} by a binary log:"
        yield _block(contradiction(findings.binlogs.first_contradicted[0]))
    if findings.binlogs is not None and findings.dependent:
        yield escaped(findings.binlogs.dependence)
        yield _block(dependence(findings.binlogs.first_dependent[0]))


def _block(text: str) -> str:
    return f"```text\n{text}\n```"

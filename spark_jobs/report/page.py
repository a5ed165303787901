"""Writes the audit's report as one HTML file: no script, no font, no network; light or dark.

The template engine escapes all text from the log.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from spark_jobs.findings.counter_example import counter_example, promise, read_by
from spark_jobs.findings.findings import CLEAN, VIOLATED, Findings
from spark_jobs.findings.results import Summary
from spark_jobs.markdown import counted, moment, plain, span
from spark_jobs.report import binlogs, coverage, incidents, log, timeline, traffic, trend
from spark_jobs.report.losses import count_lost
from spark_jobs.report.names import shorten
from spark_jobs.report.table import Section, Table
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Verdict

if TYPE_CHECKING:
    from markupsafe import Markup


class Example(NamedTuple):
    """A read that missed something, or may have missed something."""

    title: str
    promise: str
    line: timeline.Timeline
    text: str


class Kind(NamedTuple):
    """Examples of one finding."""

    finding: str
    meaning: str
    examples: Sequence[Example]


class Case(NamedTuple):
    """An incident: what happened, in words, and one read that it concerned as a picture."""

    description: incidents.Description
    line: timeline.Timeline | None


class Figure(NamedTuple):
    """A number at the top of the page."""

    name: str
    value: str
    is_bad: bool = False


class Bar(NamedTuple):
    """The reads of one promise with one verdict, in percent of all reads of that promise."""

    name: str
    verdict: str
    percent: float
    reads: int


class Share(NamedTuple):
    """The reads of one promise, and how they came out."""

    level: str
    scope: str
    reads: int
    covered: str
    bars: Sequence[Bar]


def what_is_missing() -> str | None:
    """Say what is missing to write the page and how to get it; None if nothing is."""
    if find_spec("jinja2") is not None:
        return None
    return "Jinja2 is not installed, which writes the report:  pip install 'tidegate[audit]'"


def render(findings: Findings, nights: Sequence[Summary] = (), duration_s: float = 0.0) -> str:
    """Write the page.

    Args:
        findings: the audit's.
        nights: the newest judgement of each day that was kept, in any order.
        duration_s: how long the audit took, in seconds; 0 to leave it out.
    """
    from jinja2 import Environment, StrictUndefined

    here = files(__package__)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["coded"] = _coded
    environment.filters["short"] = partial(_short, shorten(_servers(findings)))
    template = environment.from_string((here / "page.html.jinja").read_text(encoding="utf-8"))
    grounds = [
        (ground.finding, ground.verdict, ground.reads, coverage.meaning(ground.finding))
        for ground in coverage.grounds(findings)
    ]
    page = template.render(
        style=(here / "page.css").read_text(encoding="utf-8"),
        findings=findings,
        state={CLEAN: "clean", VIOLATED: "violated"}.get(findings.exit_code, "undecided"),
        period=period(findings),
        figures=_figures(findings, duration_s),
        charts=trend.charts(nights),
        nights=_nights(nights),
        shares=_shares(findings),
        not_judged=Table(
            ("Level", "Scope", "Finding", "Reads"),
            coverage.not_judged(findings),
            "Why reads were not judged:",
            main="Reads",
        ),
        grounds=Table(("Finding", "Verdict", "Reads", "Meaning"), grounds, main="Reads"),
        incidents=_incidents(findings),
        beyond=incidents.beyond(findings),
        undecided=_kinds(findings.undecided, findings.scenes),
        sections=_sections(findings),
    )
    return "".join(map(_visible, page))


def period(findings: Findings) -> str:
    """The period that the log covers, as text; "" if it holds no record."""
    if not findings.runs:
        return ""
    begin = min(row.number("from_us") for row in findings.runs)
    end = max(row.number("to_us") for row in findings.runs)
    return (
        f"from {moment(begin)[:-7]} to {moment(end)[:-7]} UTC: "
        f"{counted(findings.in_runs('statements'), 'statement')} in "
        f"{counted(len(findings.runs), 'run')}"
    )


def _sections(findings: Findings) -> list[Section]:
    told = [] if findings.binlogs is None else [binlogs.section(findings.binlogs)]
    return [*told, *traffic.sections(findings), log.section(findings)]


def _figures(findings: Findings, duration_s: float) -> list[Figure]:
    violations, lost = findings.reads(Verdict.VIOLATION), count_lost(findings.lost)
    told = [
        Figure("violations", f"{violations:,}", violations > 0),
        Figure("lost transactions", f"{lost:,}", lost > 0),
        Figure("without a valid proof", f"{findings.lapsed:,}", findings.lapsed > 0),
        Figure("reads with a promise", f"{findings.promised:,}"),
    ]
    if findings.promised:
        share = findings.coverage
        told.append(Figure("of them judged", trend.share(share), share < findings.min_coverage))
    if duration_s:
        told.append(Figure("the audit took", span(round(duration_s * 1_000_000))))
    return told


def _nights(nights: Sequence[Summary]) -> Table:
    return Table(
        ("Date", "Violations", "Losses", "Judged", "Duration"),
        (
            (
                *(night.date, night.violations, night.lost, trend.share(night.coverage)),
                span(round(night.duration_s * 1_000_000)),
            )
            for night in sorted(nights, key=lambda night: night.date, reverse=True)
        ),
    )


def _shares(findings: Findings) -> list[Share]:
    return [
        Share(
            promise.level,
            promise.scope,
            promise.reads,
            trend.share(1 - promise.counts[Verdict.NOT_JUDGED] / promise.promised)
            if promise.promised
            else "",
            [
                Bar(head, verdict.name.lower(), 100 * reads / promise.reads, reads)
                for verdict, head in coverage.HEADS.items()
                if (reads := promise.counts[verdict])
            ],
        )
        for promise in coverage.by_promise(findings)
    ]


def _incidents(findings: Findings) -> list[Case]:
    return [
        Case(
            description,
            None if incident.read is None else timeline.of(incident.read, findings.scenes),
        )
        for incident, description in incidents.shown(findings)
    ]


def _kinds(reads: Sequence[Row], scenes: Sequence[Row]) -> list[Kind]:
    return [
        Kind(
            finding,
            coverage.meaning(finding),
            [
                Example(
                    timeline.title(read),
                    f"{read_by(read)}; promised {promise(read)}",
                    timeline.of(read, scenes),
                    counter_example(read),
                )
                for read in group
            ],
        )
        for finding, group in groupby(reads, key=lambda read: read.text("finding"))
    ]


def _servers(findings: Findings) -> Iterator[str]:
    for incident in findings.incidents:
        yield from map(plain, (incident.culprit, incident.successor, *incident.servers))
    for row in (*findings.scenes, *findings.undecided):
        if row.has("server"):
            yield row.text("server")


def _short(names: Mapping[str, str], text: str) -> "Markup":
    """Show long names of servers in a text by their short ones; the whole name is the tooltip."""
    from markupsafe import Markup

    long = sorted((name for name in names if names[name] != name), key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, long))})", text) if long else [text]
    return Markup("").join(
        Markup('<abbr title="{}">{}</abbr>').format(part, names[part]) if number % 2 else part
        for number, part in enumerate(parts)
    )


def _coded(text: str) -> "Markup":
    """Turn the code spans of a text into HTML: verdicts name files and policies in such spans."""
    from markupsafe import Markup

    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )


def _visible(character: str) -> str:
    """A character; control and direction characters become a replacement character."""
    if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs"):
        return character
    return "\N{REPLACEMENT CHARACTER}"

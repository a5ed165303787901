"""Keeps the judgements of days; none is ever overwritten.

A judgement of a day is a folder, ``days/date=YYYY-MM-DD/judgement=N``, with a summary, a report and
tables. It is made under another name and renamed when it is complete, so a folder of that name
always holds a whole judgement; at a URI, it is whole as soon as it has a summary. The one with the
highest number is the newest; earlier ones stay.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from spark_jobs import storage
from spark_jobs.day import Day
from spark_jobs.findings.findings import Findings
from spark_jobs.markdown import counted
from spark_jobs.storage import Folder
from spark_jobs.verdict import Verdict

VERSION: Final = 1
"""Version of the layout and of summaries. It changes with a new meaning, not with a new field."""

TABLES_VERSION: Final = 2
"""Version of the tables. It changes where a column goes, or changes its type or its meaning; a new
column does not change it. Version 1 had whole microseconds in place of timestamps."""

_JUDGEMENT: Final = re.compile(r"date=([^/]*)/judgement=([1-9][0-9]*)/.*")
_SUMMARY: Final = "summary.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One judgement of one day, in figures.

    Attributes:
        version: VERSION.
        tables: version of the tables beside it (`docs/audit-tables.md`).
        date: the day, ``YYYY-MM-DD``.
        judgement: its number, from 1.
        judged_us: when the judgement began, UTC µs.
        duration_s: how long it took.
        take: the newest take of segments that it knew (`store`).
        warm_up: the day before; it was read and not judged, if there was no state (`state`).
        exit_code: see `findings`.
        verdict: the verdict in a few words.
        explanation: the sentences that go with the verdict.
        statements: how many statements arrived on the day.
        missing: how many records of the day the log lacks.
        torn: how many lines of the day's segments are torn.
        damaged: how many lines of the day's segments are damaged.
        foreign: how many lines of the day's segments are foreign.
        reads: how many reads there were.
        promised: how many reads were answered by a server and had a promise.
        ok: how many promises were kept.
        violations: how many promises were not kept.
        not_judged: how many promises could not be judged.
        given_up: how many promises the policy `stale` gave up.
        understated: how many reads are ok by luck.
        coverage: share of the promised reads that could be judged, 0 to 1.
        min_coverage: coverage below which there is no verdict.
        lost: how many answers of primaries lacked acknowledged writes.
        lapses: how many reads had no valid proof (`procedure`).
        contradicted: how many WAITs binary logs contradict; 0 if none were given.
        by_word: how many reads lacked only what, by the proxy's word, changed none of their tables.
        dependent: how many of these lacked what they depended on, as binary logs show.
        clock_error_us: by how much clocks were assumed to differ.
        verdicts: rows of `schema.VERDICTS`.
    """

    version: int = VERSION
    tables: int = TABLES_VERSION
    date: str
    judgement: int
    judged_us: int
    duration_s: float
    take: int
    warm_up: str
    exit_code: int
    verdict: str
    explanation: str
    statements: int
    missing: int
    torn: int
    damaged: int
    foreign: int
    reads: int
    promised: int
    ok: int
    violations: int
    not_judged: int
    given_up: int
    understated: int
    coverage: float
    min_coverage: float
    lost: int
    lapses: int
    contradicted: int
    clock_error_us: int
    verdicts: Sequence[Mapping[str, str | int]]
    by_word: int = 0
    dependent: int = 0

    def changes(self, before: "Summary") -> list[str]:
        """Describe the differences between this judgement of the day and the one before it."""
        told = []
        if self.verdict != before.verdict:
            told.append(f"the verdict was “{before.verdict}” and is “{self.verdict}”")
        for name, noun in _COMPARED.items():
            was, now = getattr(before, name), getattr(self, name)
            if was != now:
                told.append(f"{noun}: {was:,}, now {now:,}")
        return told


_COMPARED: Final = {
    "statements": "statements",
    "promised": "reads with a promise",
    "violations": "violations",
    "not_judged": "not judged",
    "given_up": "given up",
    "lost": "answers of primaries that lacked acknowledged writes",
    "lapses": "reads without a valid proof",
    "contradicted": "WAITs that binary logs contradict",
    "by_word": "reads by the proxy's word",
    "dependent": "reads that lacked changes of their tables",
    "missing": "missing records",
    "torn": "torn lines",
    "damaged": "damaged lines",
    "foreign": "foreign lines",
}
"""The fields by which two judgements of a day are compared, and how sentences call them."""


def summarize(
    findings: Findings,
    *,
    day: Day,
    judgement: int,
    judged_us: int,
    duration_s: float,
    take: int,
) -> Summary:
    """Summarize a judgement."""
    faults = dict.fromkeys(("torn", "damaged", "foreign"), 0)
    for row in findings.faults:
        faults[row.text("fault")] += row.number("lines")
    return Summary(
        date=str(day),
        judgement=judgement,
        judged_us=judged_us,
        duration_s=round(duration_s, 3),
        take=take,
        warm_up=str(day.before),
        exit_code=findings.exit_code,
        verdict=findings.verdict,
        explanation=findings.explanation,
        statements=findings.in_runs("statements"),
        missing=findings.in_runs("missing"),
        **faults,
        reads=findings.reads(),
        promised=findings.promised,
        ok=findings.reads(Verdict.OK),
        violations=findings.reads(Verdict.VIOLATION),
        not_judged=findings.reads(Verdict.NOT_JUDGED),
        given_up=findings.reads(Verdict.GIVEN_UP),
        understated=findings.understated,
        coverage=findings.coverage,
        min_coverage=findings.min_coverage,
        lost=len(findings.lost),
        lapses=findings.lapsed,
        contradicted=findings.contradicted,
        by_word=findings.reads(Verdict.BY_WORD),
        dependent=findings.dependent,
        clock_error_us=findings.clock_error_us,
        verdicts=[
            {
                **{name: row.text(name) for name in ("level", "scope", "verdict", "finding")},
                "reads": row.number("reads"),
            }
            for row in findings.verdicts
        ],
    )


class Results:
    """The judgements below one folder."""

    def __init__(self, out: Folder) -> None:
        """Open the audit's folder, which may have no judgement yet.

        Raises:
            OSError: it cannot be read.
        """
        self._days = out / "days"
        self._summaries: defaultdict[Day, dict[int, str]] = defaultdict(dict)
        for name, text in storage.texts(self._days, f"date=*/judgement=*/{_SUMMARY}").items():
            if match := _JUDGEMENT.fullmatch(name):
                with suppress(ValueError):
                    self._summaries[Day.parse(match[1])][int(match[2])] = text

    def days(self) -> list[Day]:
        """The days that have been judged, oldest first."""
        return sorted(self._summaries)

    def next_number(self, day: Day) -> int:
        """The number of a day's next judgement."""
        return 1 + max(self._summaries.get(day, {0: ""}))

    def newest(self, day: Day) -> Summary | None:
        """The summary of a day's newest judgement; None if there is none.

        Raises:
            OSError: its summary cannot be read; the message names it.
        """
        if day not in self._summaries:
            return None
        number, text = max(self._summaries[day].items())
        return read_summary(text, self.place(day, number) / _SUMMARY)

    def place(self, day: Day, number: int) -> Folder:
        """The folder for a day's judgement."""
        return self._days / f"date={day}" / f"judgement={number}"

    def stage(self, day: Day) -> Folder:
        """Make an empty folder for a day's judgement; remains of an audit that died are removed."""
        if isinstance(self._days, Path):
            return storage.emptied(self._days / "_staged")
        return storage.emptied(self.place(day, self.next_number(day)))

    def keep(self, staged: Folder, day: Day, summary: Summary) -> Folder:
        """Move a staged judgement to its place.

        Raises:
            OSError: it cannot be written, or another judgement has this number.
        """
        place = self.place(day, summary.judgement)
        if str(place) != str(staged) and storage.exists(place):
            raise OSError(f"{place} is there already")
        text = json.dumps(asdict(summary), ensure_ascii=False, indent=1) + "\n"
        storage.write_text(staged, _SUMMARY, text)
        storage.put(staged, place)
        self._summaries[day][summary.judgement] = text
        return place


def read_summary(text: str, place: object) -> Summary:
    """Read a judgement's summary.

    Args:
        text: the summary.
        place: where it is.

    Raises:
        OSError: it is none, or has another version; the message names its place.
    """
    try:
        values = json.loads(text)
        if values["version"] != VERSION:
            raise OSError(f"{place} is of version {values['version']}, not {VERSION}.")
        values.setdefault("tables", 1)
        return Summary(**{field.name: values[field.name] for field in fields(Summary)})
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{place} is no summary of a judgement: {error!r}") from error


def told_changes(now: Summary, before: Summary) -> str:
    """A sentence on how a new judgement differs from the one before it."""
    changed = now.changes(before)
    what = "; ".join(changed) if changed else "nothing changed"
    return f"{now.date} was judged {counted(now.judgement - 1, 'time')} before: {what}."

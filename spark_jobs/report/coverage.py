"""Sums up the verdicts by what the reads were promised."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from spark_jobs.findings.findings import OUTSIDE, Findings
from spark_jobs.promise import LEVELS, SCOPES
from spark_jobs.verdict import Finding, Lapse, Verdict

HEADS: Final = {
    Verdict.OK: "Clean",
    Verdict.VIOLATION: "Violations",
    Verdict.BY_WORD: "By the proxy's word",
    Verdict.NOT_JUDGED: "Not judged",
    Verdict.GIVEN_UP: "Stale by policy",
    Verdict.NO_ANSWER: "No answer",
    Verdict.NO_PROMISE: "No promise",
}
"""Column headings for the verdicts."""


class Promise(NamedTuple):
    """The reads of one level and scope.

    Attributes:
        level: their level.
        scope: their scope.
        counts: how many of them were given each verdict.
    """

    level: str
    scope: str
    counts: Counter[str]

    @property
    def reads(self) -> int:
        """How many reads there are."""
        return sum(self.counts.values())

    @property
    def judged(self) -> int:
        """How many were found to be right or wrong."""
        return self.counts[Verdict.OK] + self.counts[Verdict.VIOLATION]

    @property
    def promised(self) -> int:
        """How many were answered by a server and had a promise."""
        return self.reads - sum(self.counts[verdict] for verdict in OUTSIDE)


class Ground(NamedTuple):
    """The reads with one verdict and one finding.

    Attributes:
        verdict: the verdict.
        finding: the reason for it.
        reads: how many reads there are.
    """

    verdict: str
    finding: str
    reads: int


def by_promise(findings: Findings) -> list[Promise]:
    """Sum up the verdicts by level and scope, the weakest first."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in findings.verdicts:
        promise = row.text("level"), row.text("scope")
        counts[promise][row.text("verdict")] += row.number("reads")
    return [Promise(*key, counts[key]) for key in sorted(counts, key=lambda key: place_of(*key))]


def grounds(findings: Findings) -> list[Ground]:
    """Sum up the verdicts by finding, in the order of `Verdict`, the most frequent first."""
    pairs: Counter[tuple[str, str]] = Counter()
    for row in findings.verdicts:
        pairs[row.text("verdict"), row.text("finding")] += row.number("reads")
    order = list(Verdict)
    found = [Ground(*pair, reads) for pair, reads in pairs.items()]
    return sorted(
        found, key=lambda row: (order.index(Verdict(row.verdict)), -row.reads, row.finding)
    )


def not_judged(findings: Findings) -> Sequence[tuple[str, str, str, int]]:
    """Level, scope, finding and number of the reads that were not judged."""
    found = [
        (row.text("level"), row.text("scope"), row.text("finding"), row.number("reads"))
        for row in findings.verdicts
        if row.text("verdict") == Verdict.NOT_JUDGED
    ]
    return sorted(found, key=lambda row: (*place_of(row[0], row[1]), row[2]))


def meaning(finding: str) -> str:
    """The sentence that explains a finding, of a read or of the procedure."""
    return next(
        (verdict_kind.meaning for verdict_kind in (*Finding, *Lapse) if verdict_kind == finding), ""
    )


def place_of(level: str, scope: str) -> tuple[int, int]:
    """The position of a level and a scope in a table; unknown ones come last."""
    places = ((level, LEVELS), (scope, SCOPES))
    first, second = (
        order.index(value) if value in order else len(order) for value, order in places
    )
    return first, second

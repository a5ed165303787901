"""All that one audit found, and the verdict that follows from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Final

from spark_jobs.binlogs.binlog_findings import BinlogFindings
from spark_jobs.findings.incident import Incident
from spark_jobs.markdown import counted, explained, named
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Verdict

CLEAN: Final = 0
VIOLATED: Final = 1
UNDECIDED: Final = 2

SHOWN: Final = 20
"""How many incidents a report shows at most."""

OUTSIDE: Final = (Verdict.NO_PROMISE, Verdict.NO_ANSWER)


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a report tells.

    Attributes:
        log: where the log is, as the operator named it.
        complete: segments that were finished.
        live: segments that were still open.
        unread: files that seem to hold records and could not be read.
        unknown: files of the log that were not taken for segments.
        damaged: why segments could not be read to their ends, by their files' names in the log.
        min_coverage: share of the promised reads that must have been judged for a verdict.
        notes: sentences on how and why this was judged.
        faults: FAULTS.
        runs: RUNS.
        verdicts: VERDICTS.
        lost: LOST.
        incidents: what is wrong, each act once, the gravest first.
        undecided: JUDGED, the first few of each finding that were not judged.
        understated: reads that are ok although the proxy required less than they had to see.
        lag: LAG.
        replication: REPLICATION.
        mix: MIX.
        fallbacks: FALLBACKS.
        errors: ERRORS.
        clocks: CLOCKS.
        scenes: SCENE of the reads of the first SHOWN incidents, and of `undecided`.
        waits: WAITS.
        hours: HOURS.
        replication_hours: REPLICATION_HOURS.
        minutes: MINUTES.
        foregone: FOREGONE.
        growth: GROWTH.
        pinned: PINNED, by digest and user.
        pinned_users: PINNED, by user.
        lapsed: how many reads have no valid proof: rows of PROCEDURE.
        clock_error_us: by how much clocks were assumed to differ, µs.
        binlogs: findings from binary logs; None if none were given.
        unreported: how many transactions primaries came to have that no record names.
    """

    log: str
    complete: int
    live: int
    faults: Sequence[Row]
    runs: Sequence[Row]
    verdicts: Sequence[Row]
    lost: Sequence[Row]
    undecided: Sequence[Row]
    understated: int
    lag: Sequence[Row]
    replication: Sequence[Row]
    mix: Sequence[Row]
    fallbacks: Sequence[Row]
    errors: Sequence[Row]
    unread: Sequence[str] = ()
    unknown: Sequence[str] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)
    min_coverage: float = 1.0
    notes: Sequence[str] = ()
    clocks: Sequence[Row] = ()
    scenes: Sequence[Row] = ()
    waits: Sequence[Row] = ()
    hours: Sequence[Row] = ()
    replication_hours: Sequence[Row] = ()
    minutes: Sequence[Row] = ()
    foregone: Sequence[Row] = ()
    growth: Sequence[Row] = ()
    pinned: Sequence[Row] = ()
    pinned_users: Sequence[Row] = ()
    lapsed: int = 0
    incidents: Sequence[Incident] = ()
    clock_error_us: int = 0
    binlogs: BinlogFindings | None = None
    unreported: int = 0

    def reads(self, *verdicts: Verdict) -> int:
        """Count the reads under these verdicts; all of them if none is named."""
        return sum(
            row.number("reads")
            for row in self.verdicts
            if not verdicts or row.text("verdict") in verdicts
        )

    @property
    def promised(self) -> int:
        """Reads that a server answered and that had been promised to see something."""
        return self.reads() - self.reads(*OUTSIDE)

    @property
    def coverage(self) -> float:
        """Share of the promised reads that could be judged; 1 if there is none."""
        promised = self.promised
        return 1 - self.reads(Verdict.NOT_JUDGED) / promised if promised else 1.0

    @property
    def contradicted(self) -> int:
        """WAITs that binary logs contradict."""
        return 0 if self.binlogs is None else self.binlogs.contradicted

    @property
    def dependent(self) -> int:
        """Reads that were not independent, as binary logs show, though the proxy had said so."""
        return 0 if self.binlogs is None else self.binlogs.dependent

    def in_runs(self, column: str) -> int:
        """Sum a column of RUNS."""
        return sum(row.number(column) for row in self.runs)

    @property
    def obstacles(self) -> list[str]:
        """Why the log cannot be called clean, apart from violations."""
        undecided = self.reads(Verdict.NOT_JUDGED)
        conflicting = self.in_runs("conflicting")
        foreign = sum(row.number("lines") for row in self.faults if row.text("fault") == "foreign")
        told = []
        if not self.in_runs("statements"):
            told.append("The log holds no statement.")
        if self.unread:
            told.append(f"Not read: {named(self.unread)}.")
        if self.damaged:
            told.append(f"Not read to the end: {explained(self.damaged)}.")
        if undecided and self.coverage < self.min_coverage:
            told.append(f"{self._not_judged}.")
        if conflicting:
            told.append(
                f"The log holds {counted(conflicting, 'record')} under a number that another "
                "record has too."
            )
        if foreign:
            told.append(
                f"The log holds {counted(foreign, 'line')} of a version or kind that this audit "
                "does not know."
            )
        return told

    @property
    def _not_judged(self) -> str:
        told = f"Not judged: {counted(self.reads(Verdict.NOT_JUDGED), 'read')}"
        if self.min_coverage == 1:
            return told
        met = "less than" if self.coverage < self.min_coverage else "at least"
        # Cut, not rounded: a share below the bound must not look as if it met the bound.
        share = floor(self.coverage * 1e6) / 1e4
        return f"{told} ({share:g} % were, {met} the {self.min_coverage * 100:g} % asked for)"

    @property
    def exit_code(self) -> int:
        """0 clean; 1 violated, lost, no valid proof or binary logs contradict; 2 undecided."""
        violated = self.reads(Verdict.VIOLATION) or self.lost or self.lapsed
        if violated or self.contradicted or self.dependent:
            return VIOLATED
        return UNDECIDED if self.obstacles else CLEAN

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        violations = self.reads(Verdict.VIOLATION)
        told = [f"{counted(violations, 'read')} may have been stale."] if violations else []
        if self.lost:
            told.append("Acknowledged transactions are lost.")
        if self.lapsed:
            told.append(f"{counted(self.lapsed, 'read')} had no valid proof.")
        if self.contradicted:
            waits = counted(self.contradicted, "WAIT")
            told.append(f"The replicas' binary logs contradict {waits} of the routing log.")
        if self.dependent:
            reads = counted(self.dependent, "read")
            told.append(f"By the binary logs, {reads} lacked changes of their tables.")
        return " ".join(told) or ("No verdict." if self.obstacles else "Clean.")

    @property
    def explanation(self) -> str:
        """The sentences that go with the verdict: what was judged, and what stands in its way."""
        violations, must_see = self.reads(Verdict.VIOLATION), "what it had to see"
        promised = f"{counted(self.promised, 'read')} with a promise"
        if violations:
            told = [f"Of {promised}, {violations:,} met a server not shown to have {must_see}."]
        elif self.obstacles:
            told = ["No violation was found, but the log does not prove that there is none."]
        elif self.promised:
            kept = self.reads(Verdict.OK)
            met = "every one" if kept == self.promised else f"{kept:,}"
            told = [f"Of {promised}, {met} met a server that was shown to have {must_see}."]
        else:
            told = ["No read had a promise."]
        if by_word := self.reads(Verdict.BY_WORD):
            told.append(
                f"{counted(by_word, 'read')} lacked only what, by the proxy's word, changed none "
                "of their tables."
            )
        if self.reads(Verdict.NOT_JUDGED) and self.coverage >= self.min_coverage:
            told.append(f"{self._not_judged}.")
        if self.binlogs is not None and self.contradicted:
            told.append(self.binlogs.contradiction)
        if self.binlogs is not None and self.dependent:
            told.append(self.binlogs.dependence)
        return " ".join([*told, *self.obstacles])

    @property
    def remarks(self) -> list[str]:
        """Counts that do not change the verdict."""
        told = []
        if given_up := self.reads(Verdict.GIVEN_UP):
            told.append(
                f"Answered as stale, as the policy `stale` allows: {counted(given_up, 'read')}."
            )
        if self.binlogs is not None:
            told.append(" ".join(self.binlogs.sentences))
        return told

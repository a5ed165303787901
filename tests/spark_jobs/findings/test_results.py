"""Judgements of days are kept, whole or not at all, and none is written over."""

import dataclasses
from pathlib import Path

import pytest

from spark_jobs.binlogs.binlog_findings import BinlogFindings
from spark_jobs.day import Day
from spark_jobs.findings.findings import CLEAN, UNDECIDED, VIOLATED, Findings
from spark_jobs.findings.results import Results, Summary, read_summary, summarize, told_changes
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Finding, Verdict

DAY = Day.parse("2026-11-30")


def verdict(verdict: Verdict, finding: Finding, reads: int) -> Row:
    promise = {"level": "READ_OWN_WRITES", "scope": "connection"}
    return Row(promise | {"verdict": verdict.value, "finding": finding.value, "reads": reads})


def findings(*verdicts: Row, min_coverage: float = 1.0) -> Findings:
    run = {"statements": 5000, "missing": 2, "conflicting": 0}
    faults = [
        Row({"file": "a.jsonl", "fault": "torn", "lines": 1}),
        Row({"file": "b.jsonl", "fault": "torn", "lines": 1}),
        Row({"file": "b.jsonl", "fault": "damaged", "lines": 4}),
    ]
    return Findings(
        log="log",
        complete=1,
        live=0,
        faults=faults,
        runs=[Row(run)],
        verdicts=verdicts,
        lost=[],
        undecided=[],
        understated=0,
        lag=[],
        replication=[],
        mix=[],
        fallbacks=[],
        errors=[],
        min_coverage=min_coverage,
    )


KEPT = verdict(Verdict.OK, Finding.WAITED, 1998)
BROKEN = verdict(Verdict.VIOLATION, Finding.KNOWN_TOO_SMALL, 1)
OPEN = verdict(Verdict.NOT_JUDGED, Finding.UNBACKED, 2)
UNPROMISED = verdict(Verdict.NO_PROMISE, Finding.BEST_EFFORT, 500)


def summary(of: Findings, judgement: int = 1) -> Summary:
    return summarize(
        of,
        day=DAY,
        judgement=judgement,
        judged_us=DAY.end_us,
        duration_s=1.5,
        take=3,
    )


def summary_of(folder: Path) -> Summary:
    return read_summary((folder / "summary.json").read_text(), folder)


def keep(results: Results, of: Findings) -> Path:
    staged = results.stage(DAY)
    assert isinstance(staged, Path)
    (staged / "report.md").write_text(of.verdict)
    kept = results.keep(staged, DAY, summary(of, results.next_number(DAY)))
    assert isinstance(kept, Path)
    return kept


def test_judgements_of_a_day_stand_side_by_side(tmp_path: Path) -> None:
    results = Results(tmp_path)
    assert (results.days(), results.newest(DAY)) == ([], None)
    first = keep(results, findings(KEPT))
    second = keep(results, findings(KEPT, BROKEN))
    assert first == tmp_path / "days" / "date=2026-11-30" / "judgement=1"
    assert (first / "report.md").read_text() == "Clean."
    assert (second / "report.md").read_text() == "1 read may have been stale."
    assert second == first.with_name("judgement=2")
    assert results.days() == [DAY]
    newest = results.newest(DAY)
    assert newest is not None
    assert (newest.judgement, newest.violations) == (2, 1)
    assert summary_of(first).violations == 0


def test_reads_without_a_valid_proof_are_among_the_figures() -> None:
    kept = summary(findings(KEPT))
    lapsed = summary(dataclasses.replace(findings(KEPT), lapsed=1203))
    assert (kept.lapses, lapsed.lapses) == (0, 1203)
    assert "reads without a valid proof: 0, now 1,203" in lapsed.changes(kept)


def test_what_binary_logs_contradict_is_among_the_figures() -> None:
    nothing = {"files": 0, "faults": 0, "unreported": 0}
    found = BinlogFindings(
        transactions=0,
        contradicted=2,
        first_faults=[],
        first_unreported=[],
        first_contradicted=[],
        **nothing,
    )
    kept = summary(findings(KEPT))
    lied = summary(dataclasses.replace(findings(KEPT), binlogs=found))
    assert (kept.contradicted, lied.contradicted) == (0, 2)
    assert "WAITs that binary logs contradict: 0, now 2" in lied.changes(kept)


def test_the_tenth_judgement_is_newer_than_the_ninth(tmp_path: Path) -> None:
    results = Results(tmp_path)
    for _ in range(10):
        keep(results, findings(KEPT))
    newest = Results(tmp_path).newest(DAY)
    assert newest is not None
    assert (newest.judgement, results.next_number(DAY)) == (10, 11)


def test_what_an_audit_left_half_done_is_no_judgement(tmp_path: Path) -> None:
    results = Results(tmp_path)
    (results.stage(DAY) / "report.md").write_text("half")
    assert (results.days(), results.newest(DAY)) == ([], None)
    assert list(results.stage(DAY).iterdir()) == []


def test_a_judgement_is_never_written_over(tmp_path: Path) -> None:
    results = Results(tmp_path)
    kept = keep(results, findings(KEPT))
    staged = results.stage(DAY)
    with pytest.raises(OSError, match="judgement=1"):
        results.keep(staged, DAY, summary(findings(BROKEN)))
    assert (kept / "report.md").read_text() == "Clean."


def test_other_folders_are_no_days(tmp_path: Path) -> None:
    keep(Results(tmp_path), findings(KEPT))
    for name in ("days/date=2026-11-31/judgement=1", "days/date=2026-12-01/notes", "days/x"):
        (tmp_path / name).mkdir(parents=True)
    assert Results(tmp_path).days() == [DAY]


def test_a_summary_has_the_figures(tmp_path: Path) -> None:
    kept = keep(Results(tmp_path), findings(KEPT, BROKEN, OPEN, UNPROMISED))
    found = summary_of(kept)
    assert (found.date, found.warm_up, found.take, found.exit_code) == (
        *("2026-11-30", "2026-11-29", 3),
        VIOLATED,
    )
    assert (found.reads, found.promised, found.ok, found.violations) == (2501, 2001, 1998, 1)
    assert (found.not_judged, found.torn, found.damaged, found.foreign) == (2, 2, 4, 0)
    assert found.coverage == pytest.approx(1999 / 2001)
    assert found.verdicts[1] == {
        "level": "READ_OWN_WRITES",
        "scope": "connection",
        "verdict": "violation",
        "finding": "known set too small",
        "reads": 1,
    }


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', '{"version": 1}'])
def test_a_summary_that_is_none_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    kept = keep(Results(tmp_path), findings(KEPT))
    (kept / "summary.json").write_text(text)
    with pytest.raises(OSError, match=r"judgement=1/summary\.json is"):
        Results(tmp_path).newest(DAY)


def test_what_a_later_judgement_says_otherwise_is_told() -> None:
    before = summary(findings(KEPT))
    assert told_changes(dataclasses.replace(before, judgement=2, judged_us=7), before) == (
        "2026-11-30 was judged 1 time before: nothing changed."
    )
    assert told_changes(summary(findings(KEPT, BROKEN), 3), before) == (
        "2026-11-30 was judged 2 times before: the verdict was “Clean.” and is “1 read may have "
        "been stale.”; reads with a promise: 1,998, now 1,999; violations: 0, now 1."
    )


@pytest.mark.parametrize(
    ("verdicts", "min_coverage", "exit_code", "told"),
    [
        ((KEPT, OPEN), 1.0, UNDECIDED, "there is none. Not judged: 2 reads."),
        (
            (KEPT, OPEN),
            0.9995,
            UNDECIDED,
            "there is none. Not judged: 2 reads (99.9 % were, less than the 99.95 % asked for).",
        ),
        (
            (KEPT, OPEN),
            0.999,
            CLEAN,
            "Of 2,000 reads with a promise, 1,998 met a server that was shown to have what it had "
            "to see. Not judged: 2 reads (99.9 % were, at least the 99.9 % asked for).",
        ),
        # Reads without a promise do not make up for those that have one.
        ((KEPT, OPEN, UNPROMISED), 0.9991, UNDECIDED, "less than the 99.91 % asked for)."),
        ((BROKEN, KEPT), 0.0, VIOLATED, "met a server not shown to have what it had to see."),
        ((UNPROMISED,), 1.0, CLEAN, "No read had a promise."),
        ((OPEN,), 0.0, CLEAN, "Not judged: 2 reads (0 % were, at least the 0 % asked for)."),
    ],
)
def test_coverage_decides_whether_there_is_a_verdict(
    verdicts: tuple[Row, ...], min_coverage: float, exit_code: int, told: str
) -> None:
    found = findings(*verdicts, min_coverage=min_coverage)
    assert found.exit_code == exit_code
    assert found.explanation.endswith(told)

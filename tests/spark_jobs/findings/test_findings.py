"""What an audit's findings come to."""

import pytest

from spark_jobs.tables.row import Row
from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.found import findings, lost, run, verdict


@pytest.mark.parametrize(
    ("parts", "code", "told"),
    [
        (
            {"verdicts": [verdict(Verdict.VIOLATION, Finding.NO_PROOF, 1)]},
            1,
            "1 read may have been stale. Of 1 read with a promise, 1 met a server not shown to "
            "have what it had to see.",
        ),
        (
            {
                "verdicts": [
                    verdict(Verdict.OK, Finding.KNOWN, 5),
                    verdict(Verdict.NOT_JUDGED, Finding.UNBACKED, 2),
                ]
            },
            2,
            "No verdict. No violation was found, but the log does not prove that there is none. "
            "Not judged: 2 reads.",
        ),
        (
            {
                "verdicts": [
                    verdict(Verdict.NO_PROMISE, Finding.BEST_EFFORT, 5),
                    verdict(Verdict.NO_ANSWER, Finding.NO_SERVER, 5),
                ]
            },
            0,
            "Clean. No read had a promise.",
        ),
        (
            {
                "verdicts": [
                    verdict(Verdict.OK, Finding.KNOWN, 5),
                    verdict(Verdict.GIVEN_UP, Finding.STALE_POLICY, 2),
                ]
            },
            0,
            "Clean. Of 7 reads with a promise, 5 met a server that was shown to have what it had "
            "to see.",
        ),
        ({"runs": [run(statements=0)], "verdicts": []}, 2, "No verdict."),
        ({"runs": [run(conflicting=1)]}, 2, "1 record under a number"),
        ({"faults": [Row({"file": "f", "fault": "foreign", "lines": 3})]}, 2, "3 lines of a"),
        (
            {"lost": [lost()]},
            1,
            "Acknowledged transactions are lost. Of 1,000 reads with a promise, every",
        ),
        (
            {
                "lost": [lost()],
                "verdicts": [verdict(Verdict.VIOLATION, Finding.NO_PROOF, 2)],
            },
            1,
            "2 reads may have been stale. Acknowledged transactions are lost. Of 2 reads with a "
            "promise, 2 met",
        ),
        ({"faults": [Row({"file": "f", "fault": "torn", "lines": 3})]}, 0, "Clean."),
        ({"faults": [Row({"file": "f", "fault": "damaged", "lines": 3})]}, 0, "Clean."),
        ({"runs": [run(missing=9, declared=9, repeated=4)]}, 0, "Clean."),
    ],
)
def test_the_verdict(parts: dict[str, object], code: int, told: str) -> None:
    found = findings(**parts)
    assert found.exit_code == code
    assert told in f"{found.verdict} {found.explanation}"


def test_counts_that_inform_are_no_part_of_the_verdict() -> None:
    found = findings(
        verdicts=[
            verdict(Verdict.OK, Finding.KNOWN, 96),
            verdict(Verdict.GIVEN_UP, Finding.STALE_POLICY, 3),
            verdict(Verdict.NOT_JUDGED, Finding.UNBACKED, 1),
        ],
        min_coverage=0.9,
        notes=["Unreported writes: 3 transactions."],
    )
    assert (found.exit_code, found.verdict) == (0, "Clean.")
    assert found.explanation.endswith("(99 % were, at least the 90 % asked for).")
    assert found.remarks == ["Answered as stale, as the policy `stale` allows: 3 reads."]


def test_every_finding_means_something() -> None:
    for finding in Finding:
        assert finding.meaning.endswith(".")
        assert str(finding) == finding.value

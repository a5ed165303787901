"""The summary, without Spark."""

import re

from spark_jobs.findings import Findings
from spark_jobs.report import summary
from spark_jobs.row import Row
from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.found import GTID, findings, lost, read, run, verdict


def render(found: Findings) -> str:
    return summary.render(found, "/log/_audit/report.html")


def test_a_clean_night_says_so_first() -> None:
    clean = findings()
    assert clean.exit_code == 0
    assert render(clean).startswith(
        "# Tidegate audit\n"
        "\n"
        "**Clean.** Of 1,000 reads with a promise, every one met a server that was shown to have "
        "what it had to see.\n"
        "\n"
        "The log `/log`, from 1970-01-01 00:00:00 to 1970-01-01 23:59:59 UTC: 1,200 statements in "
        "1 run.\n"
    )
    assert render(clean).endswith("\n\nThe whole report: `/log/_audit/report.html`\n")


def test_the_first_counter_example_of_each_finding_is_told() -> None:
    found = findings(
        verdicts=[
            verdict(Verdict.VIOLATION, Finding.KNOWN_TOO_SMALL, 1234),
            verdict(Verdict.VIOLATION, Finding.NO_PROOF, 1),
        ],
        violations=[
            read(Finding.KNOWN_TOO_SMALL),
            read(Finding.KNOWN_TOO_SMALL, seq=10),
            read(Finding.NO_PROOF, seq=11),
        ],
        undecided=[read(Finding.UNNAMED_WRITE, missing=None, missed=[], shown=None)],
    )
    report = render(found)
    assert (
        "The first of 1,234, known set too small:\n"
        "\n"
        "```text\n"
        "1970-01-01 00:00:01.002500  session 7, statement 3  (gate, worker 0, run a1, seq 9)\n"
        "  read      00ff by app, answered by r1:3306 (replica): read, proof known\n"
        "  promised  READ_OWN_WRITES, scope connection\n"
        "  finding   known set too small\n"
        f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by no digest (seq 4)\n"
        f"  missing   {GTID}:7\n"
        "  required  unknown (the proxy's word)\n"
        "  shown     nothing\n"
        "```\n"
        "\n"
        "No proof:\n"
    ) in report
    assert "seq 10" not in report
    assert "unnamed write" not in report


def test_verdicts_are_counted_by_level_and_scope() -> None:
    proxy = ("READ_ALL_WRITES", "proxy")
    report = render(
        findings(
            verdicts=[
                verdict(Verdict.NOT_JUDGED, Finding.UNBACKED, 3, *proxy),
                verdict(Verdict.OK, Finding.KNOWN, 1000),
                verdict(Verdict.OK, Finding.WAITED, 10, *proxy),
                verdict(Verdict.VIOLATION, Finding.NO_PROOF, 2, *proxy),
                verdict(Verdict.GIVEN_UP, Finding.STALE_POLICY, 4, *proxy),
                verdict(Verdict.OK, Finding.WAITED, 5),
                verdict(Verdict.NO_PROMISE, Finding.BEST_EFFORT, 6, "BEST_EFFORT", "galaxy"),
            ]
        )
    )
    assert (
        "| BEST_EFFORT | galaxy | 6 | 0 | 0 | 0 | 0 | 0 | 0 | 6 |\n"
        "| READ_OWN_WRITES | connection | 1,005 | 1,005 | 1,005 | 0 | 0 | 0 | 0 | 0 |\n"
        "| READ_ALL_WRITES | proxy | 19 | 12 | 10 | 2 | 3 | 4 | 0 | 0 |\n"
    ) in report
    assert "| READ_ALL_WRITES | proxy | unbacked | 3 |\n" in report


def test_what_is_lost_is_told() -> None:
    report = render(findings(lost=[lost()] * 30))
    assert (
        "The first of 30, acknowledged and lost:\n"
        "\n"
        "```text\n"
        f"1970-01-01 00:00:01.002500  primary {GTID}  (gate, worker 0, run a1, seq 9)\n"
        f"  lost      {GTID}:7\n"
        f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by no digest (session 7, run a1, "
        "seq 4)\n"
        "```\n"
    ) in report
    assert "ost:" not in render(findings())


def test_what_is_wrong_with_the_log_is_told_in_a_line() -> None:
    faults = [("a.jsonl", "torn", 1), ("b.jsonl", "torn", 2), ("b.jsonl", "damaged", 1000)]
    rows = [Row(dict(zip(("file", "fault", "lines"), fault, strict=True))) for fault in faults]
    report = render(findings(faults=rows, runs=[run(missing=2)], unknown=("n`.txt",)))
    assert (
        "Missing from the log: 2 records. Lines that are no record: 1,003 in 2 files. Not taken "
        "for segments: `` n`.txt ``.\n"
    ) in report


def test_what_a_log_says_is_nothing_but_text() -> None:
    hostile = "```\n# x\x1b[2J|<script>alert(1)</script>"
    report = render(
        findings(
            log=hostile,
            verdicts=[verdict(Verdict.VIOLATION, Finding.NO_PROOF, 1, hostile, hostile)],
            violations=[read(Finding.NO_PROOF, user=hostile, digest=hostile, level=hostile)],
            lost=[lost(server_uuid=hostile)],
        )
    )
    assert "\x1b" not in report
    assert [line for line in report.splitlines() if line.startswith("#")] == ["# Tidegate audit"]
    fences = [line for line in report.splitlines() if line.startswith("```")]
    assert [line for line in fences if line.strip("`")] == ["```text", "```text"]
    assert len(fences) == 4
    (row,) = (line for line in report.splitlines() if r"\<script\>" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 11
    outside = re.sub(r"```text.*?^```$|(`+) .*? \1", "", report, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<!\\)<", outside)

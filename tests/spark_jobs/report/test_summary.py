"""The summary, without Spark."""

import re
from collections import Counter

from spark_jobs.findings.findings import Findings
from spark_jobs.findings.incident import Failover
from spark_jobs.gtid import parse
from spark_jobs.report import summary
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.found import GTID, findings, incident, lost, read, run, verdict


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


def test_an_incident_is_told_once_with_its_first_read() -> None:
    report = render(
        findings(
            verdicts=[verdict(Verdict.VIOLATION, Finding.KNOWN_TOO_SMALL, 1234)],
            incidents=[incident(reads=1234, until_us=61_002_500, users=Counter(app=1234))],
            undecided=[read(Finding.UNNAMED_WRITE, missing=None, missed=[], shown=None)],
        )
    )
    assert (
        "**r1:3306 answered reads, and was not known to have the transactions that they had to "
        "see.** 1,234 reads may have been stale, from 1970-01-01 00:00:01 to 00:01:01 UTC. Users: "
        "app (1,234).\n"
        "\n"
        f"Next: Run SELECT GTID\\_SUBSET('{GTID}:7', @@GLOBAL.gtid\\_executed) on r1:3306. "
    ).replace("\\_", "_") in report
    assert (
        "```text\n"
        "1970-01-01 00:00:01.002500  session 7, statement 3\n"
        '  log       proxy gate, worker 0: "run":"a1","seq":9,\n'
        "  read      00ff by app, answered by r1:3306 (replica): read, proof known\n"
        "  promised  READ_OWN_WRITES, scope connection\n"
        "  finding   known set too small\n"
        f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by no digest (record 4)\n"
        f"  missing   {GTID}:7\n"
        "  required  unknown (by the proxy's own account)\n"
        "  shown     nothing\n"
        "```\n"
    ) in report
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
    gone = incident(
        Failover.LOST,
        culprit="old:3306",
        successor="new:3306",
        reads=0,
        lost=parse(f"{GTID}:7"),
        loss=lost(),
    )
    report = render(findings(lost=[lost()] * 30, incidents=[gone]))
    assert (
        "**new:3306 became the primary without transactions that old:3306 had acknowledged.** 1 "
        "acknowledged transaction is lost, at 1970-01-01 00:00:01 UTC. Users, at least: app (1)."
    ) in report
    assert (
        "```text\n"
        f"1970-01-01 00:00:01.002500  primary {GTID} was asked for its gtid_executed\n"
        '  log       proxy gate, worker 0: "run":"a1","seq":9,\n'
        f"  lost      {GTID}:7\n"
        f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by no digest (session 7, run a1, "
        "record 4)\n"
        "```\n"
    ) in report
    assert report.count("  lost      ") == 1
    assert "lost" not in render(findings())


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
            incidents=[
                incident(
                    culprit=hostile,
                    users=Counter({hostile: 1}),
                    read=read(Finding.NO_PROOF, user=hostile, digest=hostile, level=hostile),
                ),
                incident(
                    Failover.LOST,
                    successor=hostile,
                    lost=parse(f"{GTID}:7"),
                    loss=lost(server_uuid=hostile),
                ),
            ],
            notes=[],
        )
    )
    assert "\x1b" not in report
    assert [line for line in report.splitlines() if line.startswith("#")] == ["# Tidegate audit"]
    fences = [line for line in report.splitlines() if line.startswith("```")]
    assert [line for line in fences if line.strip("`")] == ["```text", "```text"]
    assert len(fences) == 4
    (row,) = (line for line in report.splitlines() if line[:2] == "| " and "script" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 11
    outside = re.sub(r"```text.*?^```$|(`+) .*? \1", "", report, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<!\\)<", outside)

"""The report, without Spark."""

import re

import pytest

from spark_jobs.counter_example import counter_example
from spark_jobs.findings import Findings, Row
from spark_jobs.markdown import brief, counted, moment, span, table
from spark_jobs.report import render
from spark_jobs.verdict import Finding, Verdict

GTID = "168066ae-e53d-11f1-b607-02fc00000001"


def run(**columns: object) -> Row:
    plain = {"proxy": "gate", "worker": 0, "run": "a1", "statements": 1200, "proofs": 3, "gaps": 0}
    numbers = {"first_seq": 1, "last_seq": 1203, "missing": 0, "declared": 0}
    more = {"repeated": 0, "conflicting": 0, "from_us": 0, "to_us": 86_400_000_000 - 1}
    return Row(plain | numbers | more | columns)


def verdict(
    verdict: Verdict,
    finding: Finding,
    reads: int,
    level: str = "READ_OWN_WRITES",
    scope: str = "connection",
) -> Row:
    promise = {"level": level, "scope": scope}
    return Row(promise | {"verdict": verdict.value, "finding": finding.value, "reads": reads})


def missed(how: str = "wrote", **columns: object) -> dict[str, object]:
    plain = {"how": how, "run": "a1", "session": 7, "seq": 4, "ended_us": 1_000_000}
    return plain | {"digest": None, "gtids": f"{GTID}:7"} | columns


def read(finding: Finding, **columns: object) -> Row:
    plain: dict[str, object] = {
        "proxy": "gate",
        "worker": 0,
        "run": "a1",
        "session": 7,
        "seq": 9,
        "ordinal": 3,
        "arrived_us": 1_002_500,
        "user": "app",
        "digest": "00ff",
        "server": "r1:3306",
        "role": "replica",
        "reason": "read",
        "proof": "known",
        "finding": finding.value,
        "claimed": None,
        "shown": "",
        "missing": f"{GTID}:7",
        "missed": [missed()],
        "level": "READ_OWN_WRITES",
        "scope": "connection",
        "bound_us": None,
    }
    return Row(plain | columns)


def lost(**columns: object) -> Row:
    plain = {"proxy": "gate", "worker": 0, "run": "a1", "seq": 9, "server_uuid": GTID}
    writes = {"asked_us": 1_002_500, "gtids": f"{GTID}:7", "writes": [missed()]}
    return Row(plain | writes | columns)


def findings(**parts: object) -> Findings:
    empty = (
        "faults",
        "lost",
        "violations",
        "undecided",
        "lag",
        "replication",
        "mix",
        "fallbacks",
        "errors",
    )
    plain: dict[str, object] = {name: [] for name in empty}
    plain |= {"log": "/log", "complete": 1, "live": 0, "understated": 0, "runs": [run()]}
    plain |= {"verdicts": [verdict(Verdict.OK, Finding.KNOWN, 1000)]}
    return Findings(**(plain | parts))  # type: ignore[arg-type]  # assembled by name


def test_a_clean_night_says_so_first() -> None:
    clean = findings()
    assert clean.exit_code == 0
    assert render(clean).startswith(
        "# Tidegate audit\n"
        "\n"
        "**Clean.** Of 1,000 reads with a promise, every one met a server that was shown to have "
        "what it had to see.\n"
        "\n"
        "`/log` from 1970-01-01 00:00:00.000000 to 1970-01-01 23:59:59.999999 UTC: 1,200 "
        "statements in 1 run.\n"
    )


@pytest.mark.parametrize(
    ("parts", "code", "told"),
    [
        (
            {"verdicts": [verdict(Verdict.VIOLATION, Finding.NO_PROOF, 1)]},
            1,
            "1 violation. Of 1 read with a promise, 1 met a server not shown to have what it had "
            "to see.",
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
            "to see. Given up openly, by the policy `stale`: 2.",
        ),
        ({"runs": [run(statements=0)], "verdicts": []}, 2, "No verdict."),
        ({"runs": [run(conflicting=1)]}, 2, "1 record under a number"),
        ({"faults": [Row({"file": "f", "fault": "foreign", "lines": 3})]}, 2, "3 lines of a"),
        (
            {"lost": [lost()]},
            1,
            "Acknowledged writes are lost. Of 1,000 reads with a promise, every",
        ),
        (
            {
                "lost": [lost()],
                "verdicts": [verdict(Verdict.VIOLATION, Finding.NO_PROOF, 2)],
            },
            1,
            "2 violations. Acknowledged writes are lost. Of 2 reads with a promise, 2 met",
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


def test_a_counter_example_names_the_write_and_the_gtids() -> None:
    found = findings(
        verdicts=[verdict(Verdict.VIOLATION, Finding.KNOWN_TOO_SMALL, 1)],
        violations=[read(Finding.KNOWN_TOO_SMALL)],
        undecided=[read(Finding.UNNAMED_WRITE, missing=None, missed=[], shown=None)],
    )
    report = render(found)
    assert (
        "### Known set too small\n"
        "\n"
        "The applied set that the proxy relied on does not cover what the read had to see.\n"
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
    ) in report
    assert report.index("## Counter-examples") < report.index("## Not judged")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (missed(), f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by no digest (seq 4)\n"),
        (
            missed(session=8, digest="0f"),
            f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by 0f (session 8, seq 4)\n",
        ),
        (
            missed("saw", run="b2"),
            f"  saw       {GTID}:7, answered 2.50 ms earlier by no digest (session 7, run b2, "
            "seq 4)\n",
        ),
        (missed("had"), f"  had       {GTID}:7, told by the primary 2.50 ms earlier (seq 4)\n"),
        (
            missed("had", run="b2", session=0),
            f"  had       {GTID}:7, told by the primary 2.50 ms earlier (run b2, seq 4)\n",
        ),
    ],
)
def test_a_counter_example_tells_who_named_what_is_missing(
    source: dict[str, object], told: str
) -> None:
    assert told in counter_example(read(Finding.KNOWN_TOO_SMALL, missed=[source]))


@pytest.mark.parametrize(
    ("promise", "told"),
    [
        ({"level": "MONOTONIC_READS", "scope": "user"}, "MONOTONIC_READS, scope user"),
        ({"level": "STRONG", "scope": "user"}, "STRONG"),
        ({"level": "BOUNDED_STALENESS", "bound_us": 2500}, "BOUNDED_STALENESS of 2.50 ms"),
        ({"level": "BOUNDED_STALENESS"}, "BOUNDED_STALENESS, scope connection"),
    ],
)
def test_a_counter_example_tells_the_promise(promise: dict[str, object], told: str) -> None:
    assert f"  promised  {told}\n" in counter_example(read(Finding.NO_PROOF, **promise))


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
    assert "| ok | waited | 15 | " in report


def test_what_is_lost_is_told() -> None:
    report = render(findings(lost=[lost()]))
    assert (
        "## Acknowledged and lost\n"
        "\n"
        "Clients were told that these transactions had committed, and a later primary does not "
        "have them. That is no fault of the reads: from then on, they are not held to see them.\n"
        "\n"
        "```text\n"
        f"1970-01-01 00:00:01.002500  primary {GTID}  (gate, worker 0, run a1, seq 9)\n"
        f"  lost      {GTID}:7\n"
        f"  wrote     {GTID}:7, acknowledged 2.50 ms earlier by no digest (session 7, run a1, "
        "seq 4)\n"
        "```\n"
    ) in report
    assert "The first 20 of 30 times" in render(findings(lost=[lost()] * 30))
    assert "Acknowledged and lost" not in render(findings())


def test_only_runs_with_something_to_tell_are_listed_when_there_are_many() -> None:
    runs = [run(run=f"run{number}") for number in range(30)]
    assert "run29" in render(findings(runs=[*runs[:1], run(run="run29")]))
    report = render(findings(runs=[*runs, run(run="odd", missing=2)]))
    assert "| odd |" in report
    assert "run29" not in report
    assert "31 runs; these have something to tell" in report
    assert "Missing from the log: 2 records." in report


def test_every_table_is_one() -> None:
    quantiles = {"p50": 1, "p95": 2_000, "p99": 30_000, "max": 4_000_000}
    lag = {"server": "r1:3306", "proof": "waited", "reads": 9, "after_write": 9}
    for name, value in quantiles.items():
        lag |= {f"wait_{name}_us": value, f"since_write_{name}_us": value}
    replication = {"server": "r1:3306", "channel": "", "source": GTID, "transactions": 5}
    replication |= {"disordered": 1, "waits_max_us": 5_000_000}
    for part in ("end_to_end", "last_hop", "upstream", "apply"):
        replication |= {f"{part}_{name}_us": value for name, value in quantiles.items()}
    mix = {"value": "a|b", "statements": 9, "share": 0.5, "errors": 0, "lost": 0}
    mix |= {f"{name}_us": value for name, value in quantiles.items()}
    trouble = {"server": "r1:3306", "reason": "wait_timeout", "statements": 3}
    report = render(
        findings(
            verdicts=[verdict(Verdict.OK, finding, 1) for finding in Finding],
            lost=[lost()],
            understated=3,
            lag=[Row(lag)],
            replication=[Row(replication), Row(replication | {"waits_max_us": None})],
            mix=[Row(mix | {"dimension": name}) for name in ("level", "role")],
            fallbacks=[Row(trouble)],
            errors=[
                Row({"outcome": "error", "error_code": 1062, "role": "primary", "statements": 1})
            ],
            faults=[Row({"file": "date=x/y.jsonl", "fault": "torn", "lines": 1})],
        )
    )
    assert "| r1:3306 | waited | 9 | 1 µs | 2.00 ms | 30.0 ms | 4.00 s |" in report
    assert "| error | 1062 | primary | 1 |" in report
    assert "Lucky: 3" in report
    assert "2 transactions had an original commit that is newer" in report
    for block in re.findall(r"(?:^\|.*\n)+", report, re.MULTILINE):
        lines = block.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, block
        assert re.fullmatch(r"\|( ---:? \|)+", lines[1])
        assert len(lines) > 2
    assert not re.search(r"\n{3}| \n|None|\{|\}", report)
    assert report.endswith(".\n")


def test_every_finding_means_something() -> None:
    for finding in Finding:
        assert finding.meaning.endswith(".")
        assert str(finding) == finding.value


@pytest.mark.parametrize(
    ("microseconds", "told"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1_000, "1.00 ms"),
        (-1_500, "-1.50 ms"),
        (99_960, "100 ms"),
        (999_499, "999 ms"),
        (999_500, "1.00 s"),
        (59_940_000, "59.9 s"),
        (3_600_000_000, "3,600 s"),
    ],
)
def test_a_span_has_three_digits_and_a_unit(microseconds: int, told: str) -> None:
    assert span(microseconds) == told


def test_small_words() -> None:
    assert (counted(0, "read"), counted(1, "read"), counted(2000, "read")) == (
        "0 reads",
        "1 read",
        "2,000 reads",
    )
    assert moment(1_795_996_800_000_001) == "2026-11-30 00:00:00.000001"
    assert brief("x" * 200) == "x" * 200
    assert brief("x" * 201) == "x" * 200 + "…"
    rows = [("x|y", 1000, "5.0%", "10.0.0.1:3306"), ("z\n", -2, "1.00 ms", "10.0.0.2:3306")]
    assert table(("a", "b", "c", "d"), rows) == (
        "| a | b | c | d |\n| --- | ---: | ---: | --- |\n"
        "| x\\|y | 1,000 | 5.0% | 10.0.0.1:3306 |\n| z  | -2 | 1.00 ms | 10.0.0.2:3306 |"
    )
    with pytest.raises(TypeError):
        Row({"a": None}).text("a")
    with pytest.raises(TypeError):
        Row({"a": "1"}).number("a")
    with pytest.raises(TypeError):
        Row({"a": 1}).share("a")
    with pytest.raises(TypeError):
        Row({"a": None}).rows("a")

"""The page: what it shows, and that it is whole, safe and by itself."""

import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from spark_jobs.binlogs.binlog_findings import BinlogFindings
from spark_jobs.findings.findings import Findings
from spark_jobs.findings.incident import Failover
from spark_jobs.gtid import parse
from spark_jobs.report import page
from spark_jobs.report.table import Table
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.found import (
    GTID,
    findings,
    incident,
    lost,
    missed,
    read,
    run,
    scene,
    summary,
    verdict,
)

HOSTILE = "\"><script>alert('x')</script><img src=http://x.example/>\u202e\x1b[2J&amp;'"
HARMLESS = "r" * len(HOSTILE)
VOID = {"meta", "line", "circle"}
QUANTILES = {"p50": 1, "p95": 2_000, "p99": 30_000, "max": 4_000_000}


class Reader(HTMLParser):
    """Checks that elements nest, and keeps what there is."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += f"{data.strip()} " if data.strip() else ""


def looked_at(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def full(name: str = "r1:3306") -> Findings:
    """With a row in every table; what comes from the log is `name`."""
    lag = {"server": name, "proof": "waited", "reads": 9, "after_write": 9}
    replication = {"server": name, "channel": name, "source": name, "transactions": 5}
    replication |= {"disordered": 1, "waits_max_us": 5_000_000}
    mix = {"value": name, "statements": 9000, "share": 0.5, "errors": 0, "lost": 0}
    for which, value in QUANTILES.items():
        lag |= {f"wait_{which}_us": value, f"since_write_{which}_us": value}
        mix |= {f"{which}_us": value}
        for part in ("end_to_end", "last_hop", "upstream", "apply"):
            replication |= {f"{part}_{which}_us": value}
    times = {"hour_us": 0, "minute_us": 0, "server": name, "level": name, "channel": name}
    many = dict.fromkeys(("reads", "waited", "fell_back", "writes", "exposed", "late", "sets"), 7)
    many |= dict.fromkeys(("sources", "tags", "intervals", "bytes", "on_primary", "kept"), 1234)
    names = ("wait", "fallback", "since_write", "end_to_end", "last_hop", "upstream", "apply")
    names += ("age", "probe", "lag", "strong")
    spans = {f"{part}_{which}_us": 5_000 for part in names for which in (*QUANTILES, "total")}
    written = {"writes": 3, "digest": name, "schema": name, "user": name}
    wide = Row(
        times | many | spans | {"digest": name, "user": name, "reason": name, "total_us": 9_000}
        | {"what": name, "role": name, "source": name, "transactions": 5, "written": [written]}
    )  # fmt: skip
    clock = {"proxy": name, "worker": 0, "run": name, "from_seq": 9, "back_us": 7_000}
    clock |= {"ahead_us": 3_000, "error_us": 150}
    example = incident(
        culprit=name,
        users=Counter({name: 1}),
        applications=Counter({name: 1}),
        servers=Counter({"r1": 1, name: 1}),
        read=read(
            Finding.KNOWN_TOO_SMALL,
            user=name,
            digest=name,
            server=name,
            missed=[missed(digest=name)],
        ),
    )
    gone = incident(
        Failover.LOST,
        culprit=name,
        successor=name,
        reads=0,
        lost=parse(f"{GTID}:7"),
        loss=lost(server_uuid=name),
    )
    found_in = {"file": name, "position": 157, "fault": name, "gtid": name, "original_us": 0}
    contradicted = Row(
        {"proxy": name, "run": name, "seq": 6, "server": name, "claimed_us": 0, "stamp_us": 50_000}
        | {"applied_us": 48_000} | found_in
    )  # fmt: skip
    return findings(
        log=name,
        runs=[run(proxy=name, run=name, missing=1)],
        verdicts=[
            *(verdict(Verdict.OK, finding, 1) for finding in Finding),
            verdict(Verdict.VIOLATION, Finding.KNOWN_TOO_SMALL, 2, name, name),
            verdict(Verdict.NOT_JUDGED, Finding.UNBACKED, 1),
        ],
        lost=[lost(server_uuid=name)],
        incidents=[example, gone],
        undecided=[read(Finding.UNBACKED, user=name, missing=None, missed=[], shown=None)],
        scenes=[scene("wrote", digest=name, server=name), scene("before", server=name)],
        understated=3,
        lag=[Row(lag)],
        replication=[Row(replication), Row(replication | {"waits_max_us": None})],
        mix=[Row(mix | {"dimension": "level"}), Row(mix | {"dimension": "role"})],
        fallbacks=[Row({"server": name, "reason": name, "statements": 3})],
        errors=[Row({"outcome": name, "error_code": 1062, "role": name, "statements": 1})],
        faults=[Row({"file": name, "fault": "torn", "lines": 1})],
        clocks=[Row(clock), Row(clock | {"back_us": None, "ahead_us": -5_000, "from_seq": 1})],
        waits=[wide],
        hours=[wide],
        replication_hours=[wide],
        minutes=[wide],
        foregone=[wide],
        growth=[wide],
        pinned=[wide],
        pinned_users=[wide],
        unread=(name,),
        unknown=(name,),
        notes=(f"Judged anew: {name}",),
        binlogs=BinlogFindings(
            *(9, 1, 30, [Row(found_in)], 30, [Row(found_in)], 30), [contradicted]
        ),
    )


def test_a_clean_night_says_so_first() -> None:
    reader = looked_at(page.render(findings()))
    assert reader.text.startswith(
        "Clean. Tidegate audit Tidegate audit /log from 1970-01-01 00:00:00 to 1970-01-01 23:59:59 "
        "UTC: 1,200 statements in 1 run Clean. Of 1,000 reads with a promise, every one met a "
        "server that was shown to have what it had to see. 0 violations 0 lost transactions 0 "
        "without a valid proof 1,000 reads with a promise 100% of them judged "
    )
    assert ("div", {"class": "verdict clean", "role": "status"}) in reader.seen
    assert "Counter-examples" not in reader.text
    assert "Nights" not in reader.text


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        ({"verdicts": [verdict(Verdict.VIOLATION, Finding.NO_PROOF, 1)]}, "violated"),
        ({"verdicts": [verdict(Verdict.NOT_JUDGED, Finding.UNBACKED, 1)]}, "undecided"),
        ({"verdicts": [], "runs": []}, "undecided"),
    ],
)
def test_a_verdict_has_its_colour(parts: dict[str, object], state: str) -> None:
    reader = looked_at(page.render(findings(**parts)))
    assert ("div", {"class": f"verdict {state}", "role": "status"}) in reader.seen


def test_everything_is_told() -> None:
    reader = looked_at(page.render(full(), [summary("2026-11-29"), summary("2026-11-30")], 83.0))
    for told in (
        "83.0 s the audit took",
        "Judged anew: r1:3306",
        "Right by luck: 3 of the clean ones",
        "r1:3306 by r1:3306, answered by r1:3306 (replica): read",
        "r1:3306 30.0 ms waited 9 1 µs 2.00 ms 4.00 s",
        "r1:3306 9,000 50.0% 0 0 1 µs",
        "2 transactions had an original commit timestamp newer than the immediate one",
        "r1:3306 1 1062 r1:3306",
        "Missing from the log: 1 record.",
        "Not taken for segments: r1:3306.",
        "Violations: 0",
        "r1:3306 3.00 ms 0 r1:3306 9 7.00 ms 150 µs r1:3306 -5.00 ms 0 r1:3306 1 150 µs",
        "r1:3306 5.00 ms 7 7 5.00 ms 5.00 ms 5.00 ms 5.00 ms 7 5.00 ms 5.00 ms",
        "1970-01-01 00:00 7 7 5.00 ms 5.00 ms 7 5.00 ms 7 3 times r1:3306 in r1:3306 by r1:3306",
        "r1:3306 7 14 7 5.00 ms",
        "r1:3306 1,234 r1:3306 7 1,234 7 r1:3306 9.00 ms",
        "They are short: nothing needs to be done.",
        "Server 00 r1:3306 5.00 ms",
        "READ_OWN_WRITES 1 connection unbacked",
        "r1:3306 r1:3306 r1:3306 6 r1:3306 48.0 ms 1970-01-01 00:00:00.050000 r1:3306 157",
        "1970-01-01 00:00:00.000000 r1:3306 r1:3306 157",
        "Not read to the end (the first 1 of 30; the table transactions has all): Binary log Fault "
        "r1:3306 r1:3306",
    ):
        assert told in reader.text, told
    assert "None" not in reader.text
    for tag, attributes in reader.seen:
        if tag == "a":
            anchor = str(attributes["href"]).removeprefix("#")
            assert [its for _, its in reader.seen if its.get("id") == anchor]


def test_a_page_needs_nothing_else_and_runs_nothing() -> None:
    html = page.render(full())
    reader = looked_at(html)
    assert {tag for tag, _ in reader.seen}.isdisjoint({"script", "link", "img", "iframe", "base"})
    for _, attributes in reader.seen:
        assert not {name for name in attributes if name.startswith("on") or name == "src"}
    assert not re.search(r"https?:|url\(|@import", html)
    assert "prefers-color-scheme: dark" in html
    assert "default-src 'none'" in html


def test_what_a_log_says_is_nothing_but_text() -> None:
    nights = [summary("2026-11-29"), summary("2026-11-30")]
    plain, hostile = (looked_at(page.render(full(name), nights)) for name in (HARMLESS, HOSTILE))
    assert [tag for tag, _ in plain.seen] == [tag for tag, _ in hostile.seen]
    assert [sorted(names) for _, names in plain.seen] == [
        sorted(names) for _, names in hostile.seen
    ]
    assert "<script>alert('x')</script>" in hostile.text
    assert not set(hostile.text) & {"\u202e", "\x1b"}
    page.render(full("\ud800")).encode()


def test_only_runs_with_something_to_tell_are_listed_when_there_are_many() -> None:
    runs = [run(run=f"run{number}") for number in range(30)]
    assert "run29" in page.render(findings(runs=[*runs[:1], run(run="run29")]))
    report = page.render(findings(runs=[*runs, run(run="odd", missing=2)]))
    assert ">odd<" in report
    assert "run29" not in report
    assert "31 runs; these have missing, repeated or conflicting records" in report


def test_code_spans_of_a_verdict_are_code() -> None:
    assert "Not read: <code>a&lt;b&gt;</code>." in page.render(findings(unread=("a<b>",)))
    looked_at(page.render(findings(unread=("a`<b>",))))


BOX = re.compile(r'<div class="verdict.*?</div>', re.DOTALL)


def test_the_box_tells_what_happened_and_what_to_do() -> None:
    found = findings(
        verdicts=[verdict(Verdict.VIOLATION, Finding.KNOWN_TOO_SMALL, 445)],
        incidents=[incident(reads=445, until_us=901_000_000, applications=Counter(cart=445))],
        notes=["Unreported writes: 3 transactions."],
    )
    html = page.render(found)
    box = looked_at(BOX.findall(html)[0]).text
    assert box.startswith("445 reads may have been stale. Of 445 reads with a promise, 445 met")
    assert (
        "r1:3306 answered reads, and was not known to have the transactions that they had to see. "
        "445 reads may have been stale, from 1970-01-01 00:00:01 to 00:15:01 UTC. Users: app (1). "
        "Applications: cart (445). Next: Run SELECT GTID_SUBSET("
    ) in box
    assert "Unreported" not in box
    assert "Unreported writes: 3 transactions." in looked_at(html).text
    assert html.count("<article") == 1


def test_long_names_of_servers_are_short_and_different() -> None:
    names = [f"db-orders-prod-eu-central-1-{number}.example.com:3306" for number in (17, 18)]
    acts = [incident(culprit=name, read=read(Finding.NO_PROOF, server=name)) for name in names]
    fallbacks = [Row({"server": name, "reason": "x", "statements": 3}) for name in names]
    reader = looked_at(page.render(findings(incidents=acts, fallbacks=fallbacks)))
    assert ("abbr", {"title": names[0]}) in reader.seen
    assert [
        attributes for tag, attributes in reader.seen if tag == "td" and "title" in attributes
    ] == [{"title": name} for name in names]
    assert "db-order…tral-1-17…:3306 3 x db-order…tral-1-18…:3306 3 x" in reader.text
    assert "db-order…tral-1-17…:3306 answered reads" in reader.text


def test_the_most_important_column_is_the_second() -> None:
    heads = [cell.text for cell in Table(("A", "B", "C"), [(1, 2, 3)], main="C").heads]
    assert heads == ["A", "C", "B"]


def test_private_words_are_not_on_the_page() -> None:
    text = looked_at(page.render(full())).text
    for word in ("lapse", "seq ", "settled", "tide mark", "left unasked"):
        assert word not in text.lower(), word

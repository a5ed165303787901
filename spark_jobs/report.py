"""The audit's report: Markdown for a reader who asks one thing first."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from spark_jobs.counter_example import counter_example, lost_writes
from spark_jobs.findings import Findings, Row
from spark_jobs.markdown import counted, moment, named, span, table
from spark_jobs.promise import LEVELS, SCOPES
from spark_jobs.verdict import Finding, Verdict

_OTHERS: Final = {
    Verdict.VIOLATION: "Violations",
    Verdict.NOT_JUDGED: "Not judged",
    Verdict.GIVEN_UP: "Given up",
    Verdict.NO_ANSWER: "No answer",
    Verdict.NO_PROMISE: "No promise",
}
"""Verdicts that are not clean, as the table by level and scope heads them."""

_RUNS: Final = 20
"""Runs beyond which only those with something to tell are listed."""

_LOST: Final = 20
"""Answers of primaries that lacked something beyond which the rest is only counted."""

_QUANTILES: Final = ("p50", "p95", "p99", "max")


def render(findings: Findings) -> str:
    """Write the report."""
    parts = [
        "# Tidegate audit",
        f"**{findings.verdict}** {findings.explanation}",
        *findings.notes,
        *_coverage(findings),
        *_verdicts(findings),
        *_lost(findings),
        *_examples("Counter-examples", Verdict.VIOLATION, findings.violations),
        *_examples("Not judged", Verdict.NOT_JUDGED, findings.undecided),
        *_lag(findings),
        *_replication(findings),
        *_mix(findings),
        *_trouble(findings),
        *_log(findings),
        _METHOD,
    ]
    return "\n\n".join(parts) + "\n"


def _coverage(findings: Findings) -> Iterable[str]:
    if not findings.runs:
        return
    begin = min(row.number("from_us") for row in findings.runs)
    end = max(row.number("to_us") for row in findings.runs)
    yield (
        f"`{findings.log}` from {moment(begin)} to {moment(end)} UTC: "
        f"{counted(findings.in_runs('statements'), 'statement')} in "
        f"{counted(len(findings.runs), 'run')}."
    )
    unseen = findings.in_runs("missing")
    if unseen:
        yield (
            f"Missing from the log: {counted(unseen, 'record')}. Nothing is said of what they "
            "would tell."
        )


def _verdicts(findings: Findings) -> Iterable[str]:
    yield "## Reads"
    if not findings.verdicts:
        yield "None."
        return
    promises: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    pairs: Counter[tuple[str, str]] = Counter()
    for row in findings.verdicts:
        verdict, reads = row.text("verdict"), row.number("reads")
        promises[row.text("level"), row.text("scope")][verdict] += reads
        pairs[verdict, row.text("finding")] += reads
    yield table(
        ("Level", "Scope", "Reads", "Judged", "Clean", *_OTHERS.values()),
        (
            (
                *(*promise, sum(counts.values())),
                counts[Verdict.OK] + counts[Verdict.VIOLATION],
                *(counts[verdict] for verdict in (Verdict.OK, *_OTHERS)),
            )
            for promise, counts in sorted(promises.items(), key=lambda item: _place_of(*item[0]))
        ),
    )
    why = [
        (row.text("level"), row.text("scope"), row.text("finding"), row.number("reads"))
        for row in findings.verdicts
        if row.text("verdict") == Verdict.NOT_JUDGED
    ]
    if why:
        yield "Why reads were not judged:"
        why.sort(key=lambda row: _place_of(row[0], row[1]))
        yield table(("Level", "Scope", "Finding", "Reads"), why)
    yield "What the verdicts rest on:"
    order = list(Verdict)
    yield table(
        ("Verdict", "Finding", "Reads", "Meaning"),
        (
            (*pair, reads, _meaning(pair[1]))
            for pair, reads in sorted(
                pairs.items(), key=lambda item: (order.index(Verdict(item[0][0])), -item[1])
            )
        ),
    )
    if findings.understated:
        yield (
            f"Lucky: {findings.understated:,} of the ok ones (column `understated`). What the "
            "proxy held to be required was less than what the read had to see; the server had "
            "the rest all the same."
        )


def _lost(findings: Findings) -> Iterable[str]:
    if not findings.lost:
        return
    yield "## Acknowledged and lost"
    yield (
        "Clients were told that these transactions had committed, and a later primary does not "
        "have them. That is no fault of the reads: from then on, they are not held to see them."
    )
    if len(findings.lost) > _LOST:
        yield f"The first {_LOST} of {len(findings.lost):,} times that a primary lacked something:"
    for row in findings.lost[:_LOST]:
        yield f"```text\n{lost_writes(row)}\n```"


def _examples(title: str, verdict: Verdict, reads: Sequence[Row]) -> Iterable[str]:
    if not reads:
        return
    yield f"## {title}"
    yield f"The first of each kind. All of them are in the table `reads`, verdict `{verdict}`."
    for finding, group in groupby(reads, key=lambda read: read.text("finding")):
        yield f"### {finding.capitalize()}"
        yield _meaning(finding)
        for read in group:
            yield f"```text\n{counter_example(read)}\n```"


def _lag(findings: Findings) -> Iterable[str]:
    yield "## Waits and lag"
    if not findings.lag:
        yield "No read waited."
        return
    yield "How long reads waited until a server had what they had to see:"
    yield table(
        ("Server", "Proof", "Reads", *_QUANTILES),
        (
            (
                *(row.text("server"), row.text("proof"), row.number("reads")),
                *_quantiles(row, "wait_{}_us"),
            )
            for row in findings.lag
        ),
    )
    after_write = [row for row in findings.lag if row.number("after_write")]
    if after_write:
        yield (
            "From the newest write that a read had to see to the server's word that it has it, "
            "which is an upper bound of the replication lag that the read met:"
        )
        yield table(
            ("Server", "Reads", *_QUANTILES),
            (
                (
                    *(row.text("server"), row.number("after_write")),
                    *_quantiles(row, "since_write_{}_us"),
                )
                for row in after_write
            ),
        )


def _replication(findings: Findings) -> Iterable[str]:
    if not findings.replication:
        return
    yield "## Replication lag"
    yield (
        "From commit timestamps, by the transactions that the proxies' monitors met: from the "
        "commit on the first server (end to end) or on the immediate source (last hop) to the end "
        "of their application. The oldest is the age of the oldest transaction that was missing."
    )
    names = ("p50", "p99", "max")
    yield table(
        (
            *("Server", "Channel", "Source", "Transactions"),
            *(f"End to end {name}" for name in names),
            *(f"Last hop {name}" for name in names),
            "Oldest",
        ),
        (
            (
                *(row.text("server"), row.text("channel"), row.text("source")),
                row.number("transactions"),
                *(_maybe(row, f"end_to_end_{name}_us") for name in names),
                *(_maybe(row, f"last_hop_{name}_us") for name in names),
                _maybe(row, "waits_max_us"),
            )
            for row in findings.replication
        ),
    )
    disordered = sum(row.number("disordered") for row in findings.replication)
    if disordered:
        yield (
            f"{counted(disordered, 'transaction')} had an original commit that is newer than the "
            "immediate one: a server's clock was wrong, or a session set the timestamp."
        )


def _maybe(row: Row, column: str) -> str:
    return span(row.number(column)) if row.has(column) else ""


def _mix(findings: Findings) -> Iterable[str]:
    if not findings.mix:
        return
    yield "## Routing"
    yield "Times run from a statement's arrival to its answer's end."
    for dimension, rows in groupby(findings.mix, key=lambda row: row.text("dimension")):
        yield table(
            (
                *(dimension.capitalize(), "Statements", "Share", "Errors", "Lost"),
                *_QUANTILES,
            ),
            (
                (
                    *(row.text("value"), row.number("statements"), f"{row.share('share'):.1%}"),
                    *(row.number("errors"), row.number("lost")),
                    *_quantiles(row, "{}_us"),
                )
                for row in rows
            ),
        )


def _trouble(findings: Findings) -> Iterable[str]:
    if findings.fallbacks:
        yield "## Fallbacks"
        yield "Servers that were tried before the one that answered:"
        yield table(
            ("Server", "Reason", "Statements"),
            (
                (row.text("server"), row.text("reason"), row.number("statements"))
                for row in findings.fallbacks
            ),
        )
    if findings.errors:
        yield "## Errors"
        yield table(
            ("Outcome", "Error", "Answered by", "Statements"),
            (
                (
                    *(row.text("outcome"), str(row.number("error_code"))),
                    *(row.text("role"), row.number("statements")),
                )
                for row in findings.errors
            ),
        )


def _log(findings: Findings) -> Iterable[str]:
    troubles = ("missing", "declared", "repeated", "conflicting")
    yield "## The log"
    yield (
        f"{counted(findings.complete, 'complete segment')}, "
        f"{counted(findings.live, 'open segment')}. A run is one start of one worker; its records "
        "are numbered without gaps, so what is missing is known. *Declared* are those that the "
        "proxy says itself it dropped."
    )
    runs = findings.runs
    if len(runs) > _RUNS:
        runs = [row for row in runs if any(row.number(name) for name in troubles)][:_RUNS]
        yield f"{len(findings.runs):,} runs; these have something to tell:"
    if runs:
        yield table(
            (
                *("Proxy", "Worker", "Run", "Statements", "Proofs"),
                *("Missing", "Declared", "Repeated", "Conflicting"),
            ),
            (
                (
                    *(row.text("proxy"), row.number("worker"), row.text("run")),
                    *(row.number("statements"), row.number("proofs")),
                    *(row.number(name) for name in troubles),
                )
                for row in runs
            ),
        )
    if findings.unread:
        yield f"Not read, though they seem to hold records: {named(findings.unread)}."
    if findings.unknown:
        yield f"Not taken for segments: {named(findings.unknown)}."
    if findings.faults:
        yield (
            "Lines that are no record. A *torn* one is what a crash leaves at a file's end, or "
            "what the end of a segment looks like that is being written."
        )
        yield table(
            ("File", "Fault", "Lines"),
            (
                (f"`{row.text('file')}`", row.text("fault"), row.number("lines"))
                for row in findings.faults
            ),
        )


_METHOD: Final = """\
## How this was judged

What a read had to see was derived from other records; the proxy's `required` was not used. It is
what the statements before it in its scope wrote (READ_OWN_WRITES), also what they saw
(MONOTONIC_READS, READ_ALL_WRITES), or what anybody wrote or the primary said to have before the
read arrived (STRONG) or its bound before (BOUNDED_STALENESS). A replica was right to answer if its
proof covers that set and if the proof is evidence: the server's own answer to a WAIT, or an applied
set that this server's earlier answers to the same run add up to.

Taken on trust, because a log cannot show it: that `own_gtids` is what the server reported; that
`own_known` is true only where nothing was left unnamed; that a primary shows what it acknowledged;
that what the primary answered was classified rightly; that clocks tell which of two statements of
different connections was first.\
"""


def _quantiles(row: Row, column: str) -> list[str]:
    return [span(row.number(column.format(name))) for name in _QUANTILES]


def _meaning(finding: str) -> str:
    return next(it.meaning for it in Finding if it == finding)


def _place_of(level: str, scope: str) -> tuple[int, int]:
    """Where a level and a scope stand in a table; what is not known comes last."""
    places = ((level, LEVELS), (scope, SCOPES))
    first, second = (order.index(it) if it in order else len(order) for it, order in places)
    return first, second

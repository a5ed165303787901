"""The page's sections on waits, lag, other levels, routing and GTID sets."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from spark_jobs.findings.findings import Findings
from spark_jobs.markdown import counted, moment, span
from spark_jobs.report.advice import advise
from spark_jobs.report.heat import grid
from spark_jobs.report.table import Section, Table
from spark_jobs.tables.row import Row

_QUANTILES: Final = ("p50", "p95", "p99", "max")
_SIZES: Final = ("sets", "sources", "tags", "intervals", "bytes")
_FEW: Final = ("p50", "p99", "max")


def sections(findings: Findings) -> Iterable[Section]:
    """Make the sections."""
    yield _waits(findings)
    if findings.replication:
        yield _replication(findings)
    if findings.foregone:
        yield _foregone(findings)
    yield _routing(findings)
    if findings.growth:
        yield _growth(findings)


def _waits(findings: Findings) -> Section:
    if not findings.lag and not findings.waits:
        return Section("Waits", ("No read waited.",))
    by_level = Table(
        ("Level", "Reads", "Waited", "Total", *_QUANTILES, "Fell back", "Time lost", "Lost p99"),
        (
            (
                *(row.text("level"), row.number("reads"), row.number("waited")),
                *_spans(row, "wait_{}_us", ("total", *_QUANTILES)),
                row.number("fell_back"),
                *_spans(row, "fallback_{}_us", ("total", "p99")),
            )
            for row in findings.waits
        ),
        "How long reads waited, by level, and how much time those lost that fell back to another "
        "server than they were first sent to:",
        main="p99",
    )
    by_server = Table(
        ("Server", "Proof", "Reads", *_QUANTILES),
        (
            (
                *(row.text("server"), row.text("proof"), row.number("reads")),
                *_spans(row, "wait_{}_us", _QUANTILES),
            )
            for row in findings.lag
        ),
        "How long reads waited until a server had what they had to see:",
        main="p99",
    )
    after_write = Table(
        ("Server", "Reads", *_QUANTILES),
        (
            (
                *(row.text("server"), row.number("after_write")),
                *_spans(row, "since_write_{}_us", _QUANTILES),
            )
            for row in findings.lag
            if row.number("after_write")
        ),
        "From the newest write that a read had to see until the server said that it has the write, "
        "which is an upper bound of the replication lag that the read met:",
        main="p99",
    )
    hours = grid("Waits by hour (UTC) and server, p99", findings.hours, "wait_p99_us", "waited")
    return Section("Waits", (), (by_level, by_server, after_write, _minutes(findings)), (hours,))


def _minutes(findings: Findings) -> Table:
    return Table(
        ("Minute", "Reads", "Waited", "Total", "Longest", "Fell back", "Time lost", "Writes",
         "Most frequent"),
        (
            (
                moment(row.number("minute_us"))[:16],
                *(row.number("reads"), row.number("waited")),
                *_spans(row, "wait_{}_us", ("total", "max")),
                row.number("fell_back"),
                *_spans(row, "fallback_{}_us", ("total",)),
                row.number("writes"),
                "; ".join(map(_written, row.rows("written"))),
            )
            for row in findings.minutes
        ),
        "The worst minutes, by how long reads waited and lost, and what was written then:",
    )  # fmt: skip


def _written(row: Row) -> str:
    schema = f" in {row.text('schema')}" if row.has("schema") else ""
    digest = row.text("digest") or "no digest"
    return f"{counted(row.number('writes'), 'time')} {digest}{schema} by {row.text('user')}"


def _replication(findings: Findings) -> Section:
    notes = [
        "From commit timestamps of the transactions that the proxies' monitors have seen: from the "
        "commit on the first server (end to end) or on the immediate source (last hop) until the "
        "transaction was applied. The oldest is the greatest age of a transaction that was missing."
    ]
    disordered = sum(row.number("disordered") for row in findings.replication)
    if disordered:
        notes.append(
            f"{counted(disordered, 'transaction')} had an original commit timestamp newer than the "
            "immediate one: a server's clock was wrong, or a session set the timestamp."
        )
    heads = (
        *("Server", "Channel", "Source", "Transactions"),
        *(f"End to end {name}" for name in _FEW),
        *(f"Last hop {name}" for name in _FEW),
        "Oldest",
    )
    rows = (
        (
            *(row.text("server"), row.text("channel"), row.text("source")),
            row.number("transactions"),
            *_spans(row, "end_to_end_{}_us", _FEW),
            *_spans(row, "last_hop_{}_us", _FEW),
            *_spans(row, "waits_{}_us", ("max",)),
        )
        for row in findings.replication
    )
    by_hour = Table(
        ("Hour", *heads[:-1], "Upstream p99", "Apply p99"),
        (
            (
                moment(row.number("hour_us"))[:16],
                *(row.text("server"), row.text("channel"), row.text("source")),
                row.number("transactions"),
                *_spans(row, "end_to_end_{}_us", _FEW),
                *_spans(row, "last_hop_{}_us", _FEW),
                *_spans(row, "upstream_{}_us", ("p99",)),
                *_spans(row, "apply_{}_us", ("p99",)),
            )
            for row in findings.replication_hours
        ),
        "By hour",
        folded=True,
    )
    hours = grid(
        "End to end by hour (UTC) and server, p99",
        findings.replication_hours,
        "end_to_end_p99_us",
        "transactions",
    )
    return Section(
        "Replication lag", notes, (Table(heads, rows, main="End to end p99"), by_hour), (hours,)
    )


def _foregone(findings: Findings) -> Section:
    return Section(
        "Other levels",
        (
            "What BEST_EFFORT would have shown: at most the reads that waited, and at least those "
            "whose wait ran out, would have missed a write of the given age. What STRONG would "
            "have cost a read: a question to the primary, and, while something is being written, "
            "the replica's lag (if it is known). These are estimates.",
        ),
        (
            Table(
                ("Server", "Reads", "Stale at most", "At least", *(f"Age {name}" for name in _FEW),
                 "Question p50", "p99", "Lag p50", "p99", "STRONG p50", "p99"),
                (
                    (
                        *(row.text("server"), row.number("reads")),
                        *(row.number("exposed") + row.number("late"), row.number("late")),
                        *_spans(row, "age_{}_us", _FEW),
                        *_spans(row, "probe_{}_us", ("p50", "p99")),
                        *_spans(row, "lag_{}_us", ("p50", "p99")),
                        *_spans(row, "strong_{}_us", ("p50", "p99")),
                    )
                    for row in findings.foregone
                ),
            ),
        ),
    )  # fmt: skip


def _growth(findings: Findings) -> Section:
    return Section(
        "GTID sets",
        advise(findings.growth) or ("They are short: nothing needs to be done.",),
        (
            Table(
                ("Hour", "What", "Server", "Role", "Sets", "Servers in it", "Tags", "Intervals",
                 "Bytes"),
                (
                    (
                        moment(row.number("hour_us"))[:16],
                        *(row.text("what"), row.text("server"), row.text("role")),
                        *(row.number(name) for name in _SIZES),
                    )
                    for row in findings.growth
                ),
                "The largest of each hour",
                main="Intervals",
                folded=True,
            ),
        ),
    )  # fmt: skip


def _pinned(rows: Sequence[Row], note: str, *, digests: bool) -> Table:
    return Table(
        (*(["Digest"] if digests else []), "User", "Reads", "On the primary", "Kept there",
         "Fell back", "Main reason", "Total time"),
        (
            (
                *([row.text("digest") if row.has("digest") else ""] if digests else []),
                row.text("user"),
                *(row.number(name) for name in ("reads", "on_primary", "kept", "fell_back")),
                row.text("reason") if row.has("reason") else "",
                *_spans(row, "{}_us", ("total",)),
            )
            for row in rows
        ),
        note,
        main="On the primary",
    )  # fmt: skip


def _routing(findings: Findings) -> Section:
    tables = [
        Table(
            (dimension.capitalize(), "Statements", "Share", "Errors", "Lost", *_QUANTILES),
            (
                (
                    *(row.text("value"), row.number("statements"), f"{row.share('share'):.1%}"),
                    *(row.number("errors"), row.number("lost")),
                    *_spans(row, "{}_us", _QUANTILES),
                )
                for row in rows
            ),
        )
        for dimension, rows in groupby(findings.mix, key=lambda row: row.text("dimension"))
    ]
    tables += [
        _pinned(findings.pinned, "Reads that most often miss the replicas:", digests=True),
        _pinned(findings.pinned_users, "The same by user:", digests=False),
        Table(
            ("Server", "Reason", "Statements"),
            (
                (row.text("server"), row.text("reason"), row.number("statements"))
                for row in findings.fallbacks
            ),
            "Servers that were tried before the one that answered:",
            main="Statements",
        ),
        Table(
            ("Outcome", "Error", "Answered by", "Statements"),
            (
                (
                    *(row.text("outcome"), str(row.number("error_code"))),
                    *(row.text("role"), row.number("statements")),
                )
                for row in findings.errors
            ),
            "Statements that did not end well:",
            main="Statements",
        ),
    ]
    return Section(
        "Routing", ("Times run from a statement's arrival to its answer's end.",), tables
    )


def _spans(row: Row, column: str, names: Sequence[str]) -> list[str]:
    columns = [column.format(name) for name in names]
    return [span(row.number(name)) if row.has(name) else "" for name in columns]

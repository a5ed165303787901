"""The page's section on binary logs."""

from collections.abc import Sequence

from spark_jobs.binlogs.binlog_findings import BinlogFindings
from spark_jobs.markdown import moment, span
from spark_jobs.report.table import Section, Table
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Dependence


def section(found: BinlogFindings) -> Section:
    """Make the section: what the logs contradict or alone have, and what could not be read."""
    contradicted = Table(
        ("WAIT ended", "Server", "Proxy", "Run", "Record", "Applied later", "At least by",
         "Stamped (replica's clock)", "Binary log", "Position"),
        (
            (
                *(moment(row.number("claimed_us")), row.text("server"), row.text("proxy")),
                *(row.text("run"), row.number("seq"), row.text("gtid")),
                span(row.number("applied_us") - row.number("claimed_us")),
                *(moment(row.number("stamp_us")), row.text("file"), row.number("position")),
            )
            for row in found.first_contradicted
        ),
        f"WAITs that ended before the replica had applied the transactions that were waited for"
        f"{_part(found.first_contradicted, found.contradicted, 'contradicted')}:",
    )  # fmt: skip
    dependent = Table(
        ("Arrived", "Server", "Proxy", "Run", "Record", "Lacked", "Why that matters", "Table",
         "Binary log", "Position"),
        (
            (
                *(moment(row.number("arrived_us")), row.text("server"), row.text("proxy")),
                *(row.text("run"), row.number("seq"), row.text("gtid"), row.text("why")),
                *(_table(row), row.text("file"), row.number("position")),
            )
            for row in found.first_dependent
        ),
        f"Reads that depended on what their servers lacked, though the proxy had found that this "
        f"changed nothing for them{_part(found.first_dependent, found.dependent, 'dependent')}:",
    )  # fmt: skip
    unreported = Table(
        ("First committed", "Transaction", "Binary log", "Position"),
        (
            (
                *(moment(row.number("original_us")), row.text("gtid")),
                *(row.text("file"), row.number("position")),
            )
            for row in found.first_unreported
        ),
        f"Transactions that no record names"
        f"{_part(found.first_unreported, found.unreported, 'unreported')}. Somebody wrote past "
        "the proxy, a server did not report them, or the records are missing:",
    )
    faults = Table(
        ("Binary log", "Fault"),
        ((row.text("file"), row.text("fault")) for row in found.first_faults),
        f"Not read to the end{_part(found.first_faults, found.faults, 'transactions')}:",
    )
    tables = (contradicted, dependent, unreported, faults)
    return Section("Binary logs", (" ".join(found.sentences),), tables)


def _table(row: Row) -> str:
    return row.text("table") if row.text("why") == Dependence.CHANGED else ""


def _part(shown: Sequence[Row], number: int, table: str) -> str:
    """If not all rows are shown: how many there are, and which table has them."""
    if len(shown) == number:
        return ""
    return f" (the first {len(shown):,} of {number:,}; the table {table} has all)"

"""Findings of an audit from binary logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs.day import Period
from spark_jobs.markdown import counted
from spark_jobs.paths import escape
from spark_jobs.storage import Folder
from spark_jobs.store.store import Span
from spark_jobs.tables.row import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class BinlogFindings:
    """What the binary logs show.

    Attributes:
        transactions: how many were read.
        files: how many files hold them.
        faults: how many files cannot be read to their end.
        first_faults: ``file``, ``position`` and ``fault`` of the first few.
        unreported: how many transactions no record names.
        first_unreported: `binlog_evidence.UNREPORTED` of the first few.
        contradicted: how many WAITs claimed transactions that were applied later.
        first_contradicted: `binlog_evidence.CONTRADICTED` of the first few.
        by_word: how many reads are independent by the proxy's word.
        independent: how many of these are, as the logs show.
        dependent: how many of these depended on what their servers lacked.
        first_dependent: `independence.DEPENDENT` of the first few.
    """

    transactions: int
    files: int
    faults: int
    first_faults: Sequence[Row]
    unreported: int
    first_unreported: Sequence[Row]
    contradicted: int
    first_contradicted: Sequence[Row]
    by_word: int = 0
    independent: int = 0
    dependent: int = 0
    first_dependent: Sequence[Row] = ()

    @property
    def sentences(self) -> list[str]:
        """Sentences for a summary."""
        told = [
            f"Binary logs: {counted(self.transactions, 'transaction')} in "
            f"{counted(self.files, 'file')}."
        ]
        if self.faults:
            told.append(f"Not read to the end: {counted(self.faults, 'file')}.")
        if self.unreported:
            told.append(f"No record names {counted(self.unreported, 'transaction')} of these.")
        if self.by_word:
            told.append(
                f"Of {counted(self.by_word, 'read')} that were independent by the proxy's word, "
                f"{self.independent:,} were, as the logs show."
            )
        return told

    @property
    def contradiction(self) -> str:
        """A sentence on WAITs that ended too early."""
        return (
            f"{counted(self.contradicted, 'WAIT')} ended before the replica had applied the "
            "transactions that were waited for."
        )

    @property
    def dependence(self) -> str:
        """A sentence on reads that were called independent and were not."""
        return (
            f"{counted(self.dependent, 'read')} depended on transactions that their servers "
            "lacked, though the proxy had found that these changed nothing for them."
        )


@dataclass(frozen=True, slots=True)
class Compared:
    """What is compared with binary logs.

    Attributes:
        records: NUMBERED, in corrected times.
        reads: JUDGED of the same log.
    """

    records: "DataFrame"
    reads: "DataFrame"


def look(
    spark: "SparkSession",
    place: Path,
    compared: Compared,
    out: Folder,
    clock_error_us: int,
    vouched_us: int,
    period: Period | None = None,
) -> BinlogFindings:
    """Compare a log with binary logs, and write the tables of what they show.

    These are ``transactions``, ``unreported``, ``contradicted`` and ``dependent``.

    Args:
        spark: a session.
        place: a directory of binary logs.
        compared: the log.
        out: folder for the tables.
        clock_error_us: by how much the clocks of proxies may differ, µs.
        vouched_us: by how much all clocks may differ, as the operator vouches; 0 if nobody does.
        period: findings outside of it are left out; None for all. Records from outside of it still
            count for which GTIDs are named, when they were sent, and which servers were met again.
    """
    from spark_jobs.binlogs import binlog_evidence, binlog_source, independence
    from spark_jobs.tables.timestamps import computed, published

    def kept(table: "DataFrame", title: str) -> "DataFrame":
        published(table).write.mode("overwrite").parquet(str(out / title))
        return computed(spark.read.parquet(*escape([out / title])), table.schema)

    def first(table: "DataFrame", *order: str) -> list[Row]:
        return [Row(row.asDict()) for row in table.orderBy(*order).limit(_SHOWN).collect()]

    def during(table: "DataFrame", span: Period | None, *columns: str) -> "DataFrame":
        if span is None:
            return table
        moments = (
            f"({column} >= {span.begin_us} and {column} < {span.end_us})" for column in columns
        )
        return table.where(" or ".join((*moments, f"coalesce({', '.join(columns)}) is null")))

    binlog_source.register(spark)
    stamps = ("original_us", "immediate_us")
    read = spark.read.format(binlog_source.NAME).load(str(place))
    transactions = kept(during(read, period and Span(period), *stamps), "transactions")
    (counts,) = binlog_evidence.summary(during(transactions, period, *stamps)).collect()
    records = compared.records
    unnamed = binlog_evidence.unreported(records, transactions, clock_error_us)
    unreported = kept(during(unnamed, period, "original_us"), "unreported")
    late = binlog_evidence.contradicted(records, transactions, clock_error_us, vouched_us or None)
    contradicted = kept(during(late, period, "claimed_us"), "contradicted")
    claims = independence.by_word(compared.reads, records)
    dependent = kept(independence.dependent(claims, transactions), "dependent")
    known = independence.confirmed(claims, transactions)
    independent = known.join(dependent, [*independence.KEY], "left_anti")
    return BinlogFindings(
        transactions=counts["transactions"],
        files=counts["files"],
        faults=counts["faults"],
        first_faults=first(binlog_evidence.faults(transactions), "file"),
        unreported=unreported.count(),
        first_unreported=first(unreported, "original_us", "gtid"),
        contradicted=contradicted.count(),
        first_contradicted=first(contradicted, "claimed_us", "seq"),
        by_word=claims.count(),
        independent=independent.count(),
        dependent=dependent.count(),
        first_dependent=first(dependent, "arrived_us", "seq"),
    )

"""Counts transactions that primaries came to have and that no record names; this is no verdict.

A primary's whole sets grow with every transaction, whether or not it came through a proxy. GTIDs of
that growth that no record names were written past the proxies; or their record is missing; or the
statement did not report its GTID. Such statements are counted, too. What was written before a
cluster's first whole set or after its last is not counted.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StringType, StructType

from spark_jobs import gtid_columns
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.records.survey import Survey
from spark_jobs.tables import small_table

_SPAN: Final = (
    StructType()
    .add("cluster", StringType())
    .add("source", StringType())
    .add("start", LongType())
    .add("end", LongType())
)


class Unreported(NamedTuple):
    """The counts.

    Attributes:
        transactions: how many transactions primaries came to have that no record names.
        statements: how many statements may have committed something without reporting a GTID.
    """

    transactions: int
    statements: int

    @property
    def sentences(self) -> list[str]:
        """Sentences for the report."""
        if not self.transactions:
            return []
        return [
            f"Unreported writes: {self.transactions:,} transactions that primaries came to have are"
            f" named by no record. {self.statements:,} statements may have committed some of them"
            " without reporting a GTID; the others did not pass through the proxies, or their"
            " records are missing."
        ]


def count(
    found: Survey, records: DataFrame, cluster: str, clusters: Mapping[str, str]
) -> Unreported:
    """Compare the growth of primaries' whole sets with what records name; this may run a job.

    Args:
        found: the survey of some records.
        records: NUMBERED of these records, in the judged period.
        cluster: SQL for the cluster of a record.
        clusters: the cluster of each proxy.
    """
    bounds = sorted(
        (reign.first[0], clusters[run[0]], reign.first[1], reign.last[1])
        for (run, _), reign in found.reigns.items()
        if reign.first is not None and reign.last is not None
    )
    grown = growth(bound[1:] for bound in bounds)
    grew = sum(gtids.count() for gtids in grown.values())
    if not grew:
        return Unreported(0, 0)
    spans = [(name, *span) for name, gtids in grown.items() for span in gtids]
    named = _named(records, cluster, spans)
    return Unreported(max(0, grew - named), found.nameless)


def _named(records: DataFrame, cluster: str, spans: Sequence[tuple[str, str, int, int]]) -> int:
    """How many GTIDs within some spans records name; a GTID that several name counts once.

    Args:
        records: NUMBERED.
        cluster: SQL for the cluster of a record.
        spans: cluster, source, and a half-open span of numbers.
    """
    rows = [dict(zip(_SPAN.names, span, strict=True)) for span in spans]
    intervals = (
        records.where("own_gtids != ''")
        .selectExpr(f"{cluster} as cluster", f"inline({gtid_columns.intervals('own_gtids')})")
        .distinct()
    )
    inside = intervals.join(
        fn.broadcast(small_table.local(records.sparkSession, rows, _SPAN)), ["cluster", "source"]
    ).selectExpr("least(high + 1, end) - greatest(low, start) as size")
    row = inside.where("size > 0").agg(fn.sum("size")).collect()[0]
    return int(row[0] or 0)


def growth(sets: Iterable[tuple[str, str, str]]) -> dict[str, GtidSet]:
    """The GTIDs that each cluster's primaries came to have.

    Args:
        sets: cluster, and the first and last whole set of a reign; the earliest reigns first.
    """
    began: dict[str, GtidSet] = {}
    grown: defaultdict[str, GtidSet] = defaultdict(GtidSet)
    for cluster, first, last in sets:
        try:
            base = began.setdefault(cluster, parse(first))
            grown[cluster].update(parse(last).minus(base))
        except MalformedGtidSetError:
            continue
    return dict(grown)

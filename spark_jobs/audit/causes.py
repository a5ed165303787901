"""Finds the causes of what is wrong in a log, so that one act is told once.

Reads that are violations have one cause if the same server answered them and the proxy made the
same mistake; or if the transactions that they missed were acknowledged by a server that went on as
primary after another had taken over. In a failover, lost transactions have the same cause as the
reads that missed them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import StructType

from spark_jobs.findings.incident import Failover, Incident, group
from spark_jobs.gtid import parse
from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History, Term
from spark_jobs.tables.row import Row
from spark_jobs.tables.schema import JUDGED, PROCEDURE, RUN
from spark_jobs.verdict import Lapse, Verdict

if TYPE_CHECKING:
    from spark_jobs.audit.judgement import Judgement

_RECORD: Final = ("run", "seq")
_CAUSE: Final = ("cause", "culprit", "successor")
_WHOM: Final = ("user", "application", "server")


def find(judgement: "Judgement", lost: Sequence[Row], *, is_violated: bool) -> list[Incident]:
    """Find all incidents; this runs jobs, but none where nothing is wrong.

    Args:
        judgement: the verdicts, and what they follow from.
        lost: LOST.
        is_violated: whether there is a violation.
    """
    records, history = judgement.timed, judgement.history
    parts = [*of_losses(lost, records, history)]
    if is_violated:
        parts += of_violations(judgement.reads, records, history)
    if judgement.lapses:
        parts += of_lapses(judgement.lapsed)
    return group(parts)


def of_violations(judged: DataFrame, records: DataFrame, history: History) -> Iterator[Incident]:
    """Find the causes of violations, one incident for each user, application and server; runs jobs.

    Args:
        judged: JUDGED.
        records: RECORD.
        history: the history of the primaries, of the same records.
    """
    wrong = judged.select(JUDGED.names).where(fn.col("verdict") == Verdict.VIOLATION.value)
    plain = {"cause": fn.col("finding"), "culprit": fn.col("server"), "successor": fn.lit("")}
    if not history.terms:
        yield from _tally(wrong.withColumns(plain), JUDGED)
        return
    failover = {
        "cause": fn.lit(Failover.TWO_PRIMARIES.value),
        "culprit": fn.col("failover.server"),
        "successor": fn.col("failover.primary"),
    }
    is_failover = fn.col("failover").isNotNull()
    causes = {name: fn.when(is_failover, failover[name]).otherwise(plain[name]) for name in _CAUSE}
    superseded = _superseded(wrong, records, history)
    yield from _tally(wrong.join(superseded, [*RUN, "seq"], "left").withColumns(causes), JUDGED)


def _superseded(wrong: DataFrame, records: DataFrame, history: History) -> DataFrame:
    """Reads that missed what a server acknowledged as primary after another had taken over.

    Returns:
        RUN, ``seq``, and ``failover`` with ``server`` and ``primary``, the names of both.
    """
    names = (
        records.where(fn.col("server").isNotNull())
        .groupBy(fn.col("server_uuid").alias("primary_uuid"))
        .agg(fn.min("server").alias("primary"))
    )
    late = (
        records.where(fn.col("role") == "primary")
        .withColumn("primary_uuid", _primary_at(history, fn.col("dispatched_us")))
        .where(fn.col("primary_uuid") != fn.col("server_uuid"))
        .join(names, "primary_uuid")
        .select(
            fn.struct("run", "seq").alias("number"),
            fn.struct("server", "primary").alias("failover"),
        )
    )
    missed = wrong.select(*RUN, "seq", fn.explode("missed").alias("source"))
    return (
        missed.withColumn("number", fn.struct("source.run", "source.seq"))
        .join(late, "number")
        .groupBy(*RUN, "seq")
        .agg(fn.min("failover").alias("failover"))
    )


def of_lapses(lapsed: DataFrame) -> Iterator[Incident]:
    """Find the causes of reads without a valid proof, as `of_violations`; runs a job.

    Args:
        lapsed: PROCEDURE.
    """
    by_proxy = fn.col("finding").isin(Lapse.NOT_ASKED.value, Lapse.LEFT.value)
    causes = {
        "cause": fn.col("finding"),
        "culprit": fn.when(by_proxy, fn.col("proxy")).otherwise(fn.col("server")),
        "successor": fn.lit(""),
    }
    yield from _tally(lapsed.withColumns(causes), PROCEDURE)


def _tally(rows: DataFrame, schema: StructType) -> Iterator[Incident]:
    """Count the rows by cause and whom they concern, each group with its first row."""
    arrived, order = fn.col("arrived_us"), fn.struct("arrived_us", *RUN, "seq")
    tallies = rows.groupBy(*_CAUSE, *_WHOM).agg(
        fn.count("*").alias("reads"),
        fn.min(arrived).alias("since_us"),
        fn.max(arrived).alias("until_us"),
        fn.min_by(fn.struct(*schema.names), order).alias("first"),
    )
    for row in tallies.collect():
        first = Row(row.first.asDict(recursive=True))
        yield Incident(
            cause=row.cause,
            culprit=row.culprit or "",
            successor=row.successor or "",
            since_us=row.since_us,
            until_us=row.until_us,
            reads=row.reads,
            users=_counter(row.user, row.reads),
            applications=_counter(row.application, row.reads),
            servers=_counter(row.server, row.reads),
            read=first if schema is JUDGED else None,
            lapse=first if schema is PROCEDURE else None,
        )


def _counter(name: str | None, number: int) -> Counter[str]:
    return Counter({name: number} if name else {})


def of_losses(lost: Sequence[Row], records: DataFrame, history: History) -> Iterator[Incident]:
    """Find the causes of lost transactions, one incident for each row; runs a job.

    Args:
        lost: LOST.
        records: RECORD.
        history: the history of the primaries, of the same records.
    """
    if not lost:
        return
    numbers = {_number(row) for loss in lost for row in (loss, *loss.rows("writes"))}
    wanted = records.sparkSession.createDataFrame(sorted(numbers), "run string, seq long")
    columns = (*RUN, "seq", "user", "application", "server", "server_uuid", "dispatched_us")
    found = records.join(fn.broadcast(wanted), [*_RECORD], "left_semi").select(*columns).collect()
    named = {(row.run, row.seq): Row(row.asDict()) for row in found}
    for loss in lost:
        writes = [named[key] for row in loss.rows("writes") if (key := _number(row)) in named]
        asked = named.get(_number(loss))
        is_late = any(_is_superseded(write, history) for write in writes)
        yield Incident(
            cause=Failover.TWO_PRIMARIES if is_late else Failover.LOST,
            culprit=_name(writes, "server"),
            successor=_name([asked] if asked else [], "server") or loss.text("server_uuid"),
            since_us=min(
                (row.number("ended_us") for row in loss.rows("writes")),
                default=loss.number("asked_us"),
            ),
            until_us=loss.number("asked_us"),
            lost=parse(loss.text("gtids").removesuffix(",…")),
            users=_names(writes, "user"),
            applications=_names(writes, "application"),
            loss=loss,
        )


def _number(row: Row) -> tuple[str, int]:
    return row.text("run"), row.number("seq")


def _names(rows: Iterable[Row], column: str) -> Counter[str]:
    return Counter(row.text(column) for row in rows if row.has(column))


def _name(rows: Iterable[Row], column: str) -> str:
    return next((row.text(column) for row in rows if row.has(column)), "")


def _is_superseded(write: Row, history: History) -> bool:
    """Whether another server was the primary already when this statement was sent."""
    cluster = history.clusters.get(write.text("proxy"), "")
    for term in _newest_first(history.terms.get(cluster, ())):
        if term.until_us <= write.number("dispatched_us"):
            return write.has("server_uuid") and term.server_uuid != write.text("server_uuid")
    return False


def _newest_first(terms: Sequence[Term]) -> list[Term]:
    return sorted(terms, key=lambda term: term.until_us, reverse=True)


def _primary_at(history: History, at_us: Column) -> Column:
    """The UUID of the primary by the cluster's last change before a time; null before the first."""
    cluster = clusters.column(history.clusters)
    known = fn.lit(None).cast("string")
    terms: Mapping[str, Sequence[Term]] = history.terms
    changes = [
        fn.when((cluster == name) & (at_us >= term.until_us), fn.lit(term.server_uuid))
        for name in terms
        for term in _newest_first(terms[name])
    ]
    return fn.coalesce(*changes, known)

"""Facts: what a state keeps of records. Each fact stands for many records."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_jobs import gtid_columns
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.tables.schema import RUN

(RAN, SPOKE, REIGNED, MISSED, SKIPPED, UNNAMED, UNREAD, WROTE, SAW, SHOWED, HAD, ASKED) = range(12)
"""Kinds of facts. "At its time" means `ended_us`.

RAN: the records of a run are known up to `seq`. SPOKE: the statements of a session are known up to
`seq` and `ordinal`. REIGNED: a run's primary was sent a statement at its time. MISSED: records of a
run were missing before one that ended at its time; the record before the gap ended at `since_us`.
SKIPPED: statements of a session were missing before one that arrived at its time. UNNAMED: a
statement that ended at its time may have committed GTIDs that no record names. UNREAD: a
statement's own GTIDs are no well-formed set. WROTE: statements of a session wrote `gtids`, or may
have. SAW: statements of a session were shown `gtids`. SHOWED: a replica certainly showed `gtids` to
a session. HAD: a server was shown to have `gtids`. ASKED: a primary was asked for its whole set,
which is `gtids`.
"""

KEY: Final = (
    *("what", *RUN, "session", "user", "application", "role", "server_uuid", "incarnation"),
)
"""Facts that agree in these columns are merged; REIGNED and ASKED must agree in times, too."""

TIMES: Final = ("since_us", "dispatched_us", "ended_us")
LATEST: Final = ("ordinal", "seq", *TIMES)

_TEXTS: Final = ("proxy", "run", "user", "application", "role", "server_uuid", "gtids")
_NULL: Final = ("application", "role", "server_uuid", "incarnation")

FACT: Final = StructType(
    [
        StructField(name, StringType() if name in _TEXTS else LongType(), name in _NULL)
        for name in (*KEY, *LATEST, "gtids")
    ]
)


def nothing(name: str) -> str:
    """SQL for the value of a column of FACT in facts that do not need it: null, "" or 0."""
    if name in _NULL:
        return f"cast(null as {FACT[name].dataType.simpleString()})"
    return "''" if name in _TEXTS else "0L"


def is_of(*kinds: int) -> str:
    """SQL: whether a fact is of one of these kinds."""
    return f"(what in ({', '.join(map(str, kinds))}))"


def make(
    what: int, rows: DataFrame, names: Collection[str], more: Mapping[str, str] | None = None
) -> DataFrame:
    """Make a fact of each row.

    Args:
        what: the kind.
        rows: they have RUN.
        names: other columns that the facts take over.
        more: SQL for further columns, by the names of FACT.

    Returns:
        FACT.
    """
    values = {"what": f"bigint({what})", **{name: name for name in (*RUN, *names)}, **(more or {})}
    return rows.selectExpr(*(f"{values.get(name, nothing(name))} as {name}" for name in FACT.names))


def is_plain(text: str) -> str:
    """SQL: whether a text is a set that `gtid_columns` can unite."""
    turned = f"exists({gtid_columns.intervals(text)}, span -> span.low > span.high)"
    return f"({gtid_columns.is_formed(text)} and not {turned})"


def merged(facts: DataFrame, *more: str) -> DataFrame:
    """Merge facts that agree in KEY: the latest times and numbers, and the union of sets, count.

    A write whose text is no well-formed set becomes UNREAD; others with such a text are left out.

    Args:
        facts: FACT and `more`.
        more: further columns of numbers in which merged facts must agree; those of UNREAD become 0.

    Returns:
        FACT and `more`.
    """
    alone = is_of(REIGNED, ASKED)
    when = {f"at_{name}": f"if({alone}, {name}, 0L)" for name in TIMES[1:]}
    keys = [*KEY, *more, *when]
    # Each text that Spark cannot unite is a group of its own, until all others are united.
    odd = f"if(gtids != '' and not {is_plain('gtids')}, gtids, null) as odd"
    apart = facts.selectExpr("*", *(f"{value} as {name}" for name, value in when.items()), odd)
    united = gtid_columns.united(apart, [*keys, "odd"], "gtids", latest=LATEST)
    read = fn.when(fn.isnull("odd"), fn.col("gtids")).otherwise(_canonical(fn.col("odd")))
    good = united.withColumn("gtids", read).where(f"gtids is not null or what = {WROTE}")
    unread = {"what": f"bigint({UNREAD})", "gtids": "''"} | dict.fromkeys(more, "0L")
    good = good.selectExpr(
        *LATEST,
        *(
            f"if(gtids is null, {unread[name]}, {name}) as {name}" if name in unread else name
            for name in (*keys, "gtids")
        ),
    )
    newest = [fn.expr(f"max({name}) as {name}") for name in LATEST]
    several = fn.size("texts") > 1
    union = fn.when(several, _union(fn.when(several, fn.col("texts"))))
    return (
        good.groupBy(*keys)
        .agg(*newest, fn.expr("collect_set(gtids) as texts"))
        .withColumn("gtids", union.otherwise(fn.element_at("texts", 1)))
        .select(*FACT.names, *more)
    )


def _canonical_text(text: str | None) -> str | None:
    """The canonical text of a set; None if the text is none."""
    try:
        return None if text is None else parse(text).text()
    except MalformedGtidSetError:
        return None


def _united_text(texts: Sequence[str] | None) -> str:
    """The union of sets."""
    union = GtidSet()
    for text in texts or ():
        union.update(parse(text))
    return union.text()


# They are called only with the few texts that Spark cannot unite.
_canonical = fn.udf(_canonical_text, StringType(), useArrow=False)
_union = fn.udf(_united_text, StringType(), useArrow=False)

"""Puts records into the groups of statements by which reads are judged.

A read must see what happened before it in one group of statements: those of its connection, of its
user, of its application or of its proxy, or all of its cluster (STRONG and BOUNDED_STALENESS, for
which the scope does not matter). What a statement wrote or saw counts in every group that it
belongs to.

In a connection the order is that of the records, and no clock is involved: a connection has one
statement at a time. In all other groups a statement counts from its end on, and a read must see
what had ended when it arrived. A read that shares an earlier read's snapshot must see what had
ended when that one arrived (`moment_us`).
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.primaries import clusters
from spark_jobs.primaries.primary_history import History
from spark_jobs.promise import SCOPES, SEEN_LEVELS
from spark_jobs.sql import among
from spark_jobs.tables.schema import BACKING, NUMBERED, READ, RUN, SESSION

GROUP: Final = ("kind", "key")
_KEYS: Final = {
    "connection": SESSION,
    "user": ("proxy", "user"),
    "application": ("proxy", "application"),
    "proxy": ("proxy",),
    "cluster": ("cluster",),
}
"""By which columns records are put into the groups of each kind."""

ORDER: Final = ("at", "turn", *RUN, "seq")

_CONTEXT: Final = (
    *("required", "proof_set", "own_gtids", "named", "observed", "incarnation", "hole"),
    *("unbacked", "reached", "mark", "is_read", "is_unnamed", "moment_us"),
)
"""The columns that a judgement needs beyond READ."""

COLUMNS: Final = (*GROUP, "at", "turn", "judges", "learns", "maybe", "cluster", *READ, *_CONTEXT)


def transform(
    records: DataFrame, backing: DataFrame, history: History, clock_error_us: int
) -> DataFrame:
    """Put every record into the groups in which it counts or is judged.

    Args:
        records: NUMBERED without repeats.
        backing: BACKING of the same records.
        history: the primary's, of the same records.
        clock_error_us: by how much the clocks of proxies may differ, µs.

    Returns:
        COLUMNS, to be read group by group (GROUP), in ORDER. `judges`: the read is to be judged in
        this group. `learns`: what the record wrote or saw counts in it from then on. `maybe`: it
        counts only if clocks differ by as much as they may. `turn` sorts ends before arrivals of
        the same microsecond.
    """
    counted = (
        records.selectExpr(*NUMBERED.names, f"{clusters.of_record(history.clusters)} as cluster")
        .where("kind = 'statement' or whole is not null")
        .join(backing.selectExpr(*BACKING.names), [*RUN, "seq"], "left")
    )
    placed = (
        place(counted, clock_error_us=clock_error_us)
        .withColumn("observed", fn.expr("coalesce(whole, observed)"))
        .join(_wanted(records, history), [*GROUP], "left")
    )
    judged, deep = "(kind = 'connection' or judges)", "coalesce(deep, false)"
    counts = f"{deep} or named != '' or is_unnamed or kind = 'cluster'"
    # Columns that are not looked at are emptied.
    emptied = {"required": judged, "proof_set": f"{judged} or {deep}"}
    return placed.where(f"{judged} or deep is not null and ({counts})").selectExpr(
        *(
            f"if({emptied[name]}, {name}, null) as {name}" if name in emptied else name
            for name in COLUMNS
        )
    )


def place(
    records: DataFrame, kinds: Collection[str] = (*SCOPES, "cluster"), clock_error_us: int = 0
) -> DataFrame:
    """Put every record into the groups of these kinds that it may count or be judged in.

    Args:
        records: columns of NUMBERED, and `cluster`.
        kinds: of groups.
        clock_error_us: by how much the clocks of proxies may differ, µs.

    Returns:
        The records, once for each group, and once more for their cluster's where clocks may differ.
        `kind` becomes the kind of the group; `key`, `at`, `turn`, `judges`, `learns` and `maybe`
        are as in COLUMNS. `judged` marks the row by which a read is judged in a wider group.
    """
    places = ", ".join(_places(kinds, clock_error_us))
    kind = f"case place when '{_JUDGED}' then owed_in when '{_MAYBE}' then 'cluster' else place end"
    return (
        records.selectExpr("*", f"explode(array_compact(array({places}))) as place")
        .withColumn("kind", fn.expr(kind))
        .selectExpr(
            "*",
            f"place = '{_JUDGED}' as judged",
            f"place = '{_MAYBE}' as maybe",
        )
        .selectExpr("*", *(f"{value} as {name}" for name, value in _order(clock_error_us).items()))
    )


_JUDGED: Final = "judged"
"""The place at which a read is judged, if that is in a wider group than its connection."""

_MAYBE: Final = "maybe"
"""The place of a record in its cluster if clocks differ by as much as they may."""


def _places(kinds: Collection[str], clock_error_us: int) -> Iterator[str]:
    """The places of a record: one for each kind of group, and one more where it is judged."""
    yield f"if(is_judged and owed_in != 'connection', '{_JUDGED}', null)"
    writes = "(named != '' or is_unnamed)"
    tells = f"kind = 'statement' and ({writes} or observed != '' or is_read)"
    tells_all = f"{writes} or whole is not null"
    counts = {
        "connection": "kind = 'statement'",
        "user": tells,
        "application": f"{tells} and application != ''",
        "proxy": tells,
        "cluster": tells_all,
    }
    yield from (f"if({counts[kind]}, '{kind}', null)" for kind in counts if kind in kinds)
    if clock_error_us and "cluster" in kinds:
        yield f"if({tells_all}, '{_MAYBE}', null)"


def _order(clock_error_us: int) -> dict[str, str]:
    """The columns of a place: its key, what is done there, and when."""
    bound = "if(level = 'BOUNDED_STALENESS', coalesce(bound_us, 0), 0)"
    error = (
        f"case when maybe then -{clock_error_us} when kind = 'cluster' then {clock_error_us} "
        "else 0 end"
    )
    return {
        "key": KEY,
        "at": f"""case when kind = 'connection' then seq
            when judged then moment_us - {bound} else ended_us + {error} end""",
        "turn": "if(judged, 1, 0)",
        "judges": "judged or kind = 'connection' and is_judged and owed_in = 'connection'",
        "learns": "not judged",
    }


def _key_of(kind: str) -> str:
    """SQL for the key of a record's group of a kind."""
    return f"concat_ws('\\0', {', '.join(_KEYS[kind])})"


_KEY_OF: Final = " ".join(f"when '{kind}' then {_key_of(kind)}" for kind in SCOPES)
KEY: Final = f"case kind {_KEY_OF} else {_key_of('cluster')} end"
"""SQL for the key of a record's group, among the groups of its `kind`."""


def number_of(kind: str) -> str:
    """SQL: a number for a record's group of a kind; two have the same with probability 2**-64."""
    return f"xxhash64('{kind}', {', '.join(_KEYS[kind])})"


def number_of_owed(kinds: Iterable[str] = SCOPES) -> str:
    """SQL: the number of the group in which a read is judged; null if that is of no such kind."""
    cases = " ".join(f"when '{kind}' then {number_of(kind)}" for kind in kinds)
    return f"case owed_in {cases} end"


def _wanted(records: DataFrame, history: History) -> DataFrame:
    """The wider groups in which a read is judged; `deep`: what was seen in them counts, too."""
    cluster = f"{clusters.of_record(history.clusters)} as cluster"
    return (
        records.where("is_judged and owed_in != 'connection'")
        .selectExpr("owed_in as kind", cluster, *SESSION, "user", "application", "level")
        .selectExpr("kind", f"{KEY} as key", f"{among('level', SEEN_LEVELS)} as deep")
        .groupBy(*GROUP)
        .agg(fn.expr("bool_or(deep) as deep"))
    )

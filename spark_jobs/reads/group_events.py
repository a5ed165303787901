"""Puts into groups what statements tell, and the reads that must see it, in the order of time.

Each statement is told to each of its groups (`groups`), with what a read is compared with
(`plain_reads`): the bounds of what it wrote and saw, and of what it left open.

In a session the order is that of numbers: statements that are missing before a record concern its
own read, and what it adds itself only later ones. In other groups all that had ended at a read's
very moment counts.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from spark_jobs.gtid_columns import Bounds
from spark_jobs.promise import PROMISES, SCOPES
from spark_jobs.reads import groups
from spark_jobs.records.survey import Wanted
from spark_jobs.running import Kind
from spark_jobs.tables.schema import READ

OPENS, TELLS, WROTE, READS, ADDS = range(5)
"""What an event is; at one time they sort in this order.

OPENS: statements of a session are missing before a record. TELLS: a statement is told to a group
that is no session. WROTE: likewise, but only when it was acknowledged. READS: a read that is to be
judged. ADDS: a statement is told to its session.
"""

_CLAIMS: Final = ("proof_set", "required")


def is_promised() -> Column:
    """Whether a read's level promises something that can be judged."""
    bounded = (fn.col("level") != "BOUNDED_STALENESS") | fn.col("bound_us").isNotNull()
    return fn.col("level").isin(*PROMISES) & fn.col("scope").isin(*SCOPES) & bounded


def values(wanted: Mapping[str, Wanted], bounds: Bounds) -> dict[str, Kind]:
    """What events tell of statements: names, and how the values of several add up.

    ``wrote_us``: when a write was acknowledged. ``open_us`` and ``open_k``: when the mark was asked
    for that bounds what was left open, and its numbers of each source. ``blocked`` and ``blind``:
    whether a set was written or seen that has no bounds. ``low_k`` and ``top_k``: the least and the
    greatest number written; ``writes``: how many statements wrote something.
    ``seen_k``: the greatest number seen; ``sure``: whether something was certainly seen.
    """
    found: dict[str, Kind] = {"wrote_us": "max", "open_us": "max", "blocked": "max"}
    found |= {f"open_{k}": "max" for k in bounds.numbers}
    if any(want.own for want in wanted.values()):
        found |= {f"low_{k}": "min" for k in bounds.numbers}
        found |= {f"top_{k}": "max" for k in bounds.numbers}
        found |= {"writes": "sum"}
    if _sees(wanted):
        found |= {f"seen_{k}": "max" for k in bounds.numbers}
        found |= {"sure": "max", "blind": "max"}
    return found


def _sees(wanted: Mapping[str, Wanted]) -> bool:
    return "cluster" in wanted or any(want.seen for want in wanted.values())


def transform(
    rows: DataFrame, wanted: Mapping[str, Wanted], bounds: Bounds, error_us: int
) -> DataFrame:
    """Make the events.

    Args:
        rows: records as `plain_reads.bounded` makes them, with what they left open
            (`doubts.opened`).
        wanted: what reads must see, by the kind of group.
        bounds: the sources of each cluster.
        error_us: by how much clocks may differ, µs.

    Returns:
        `group`, `at`, `what`, and of each value ``told_…``; `read`, which is null for other events:
        a structure of what reads are judged by, so that the others take no room for its fields.
    """
    all_told = _told(wanted, bounds)
    events = fn.array_compact(fn.array(*_events(wanted, error_us)))
    statements = rows.select(
        *(value.alias(name) for name, value in all_told.items()), fn.inline(events)
    )
    statements = statements.select(
        "group",
        "at",
        "what",
        *(
            fn.when(_tells(name), _value(name, all_told)).alias(f"told_{name}")
            for name in values(wanted, bounds)
        ),
    )
    bounded = fn.col("level") == "BOUNDED_STALENESS"
    bound = fn.when(bounded, fn.coalesce("bound_us", fn.lit(0))).otherwise(0)
    judged = rows.where("is_judged").withColumn("moment", fn.col("moment_us") - bound)
    in_session = fn.col("owed_in") == "connection"
    kept = (*READ, *_CLAIMS, "owed_in", "cluster", *bounds.columns(*_CLAIMS), "moment")
    reads = judged.select(
        _group_of_read(wanted).alias("group"),
        fn.when(in_session, fn.col("seq")).otherwise(fn.col("moment")).alias("at"),
        fn.lit(READS).alias("what"),
        fn.struct(*kept).alias("read"),
    )
    return statements.unionByName(reads, allowMissingColumns=True)


def _events(wanted: Mapping[str, Wanted], error_us: int) -> list[Column]:
    """What is told of a record, and to which groups."""
    col, ended = fn.col, fn.col("ended_us")
    statement = col("kind") == "statement"
    writes = (col("named") != "") | col("is_unnamed")
    tells = statement & (writes | (col("observed") != "") | col("is_read"))
    events: list[Column] = []
    for kind, want in wanted.items():
        adds = fn.lit(True) if want.seen else writes
        if kind == "connection":
            events += [
                _event(col("hole") & statement, kind, OPENS, col("seq")),
                _event(statement & adds, kind, ADDS, col("seq")),
            ]
        elif kind == "cluster":
            there = writes | col("whole").isNotNull()
            events.append(_event(there, kind, TELLS, ended - error_us))
            if error_us:
                # A write may have ended so much earlier, but was certainly acknowledged later.
                events.append(_event(col("named") != "", kind, WROTE, ended + error_us))
        else:
            there = tells & adds
            if kind == "application":
                there &= fn.coalesce(col("application") != "", fn.lit(False))
            events.append(_event(there, kind, TELLS, ended))
    return events


def _event(where: Column, kind: str, what: int, at: Column) -> Column:
    parts = (
        groups.number_of(kind).alias("group"),
        at.alias("at"),
        fn.lit(what).alias("what"),
        fn.lit(kind == "cluster").alias("in_cluster"),
    )
    return fn.when(where, fn.struct(*parts))


def _group_of_read(wanted: Mapping[str, Wanted]) -> Column:
    found = fn.lit(0).cast("bigint")
    for kind in wanted:
        found = fn.when(fn.col("owed_in") == kind, groups.number_of(kind)).otherwise(found)
    return found


def _tells(name: str) -> Column:
    """Whether an event tells a value."""
    what = fn.col("what")
    if name == "wrote_us":
        return what.isin(TELLS, WROTE, ADDS)
    if name.startswith("open_"):
        return (what == OPENS) | (fn.col("is_unnamed") & what.isin(TELLS, ADDS))
    return what.isin(TELLS, ADDS)


def _value(name: str, all_told: Mapping[str, Column]) -> Column:
    """The value that an event tells of a statement; in a cluster, only what its primary showed."""
    of_primary = f"primary_{name}"
    if of_primary not in all_told:
        return fn.col(name)
    return fn.when(fn.col("in_cluster"), fn.col(of_primary)).otherwise(fn.col(name))


def _told(wanted: Mapping[str, Wanted], bounds: Bounds) -> dict[str, Column]:
    """What each statement tells, whatever the group: all are numbers, which are cheap to copy."""
    col = fn.col
    named = col("named") != ""
    found = {
        "is_unnamed": col("is_unnamed"),
        "wrote_us": fn.when(named, col("ended_us")),
        "open_us": col("asked_us"),
        "blocked": fn.when(named, col("named_odd").cast("int")),
        **{f"open_{k}": col(f"mark_top_{k}") for k in bounds.numbers},
    }
    if any(want.own for want in wanted.values()):
        for k in bounds.numbers:
            there = named & (col(f"named_top_{k}") > 0)
            found[f"low_{k}"] = fn.when(there, col(f"named_low_{k}"))
            found[f"top_{k}"] = fn.when(there, col(f"named_top_{k}"))
        found |= {"writes": fn.when(named, 1)}
    if not _sees(wanted):
        return found
    looks = fn.coalesce("whole", "observed") != ""
    of_primary = looks & col("role").eqNullSafe("primary")
    nobody = fn.lit(False)
    in_cluster = _seen(named, of_primary, nobody, bounds)
    claims = col("is_read") & col("role").eqNullSafe("replica") & (col("outcome") == "ok")
    claims &= col("proof").isin("known", "waited") & col("proof_set").isNotNull()
    found |= {f"primary_{name}": value for name, value in in_cluster.items()}
    return found | _seen(named, looks, claims, bounds)


def _seen(named: Column, looks: Column, claims: Column, bounds: Bounds) -> dict[str, Column]:
    """What was seen.

    Args:
        named: whether a record names what it wrote.
        looks: whether an answer that counts holds GTIDs.
        claims: whether a replica's claim counts.
        bounds: the sources of each cluster.
    """
    col = fn.col
    waited = claims & (col("proof") == "waited")
    found: dict[str, Column] = {}
    sure = fn.lit(0)
    for k in bounds.numbers:
        certain = fn.greatest(
            fn.when(named, col(f"named_top_{k}")),
            fn.when(looks, _looked(f"top_{k}")),
            fn.when(waited, col(f"proof_set_top_{k}")),
        )
        top = fn.greatest(certain, fn.when(claims, col(f"proof_set_top_{k}")))
        found[f"seen_{k}"] = fn.when(top > 0, top)
        sure = fn.greatest(sure, fn.when(certain > 0, 1).otherwise(0))
    blind = (looks & _looked("odd")) | (claims & col("proof_set_odd"))
    return found | {"sure": sure, "blind": blind.cast("int")}


def _looked(bound: str) -> Column:
    """A bound of what an answer showed: its server's whole set, if it holds that."""
    is_whole = fn.col("whole").isNotNull()
    return fn.when(is_whole, fn.col(f"whole_{bound}")).otherwise(fn.col(f"observed_{bound}"))

"""Puts into groups what statements tell, and the reads that must see it, in the order of time.

Each statement is told to each of its groups (`groups`), with what a read is compared with
(`plain_reads`): the bounds of what it wrote and saw, and of what it left open.

In a session the order is that of numbers: statements that are missing before a record concern its
own read, and what it adds itself only later ones. In other groups all that had ended at a read's
very moment counts.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import DataFrame

from spark_jobs.gtid_columns import Bounds
from spark_jobs.promise import PROMISES, SCOPES
from spark_jobs.reads import doubts, groups
from spark_jobs.records.survey import Wanted
from spark_jobs.running import Kind
from spark_jobs.sql import all_of, among
from spark_jobs.tables.schema import READ

OPENS, TELLS, WROTE, READS, ADDS = range(5)
"""What an event is; at one time they sort in this order.

OPENS: statements of a session are missing before a record. TELLS: a statement is told to a group
that is no session. WROTE: likewise, but only when it was acknowledged. READS: a read that is to be
judged. ADDS: a statement is told to its session.
"""

_CLAIMS: Final = ("proof_set", "required")


def is_promised() -> str:
    """SQL: whether a read's level promises something that can be judged."""
    bounded = "(level != 'BOUNDED_STALENESS' or bound_us is not null)"
    return all_of((among("level", PROMISES), among("scope", SCOPES), bounded))


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
    events = ", ".join(_events(wanted, error_us))
    statements = rows.selectExpr(
        *(f"{value} as {name}" for name, value in all_told.items()),
        f"inline(array_compact(array({events})))",
    ).selectExpr(
        "group",
        "at",
        "what",
        *(
            f"if({_tells(name, error_us)}, {_value(name, all_told)}, null) as told_{name}"
            for name in values(wanted, bounds)
        ),
    )
    bound = "if(level = 'BOUNDED_STALENESS', coalesce(bound_us, 0), 0)"
    kept = (*READ, *_CLAIMS, "owed_in", "cluster", *bounds.columns(*_CLAIMS), "moment")
    reads = (
        rows.where("is_judged")
        .selectExpr("*", f"moment_us - {bound} as moment")
        .selectExpr(
            f"coalesce({groups.number_of_owed(wanted)}, 0L) as `group`",
            "if(owed_in = 'connection', seq, moment) as at",
            f"{READS} as what",
            f"struct({', '.join(kept)}) as read",
        )
    )
    return statements.unionByName(reads, allowMissingColumns=True)


def _events(wanted: Mapping[str, Wanted], error_us: int) -> Iterator[str]:
    """What is told of a record, and to which groups."""
    writes = "(named != '' or is_unnamed)"
    tells = f"kind = 'statement' and ({writes} or observed != '' or is_read)"
    for kind, want in wanted.items():
        adds = "true" if want.seen else writes
        if kind == "connection":
            yield _event("hole and kind = 'statement'", kind, OPENS, "seq")
            yield _event(f"kind = 'statement' and {adds}", kind, ADDS, "seq")
        elif kind == "cluster":
            there = f"{writes} or whole is not null"
            yield _event(there, kind, TELLS, f"ended_us - {error_us}")
            if error_us:
                # A write may have ended so much earlier, but was certainly acknowledged later.
                yield _event("named != ''", kind, WROTE, f"ended_us + {error_us}")
        else:
            is_named = "application != ''" if kind == "application" else "true"
            yield _event(f"{tells} and {adds} and {is_named}", kind, TELLS, "ended_us")


def _event(where: str, kind: str, what: int, at: str) -> str:
    in_cluster = "true" if kind == "cluster" else "false"
    group = groups.number_of(kind)
    fields = f"{group} as `group`, {at} as at, {what} as what, {in_cluster} as in_cluster"
    return f"if({where}, struct({fields}), null)"


def _tells(name: str, error_us: int) -> str:
    """Whether an event tells a value."""
    if name == "wrote_us" and error_us:
        return f"what in ({WROTE}, {ADDS}) or what = {TELLS} and not in_cluster"
    if name.startswith("open_"):
        return f"what = {OPENS} or is_unnamed and what in ({TELLS}, {ADDS})"
    return f"what in ({TELLS}, {ADDS})"


def _value(name: str, all_told: Mapping[str, str]) -> str:
    """The value that an event tells of a statement; in a cluster, only what its primary showed."""
    of_primary = f"primary_{name}"
    return f"if(in_cluster, {of_primary}, {name})" if of_primary in all_told else name


def _told(wanted: Mapping[str, Wanted], bounds: Bounds) -> dict[str, str]:
    """What each statement tells, whatever the group: all are numbers, which are cheap to copy."""
    found = {
        "is_unnamed": "is_unnamed",
        "wrote_us": "if(named != '', ended_us, null)",
        "open_us": "asked_us",
        "blocked": "if(named != '', int(named_odd), null)",
        **{f"open_{k}": f"mark_top_{k}" for k in bounds.numbers},
    }
    if any(want.own for want in wanted.values()):
        for k in bounds.numbers:
            for bound in ("low", "top"):
                there = f"named != '' and named_top_{k} > 0"
                found[f"{bound}_{k}"] = f"if({there}, named_{bound}_{k}, null)"
        found |= {"writes": "if(named != '', 1, null)"}
    if not _sees(wanted):
        return found
    looks = "coalesce(whole, observed) != ''"
    claims = f"is_read and role <=> 'replica' and outcome = 'ok' and {doubts.HAS_CLAIM}"
    in_cluster = _seen(f"{looks} and role <=> 'primary'", "false", bounds)
    found |= {f"primary_{name}": value for name, value in in_cluster.items()}
    return found | _seen(looks, claims, bounds)


def _seen(looks: str, claims: str, bounds: Bounds) -> dict[str, str]:
    """What was seen.

    Args:
        looks: whether an answer that counts holds GTIDs.
        claims: whether a replica's claim counts.
        bounds: the sources of each cluster.
    """
    found: dict[str, str] = {}
    sure = ["0"]
    for k in bounds.numbers:
        certain = f"""greatest(if(named != '', named_top_{k}, null),
            if({looks}, {_looked(f"top_{k}")}, null),
            if({claims} and proof = 'waited', proof_set_top_{k}, null))"""
        top = f"greatest({certain}, if({claims}, proof_set_top_{k}, null))"
        found[f"seen_{k}"] = f"if({top} > 0, {top}, null)"
        sure.append(f"if({certain} > 0, 1, 0)")
    blind = f"{looks} and {_looked('odd')} or {claims} and proof_set_odd"
    return found | {"sure": f"greatest({', '.join(sure)}, 0)", "blind": f"int({blind})"}


def _looked(bound: str) -> str:
    """A bound of what an answer showed: its server's whole set, if it holds that."""
    return f"if(whole is not null, whole_{bound}, observed_{bound})"

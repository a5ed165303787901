"""GTID sets as columns of numbers.

A source is a UUID, with its tag if there is one. A cluster has few, and each has a slot: of a set,
a slot holds the first interval of that source and the end of its last one. That is all of most
sets. Whatever else a set holds is in a list beside it, and a text that this module cannot read is
*odd*: nothing is concluded from it here.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

MOST: Final = 4
"""Sources of a cluster beyond which it is left to the judge."""

_UUID: Final = "[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_TAG: Final = "[a-z_][a-z0-9_]{0,31}"
_INTERVAL: Final = "[1-9][0-9]{0,17}(?:-[1-9][0-9]{0,17})?"
"""No server has counted beyond 18 digits so far; a set that goes there is odd."""

_SET: Final = f"^(?:(?:^|,){_UUID}(?=:)(?::{_INTERVAL})*(?::{_TAG}(?::{_INTERVAL})+)*)+$"
_PLAIN: Final = f"^{_INTERVAL}$"
"""What follows the source in a set of one interval."""

_TAIL: Final = f"^{_INTERVAL}(?::{_INTERVAL})*+$"
"""What follows the source in a set that has no other."""

_SKELETON: Final = re.compile(f"{_UUID}(?::{_TAG})*(?:,{_UUID}(?::{_TAG})*)*")


def skeleton(text: Column) -> Column:
    """A set without its numbers: there are few, and `sources` reads them."""
    plain = fn.substring(text, 37, 1 << 20).rlike("^:[0-9]+(-[0-9]+)?$")
    bare = fn.regexp_replace(text, ":[0-9]+(-[0-9]+)?(?=[:,]|$)", "")
    return fn.when(plain, fn.substring(text, 1, 36)).otherwise(bare)


def sources(skeleton: str) -> set[str]:
    """The sources that may be in a set with this skeleton; none of what is no set."""
    found: set[str] = set()
    if _SKELETON.fullmatch(skeleton):
        for item in skeleton.split(","):
            uuid, *tags = item.split(":")
            found |= {uuid, *(f"{uuid}:{tag}" for tag in tags)}
    return found


def split(
    rows: DataFrame,
    name: str,
    of: Mapping[str, Sequence[str]],
    slots: int,
    cluster: str = "cluster",
) -> DataFrame:
    """Read a column of sets.

    Args:
        rows: with columns `name` (text or null) and `cluster`.
        name: of the column.
        of: the sources of each cluster, `slots` at most.
        slots: how many there are.
        cluster: the column that names the cluster.

    Returns:
        The rows, with `name`_odd, and for each slot `name`_low, _high (of its first interval) and
        _top (of its last), followed by the slot's number; 0 where it has none. `name`_many: whether
        there may be more than one interval (`intervals`).
    """
    text = fn.col(name)
    places = [_place(of, slot, fn.col(cluster)) for slot in range(slots)]
    # A cast that fails costs more than all the rest, so what is no number is never tried.
    rows = rows.withColumns(
        {
            f"{name}_digits{slot}": fn.coalesce(_tail(text, source).rlike(_PLAIN), fn.lit(False))
            for slot, source in enumerate(places)
        }
    )
    for slot, source in enumerate(places):
        tail = fn.when(fn.col(f"{name}_digits{slot}"), _tail(text, source))
        rows = rows.withColumns(
            {
                f"{name}_from{slot}": fn.substring_index(tail, "-", 1).cast("bigint"),
                f"{name}_to{slot}": fn.substring_index(tail, "-", -1).cast("bigint"),
            }
        )
    plain = [
        fn.coalesce(fn.col(f"{name}_from{slot}") <= fn.col(f"{name}_to{slot}"), fn.lit(False))
        for slot in range(slots)
    ]
    rows = rows.withColumns({f"{name}_plain{slot}": it for slot, it in enumerate(plain)})
    is_plain = reduce(or_, (fn.col(f"{name}_plain{slot}") for slot in range(slots)))
    bare = text.isNull() | (text == "")
    lone = [
        ~is_plain & fn.coalesce(_tail(text, source).rlike(_TAIL), fn.lit(False))
        for source in places
    ]
    rows = rows.withColumns({f"{name}_lone{slot}": it for slot, it in enumerate(lone)})
    is_lone = reduce(or_, (fn.col(f"{name}_lone{slot}") for slot in range(slots)))
    tail = fn.lit(None).cast("string")
    for slot, source in enumerate(places):
        tail = fn.when(fn.col(f"{name}_lone{slot}"), _tail(text, source)).otherwise(tail)
    # Of intervals that rise the numbers do; functions of whole arrays cost less than one of each.
    numbers = fn.split(fn.replace(tail, fn.lit("-"), fn.lit(":")), ":").cast("array<bigint>")
    rows = rows.withColumns(
        {
            f"{name}_numbers": numbers,
            f"{name}_spans": fn.contains(fn.substring_index(tail, ":", 1), fn.lit("-")),
            f"{name}_mixed": fn.when(~is_plain & ~bare & ~is_lone, _intervals(text, places)),
        }
    )
    numbers, every = fn.col(f"{name}_numbers"), fn.col(f"{name}_mixed")
    rises = (numbers == fn.sort_array(numbers)) & (
        fn.size(fn.array_distinct(numbers)) == fn.size(numbers)
    )
    tokens = fn.filter(fn.split(text, "[:,]"), lambda it: it.rlike("^[0-9]+(-[0-9]+)?$"))
    whole = fn.when(is_lone, rises).otherwise(
        text.rlike(_SET)
        & (fn.size(every) == fn.size(tokens))
        & fn.forall(every, lambda it: it["low"] <= it["high"])
        & (every == fn.array_sort(every))
    )
    found = {
        f"{name}_odd": fn.coalesce(~is_plain & ~bare & ~whole, fn.lit(False)),
        f"{name}_many": ~is_plain & ~bare,
    }
    for slot in range(slots):
        mine = fn.filter(every, partial(_is_of, slot)) if slots > 1 else every
        is_mine, low, high = (fn.col(f"{name}_{part}{slot}") for part in ("plain", "from", "to"))
        first, tops = fn.get(mine, fn.lit(0)), fn.transform(mine, lambda it: it["high"])
        second = fn.when(fn.col(f"{name}_spans"), 1).otherwise(0)
        parts = {
            "low": (low, fn.get(numbers, fn.lit(0)), first["low"]),
            "high": (high, fn.get(numbers, second), first["high"]),
            "top": (high, fn.array_max(numbers), fn.array_max(tops)),
        }
        for part, (alone, rising, mixed) in parts.items():
            value = (
                fn.when(is_mine, alone)
                .when(fn.col(f"{name}_lone{slot}"), rising)
                .when(every.isNotNull(), mixed)
            )
            # What is odd begins nowhere and covers nothing.
            found[f"{name}_{part}{slot}"] = fn.coalesce(
                fn.when(~found[f"{name}_odd"], value), fn.lit(0)
            )
    scaffold = [
        f"{name}_{part}{slot}"
        for part in ("digits", "from", "to", "plain", "lone")
        for slot in range(slots)
    ]
    scaffold += [f"{name}_{part}" for part in ("numbers", "spans", "mixed")]
    return rows.withColumns(found).drop(*scaffold)


def intervals(
    name: str, of: Mapping[str, Sequence[str]], slots: int, cluster: str = "cluster"
) -> Column:
    """Every interval of a set that is not odd, as (slot, low, high); this costs a lot.

    Args:
        name: of the column of sets.
        of: the sources of each cluster, `slots` at most.
        slots: how many there are.
        cluster: the column that names the cluster.
    """
    text = fn.col(name)
    places = [_place(of, slot, fn.col(cluster)) for slot in range(slots)]
    found = _intervals(text, places)
    for slot, source in enumerate(places):
        tail = _tail(text, source)
        items = fn.transform(fn.split(tail, ":"), partial(_interval, slot))
        found = fn.when(fn.coalesce(tail.rlike(_TAIL), fn.lit(False)), items).otherwise(found)
    return found


def covers(name: str, low: str, top: str, slots: int) -> Column:
    """Whether one interval of a split set holds all that is between two columns, slot by slot.

    `low`, `top`: their names without the slot's number; `top` is 0 where there is nothing.
    """
    return reduce(
        and_,
        (
            (fn.col(f"{top}{slot}") == 0)
            | (
                (fn.col(f"{name}_low{slot}") <= fn.col(f"{low}{slot}"))
                & (fn.col(f"{top}{slot}") <= fn.col(f"{name}_high{slot}"))
            )
            for slot in range(slots)
        ),
    )


def prefix(name: str, slot: int) -> Column:
    """The end of 1..n in a slot of a split set; 0 if it does not begin there."""
    return fn.when(fn.col(f"{name}_low{slot}") == 1, fn.col(f"{name}_high{slot}")).otherwise(0)


def _place(of: Mapping[str, Sequence[str]], slot: int, cluster: Column) -> Column:
    """The source of a slot; null if the cluster has none there."""
    its = {name: names[slot] for name, names in of.items() if len(names) > slot}
    if len(of) == 1 and its:
        return fn.lit(next(iter(its.values())))
    chosen = fn.lit(None).cast("string")
    for name, source in its.items():
        chosen = fn.when(cluster == name, source).otherwise(chosen)
    return chosen


def _tail(text: Column, source: Column) -> Column:
    """What follows a source at the beginning of a set; null if another is there."""
    return fn.when(
        fn.startswith(text, fn.concat(source, fn.lit(":"))),
        fn.substr(text, fn.length(source) + 2),
    )


def _intervals(text: Column, places: Sequence[Column]) -> Column:
    """Every interval of the sources that have a slot."""
    lists = []
    for slot, source in enumerate(places):
        uuid, tag = (
            fn.split_part(source, fn.lit(":"), fn.lit(1)),
            fn.split_part(source, fn.lit(":"), fn.lit(2)),
        )
        before = fn.when(tag == "", "").otherwise(fn.concat(fn.lit("(?::[^,]*?)?:"), tag))
        pattern = fn.concat(
            fn.lit("(?:^|,)"), uuid, before, fn.lit(f"((?::{_INTERVAL})+)(?=[:,]|$)")
        )
        found = fn.call_function("regexp_extract", text, pattern, fn.lit(1))
        items = fn.filter(fn.split(found, ":"), lambda it: it != "")
        lists.append(
            fn.when(source.isNull(), fn.array().cast(_LIST)).otherwise(
                fn.transform(items, partial(_interval, slot))
            )
        )
    return lists[0] if len(lists) == 1 else fn.concat(*lists)


def _is_of(slot: int, interval: Column) -> Column:
    return interval["slot"] == slot


def _interval(slot: int, text: Column) -> Column:
    return fn.struct(
        fn.lit(slot).alias("slot"),
        fn.substring_index(text, "-", 1).cast("bigint").alias("low"),
        fn.substring_index(text, "-", -1).cast("bigint").alias("high"),
    )


_LIST: Final = "array<struct<slot:int,low:bigint,high:bigint>>"

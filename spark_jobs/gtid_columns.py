"""GTID sets in columns of text, for Spark: their intervals, bounds of each source, and unions.

A *source* is a TSID: ``uuid`` or ``uuid:tag``. Only texts as servers write them are read here:
lower case, no spaces, intervals in order. Other texts are `odd`, and are left to `spark_jobs.gtid`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs import sql

_UUID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NUMBER: Final = "[1-9][0-9]{0,17}"
_TAG: Final = "[a-z_][a-z0-9_]{0,31}"
# Possessive quantifiers: the others would take a frame of Java's stack for each interval.
_ITEM: Final = f"{_UUID}(?::(?:{_TAG}:)?{_NUMBER}(?:-{_NUMBER})?)++"
_SET: Final = f"^{_ITEM}(?:,{_ITEM})*+$"
_PLAIN_ITEM: Final = f"{_UUID}(?::{_NUMBER}(?:-{_NUMBER})?)++"
_WITHOUT_TAGS: Final = f"^{_PLAIN_ITEM}(?:,{_PLAIN_ITEM})*+$"
_UUID_LENGTH: Final = 36
_MARK: Final = "#"
"""Stands between a UUID and its tag in `_untagged`, where a colon stands between intervals."""


MOST_SOURCES: Final = 16
"""How many sources of a cluster have bounds; sets with others are odd."""


def is_formed(text: str) -> str:
    """SQL: whether a text is a set that is not empty, as a server writes it but for its order."""
    return f"coalesce({text} rlike '{_SET}', false)"


def _untagged(text: str) -> str:
    """A set with one item for each source; a tag is part of the item's name. Null if it is odd."""
    uuid = f"substring(item, 1, {_UUID_LENGTH})"
    rest = f"substring(item, {_UUID_LENGTH + 1})"
    named = f"regexp_replace({rest}, ':({_TAG})', concat(',', {uuid}, '{_MARK}$1'))"
    items = f"array_join(transform(split({text}, ','), item -> concat({uuid}, {named})), ',')"
    # An item whose first interval has a tag leaves its UUID alone.
    whole = f"trim(leading ',' from regexp_replace({items}, '(?:^|,){_UUID}(?=,)', ''))"
    return (
        f"case when {text} rlike '{_WITHOUT_TAGS}' then {text} "
        f"when {text} rlike '{_SET}' then {whole} end"
    )


def intervals(text: str) -> str:
    """SQL: the intervals of a set, an array of `source`, `low` and `high`; empty if it is odd."""
    low, high = (f"bigint(substring_index(span, '-', {which}))" for which in (1, -1))
    source = f"replace(substring_index(item, ':', 1), '{_MARK}', ':')"
    spans = f"slice(split(item, ':'), 2, {1 << 30})"
    made = f"struct({source} as source, {low} as low, {high} as high)"
    each = f"transform({spans}, span -> {made})"
    every = f"flatten(transform(split({_untagged(text)}, ','), item -> {each}))"
    return (
        f"coalesce({every}, cast(array() as array<struct<source:string,low:bigint,high:bigint>>))"
    )


def united(
    rows: DataFrame,
    keys: Sequence[str],
    sets: str,
    name: str = "gtids",
    latest: Sequence[str] = (),
) -> DataFrame:
    """Unite the sets of each group.

    Args:
        rows: `keys`, `sets` and `latest`.
        keys: columns; rows that agree in them form a group. Nulls agree with each other.
        sets: a column of texts that are formed (`is_formed`).
        name: of the column of unions.
        latest: columns of which each group keeps the greatest value.

    Returns:
        `keys`, `latest` and `name`. Groups without intervals have no row; with `latest`, they have
        one, whose union is "".
    """
    newest = [fn.expr(f"max({column}) as {column}") for column in latest]
    explode = "explode_outer" if latest else "explode"
    # Most sets of a group begin with the same number, so this leaves few rows to sort.
    each = (
        rows.selectExpr(*keys, *latest, f"{explode}({intervals(sets)}) as interval")
        .selectExpr(*keys, *latest, "interval.*")
        .groupBy(*keys, "source", "low")
        .agg(fn.expr("max(high) as high"), *newest)
    )
    in_order = f"partition by {', '.join([*keys, 'source'])} order by low rows"
    before = f"({in_order} between unbounded preceding and 1 preceding)"
    apart = f"int(coalesce(low > max(high) over {before} + 1, true)) as apart"
    island = f"sum(apart) over ({in_order} unbounded preceding) as island"
    islands = (
        each.selectExpr("*", apart)
        .selectExpr("*", island)
        .groupBy(*keys, "source", "island")
        .agg(fn.expr("min(low) as low"), fn.expr("max(high) as high"), *newest)
    )
    span = "struct(low, if(low = high, string(low), concat_ws('-', low, high)) as span)"
    spans = fn.expr(f"sort_array(collect_list({span})).span as spans")
    item = "if(source is null, null, concat_ws(':', source, array_join(spans, ':')))"
    joined = fn.expr(f"array_join(sort_array(collect_list({item})), ',') as {name}")
    items = islands.groupBy(*keys, "source").agg(spans, *newest)
    return items.groupBy(*keys).agg(*newest, joined)


_PARTS: Final = (("low", 1, 1), ("end", 1, -1), ("start", -1, 1), ("top", -1, -1))
"""The bounds of a set: of its first (1) or last (-1) interval, the least or greatest number."""


class Bounds:
    """The bounds of sets, source by source: the columns that a query compares.

    For a set in the column `x` and the k-th source of the row's cluster, `of` makes the columns
    ``x_low_k`` and ``x_end_k``, the first interval, and ``x_start_k`` and ``x_top_k``, the last
    one; all are 0 where the set has nothing of that source. ``x_odd`` tells that the columns do not
    say what bounds the set: it is not written as servers write it, or has other sources.

    Attributes:
        sources: the sources of each cluster.
        width: the largest number of sources of a cluster.
    """

    def __init__(self, sources: Mapping[str, Iterable[str]]) -> None:
        self.sources = {
            cluster: tuple(sorted(names))[:MOST_SOURCES] for cluster, names in sources.items()
        }
        self.width = max(map(len, self.sources.values()), default=0)

    @property
    def numbers(self) -> range:
        """The numbers k of sources."""
        return range(self.width)

    def of(self, rows: DataFrame, *names: str) -> DataFrame:
        """Add the bounds of the sets in some columns; an empty or missing set has none.

        Args:
            rows: the columns and `cluster`.
            names: the columns.
        """
        texts = {name: f"{name}_text" for name in names}
        named = {
            cluster: [source.replace(":", _MARK) for source in sources]
            for cluster, sources in self.sources.items()
        }
        untagged = Bounds(named)
        texted = (f"coalesce({_untagged(name)}, '') as {text}" for name, text in texts.items())
        spans = (
            f"{_spans(text, untagged.source(k))} as {name}_spans_{k}"
            for name, text in texts.items()
            for k in self.numbers
        )
        rows = rows.selectExpr("*", *texted).selectExpr("*", *spans)
        made: list[str] = []
        for name, text in texts.items():
            spans_of = [f"{name}_spans_{k}" for k in self.numbers]
            for k, of_source in enumerate(spans_of):
                made += (
                    f"{_bound(of_source, which, end)} as {name}_{part}_{k}"
                    for part, which, end in _PARTS
                )
            made.append(f"{_is_odd(name, text, spans_of)} as {name}_odd")
        spent = [*texts.values(), *(f"{name}_spans_{k}" for name in names for k in self.numbers)]
        return rows.selectExpr("*", *made).drop(*spent)

    def columns(self, *names: str) -> list[str]:
        """The names of the columns that `of` makes."""
        each = [f"{name}_{part}_{k}" for name in names for k in self.numbers for part, *_ in _PARTS]
        return [*each, *(f"{name}_odd" for name in names)]

    def prefix(self, name: str, k: int) -> str:
        """SQL for the n of a set's interval 1..n; 0 if there is none."""
        return f"if({name}_low_{k} = 1, {name}_end_{k}, 0L)"

    def source(self, k: int) -> str:
        """SQL for the k-th source of a row's cluster."""
        names = {
            cluster: sources[k] for cluster, sources in self.sources.items() if k < len(sources)
        }
        if len(self.sources) == 1:
            return sql.literal(*names.values())
        cases = " ".join(
            f"when {sql.literal(cluster)} then {sql.literal(name)}"
            for cluster, name in names.items()
        )
        return f"case cluster {cases} else '-' end"


def _spans(text: str, source: str) -> str:
    """The intervals of one source in a text of `_untagged`, as text."""
    place = f"instr(concat(',', {text}), concat(',', {source}, ':'))"
    behind = f"substring({text}, {place} + length({source}) + 1)"
    return f"if({place} > 0, substring_index({behind}, ',', 1), '')"


def _bound(spans: str, which: int, end: int) -> str:
    """A bound of the first (1) or last (-1) interval: its least (1) or greatest (-1) number."""
    span = f"substring_index({spans}, ':', {which})"
    # Not `try_cast`: where that fails, it has thrown and caught an exception.
    return f"if({spans} = '', 0L, bigint(substring_index({span}, '-', {end})))"


def _is_odd(given: str, text: str, spans: Sequence[str]) -> str:
    items = f"length({text}) - length(replace({text}, ',', '')) + 1"
    known = " + ".join(["0", *(f"int({text_of_source} != '')" for text_of_source in spans)])
    falls = " or ".join(["false", *map(_falls, spans)])
    return f"coalesce({given} != '', false) and ({text} = '' or {known} != {items} or {falls})"


def _falls(spans: str) -> str:
    """Whether intervals are not in order, or touch."""
    low, high = (f"bigint(substring_index(span, '-', {which}))" for which in (1, -1))
    # The last number of the intervals so far; null once they are not in order.
    step = f"(upto, span) -> if({low} > upto + 1 and {high} >= {low}, {high}, null)"
    several = f"aggregate(split({spans}, ':'), -1L, {step}) is null"
    alone = f"{_bound(spans, 1, 1)} > {_bound(spans, 1, -1)}"
    return f"({spans} != '' and if({spans} like '%:%', {several}, {alone}))"

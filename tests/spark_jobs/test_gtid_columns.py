"""Sets in columns of Spark hold what `spark_jobs.gtid` reads in them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as fn

from spark_jobs import gtid_columns
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from tests.spark_jobs.routing_log import UUID

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.not_fast, pytest.mark.timeout(900)]

U, V, OTHER = UUID["primary"], UUID["r1"], UUID["other"]
SOURCES = (U, f"{U}:blue", f"{V}:red", V)
BOUNDS = gtid_columns.Bounds({"c": SOURCES})

UNORDERED = (f"{U}:5:1", f"{U}:1-5:3-9", f"{U}:1-2:3", f"{U}:1,{U}:3", f"{V}:7:blue:2:1,{U}:9")
"""Formed, but not as a server would put them in order."""

ODD = (
    *("", "no set", "-", ",", U, f"{U}:", f"{U}:0", f"{U}:05", f"{U}:1-", f"{U}:-1", f"{U}:1--2"),
    *(f"{U}:1,", f",{U}:1", f"{U}:1 ,{V}:2", f" {U}:1", f"{U.upper()}:1", f"{U}:Blue:1"),
    *(f"{U}:blue", f"{U}:blue:", f"{U}:blue:red:1", f"{U[1:]}:1", f"{U}:1;{V}:2", f"{U}:1#blue:2"),
    *(f"{U}:{2**63}", f"{U}:1-{10**30}", f"{U}:{'a' * 33}:1"),
)
"""Not formed; a server may read some of them."""


def text_of(spans: Iterable[tuple[str, int, int]]) -> str:
    gtids = GtidSet()
    for tsid, start, size in spans:
        gtids.add(tsid, start, start + size)
    return gtids.text()


def texts(random: Random) -> Iterator[str]:
    """Sets as servers write them."""
    yield from (f"{U}:1", f"{U}:1-5", f"{U}:2-5:7", f"{U}:1:blue:1-3:7,{V}:red:4", f"{OTHER}:1-3")
    yield from (f"{U}:1-{10**18 - 1}", f"{U}:2", f"{U}:3", f"{U}:1-3")
    yield from apart(f"{U}:1:blue:1-3:7,{V}:red:4")
    for _ in range(150):
        yield text_of(
            (
                random.choice((*SOURCES, *SOURCES, OTHER)),
                random.randint(1, 30),
                random.randint(1, 5),
            )
            for _ in range(random.randint(1, 6))
        )


@pytest.fixture(scope="module")
def rows(spark: "SparkSession") -> "dict[str | None, Row]":
    """What Spark says of each text."""
    every = [(text,) for text in {*texts(Random(1)), *UNORDERED, *ODD}]
    given = spark.createDataFrame([*every, (None,)], "text string")
    told = BOUNDS.of(
        given.withColumns(
            {
                "cluster": fn.lit("c"),
                "formed": fn.expr(gtid_columns.is_formed("text")),
                "spans": fn.expr(gtid_columns.intervals("text")),
            }
        ),
        "text",
    ).withColumns({f"prefix_{k}": fn.expr(BOUNDS.prefix("text", k)) for k in BOUNDS.numbers})
    return {row.text: row for row in told.collect()}


def test_texts_that_are_formed(rows: "dict[str | None, Row]") -> None:
    odd = {*ODD, None}
    assert {text: row.formed for text, row in rows.items()} == {
        text: text not in odd for text in rows
    }


def test_intervals(rows: "dict[str | None, Row]") -> None:
    for text, row in rows.items():
        found = GtidSet()
        for span in row.spans:
            found.add(span.source, span.low, span.high + 1)
        assert found == parse(text or "") if row.formed else not row.spans


def apart(text: str) -> list[str]:
    """The same set as several, one for each source."""
    return [text_of([(tsid, start, end - start)]) for tsid, start, end in parse(text)]


def test_bounds(rows: "dict[str | None, Row]") -> None:
    for text, row in rows.items():
        if text in UNORDERED or (text and not row.formed):
            assert row.text_odd
            continue
        spans: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for source, start, end in parse(text or ""):
            spans[source].append((start, end - 1))
        assert row.text_odd == (not spans.keys() <= set(SOURCES))
        for number, source in enumerate(sorted(SOURCES)):
            each = spans.get(source, [(0, 0)])
            first, last = each[0], each[-1]
            assert (row[f"text_low_{number}"], row[f"text_end_{number}"]) == first
            assert (row[f"text_start_{number}"], row[f"text_top_{number}"]) == last
            assert row[f"prefix_{number}"] == (first[1] if first[0] == 1 else 0)


@pytest.mark.parametrize("many", [10_000, pytest.param(100_000, marks=pytest.mark.deep)])
def test_unions(spark: "SparkSession", many: int) -> None:
    random = Random(2)
    formed = [*texts(random), *UNORDERED]
    groups = [*range(30), None]
    rows = [
        (random.choice(groups), random.choice(formed), random.randint(1, 9)) for _ in range(300)
    ]
    rows += [(31, "", 4), (31, "no set", 7), (32, "", 5), (32, f"{U}:1", 3)]
    odd, even = (":".join(map(str, range(first, 2 * many + 1, 2))) for first in (1, 2))
    rows += [(33, f"{U}:{odd}", 1), (33, f"{U}:{even}", 2), (34, f"{U}:{odd}", 1)]
    expected: defaultdict[int | None, GtidSet] = defaultdict(GtidSet)
    newest: defaultdict[int | None, int] = defaultdict(int)
    for group, text, number in rows:
        newest[group] = max(number, newest[group])
        with suppress(MalformedGtidSetError):
            expected[group].update(parse(text))
    given = spark.createDataFrame(rows, "group bigint, gtids string, number bigint")
    plain = gtid_columns.united(given, ["group"], "gtids", "union")
    whole = gtid_columns.united(given, ["group"], "gtids", "union", latest=["number"])
    told = plain.withColumn("number", fn.lit(None)).unionByName(whole).collect()
    without = {row.group: row.union for row in told if row.number is None}
    found = {row.group: row.union for row in told if row.number is not None}
    assert {row.group: row.number for row in told if row.number is not None} == dict(newest)
    assert {group: parse(text) for group, text in found.items()} == dict(expected)
    assert found.pop(31) == ""
    assert found == without
    assert found[33] == f"{U}:1-{2 * many}"

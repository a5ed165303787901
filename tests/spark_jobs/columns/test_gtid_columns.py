"""GTID sets read by column expressions, beside the audit's own parser."""

from typing import TYPE_CHECKING

import pytest

from spark_jobs.gtid import MalformedGtidSetError, parse
from tests.spark_jobs.routing_log import UUID

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

A, B, C = UUID["primary"], UUID["r1"], UUID["r2"]
SOURCES = [A, f"{A}:blue", B]
READ = (
    *("", f"{A}:7", f"{A}:1-7", f"{A}:5-7", f"{B}:1-9", f"{A}:1-57:63:70-71"),
    *(f"{A}:blue:4", f"{A}:1-5:blue:1-3,{B}:1-2:9", f"{A}:blue:2-3:8,{B}:6"),
    f"{A}:{10**18 - 1}",
)
ODD = (
    *(
        f"{A}:1-5:",
        f"{A}:5-3",
        f"{A}:0",
        f"{A}",
        f"{A}:blue",
        f"{A}:1-5:blue",
        f"{A}:01",
        f"{A}:+5",
    ),
    *(f"{A}:1 - 5", f"{A.upper()}:5", f"{A}:5-5x", "5-7", f"{A}:9:3", f"{A}:1-5,{A}:9", f"{C}:1-5"),
    *(f"{A}:1-5,{C}:1", f"{A}:green:1-5", f"{A}:1-5:green:1-5", f"{A}:{10**18}", f"{A}:1--5", ","),
)


def test_a_set_is_read_right_or_called_odd(spark: "SparkSession") -> None:
    from spark_jobs.columns import gtid_columns

    texts = [*READ, *ODD]
    rows = spark.createDataFrame(
        [("c", number, text) for number, text in enumerate(texts)],
        "cluster string, n int, x string",
    )
    sources = {"c": SOURCES}
    every = gtid_columns.intervals("x", sources, 3).alias("every")
    split = gtid_columns.split(rows, "x", sources, 3).select("*", every).orderBy("n").collect()
    assert [row.x for row in split if not row.x_odd] == list(READ)
    for row in split[: len(READ)]:
        for slot, source in enumerate(SOURCES):
            spans = [(start, end - 1) for tsid, start, end in parse(row.x) if tsid == source]
            low, high = spans[0] if spans else (0, 0)
            told = tuple(row[f"x_{part}{slot}"] for part in ("low", "high", "top"))
            assert told == (low, high, spans[-1][1] if spans else 0)
            if row.x_many:
                assert [(it.low, it.high) for it in row.every if it.slot == slot] == spans
        assert row.x_many == (len(list(parse(row.x))) > 1)


def test_the_sources_of_a_set_show_in_its_skeleton(spark: "SparkSession") -> None:
    from pyspark.sql import functions as fn

    from spark_jobs.columns import gtid_columns

    rows = spark.createDataFrame([(text,) for text in READ], "x string")
    for row in rows.select("x", gtid_columns.skeleton(fn.col("x")).alias("bare")).collect():
        assert gtid_columns.sources(row.bare) >= {tsid for tsid, _, _ in parse(row.x)}
    assert gtid_columns.sources("nonsense") == set()
    with pytest.raises(MalformedGtidSetError):
        parse("nonsense")

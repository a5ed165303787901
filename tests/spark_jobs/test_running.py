"""Running aggregates are those of all rows before, however a group is divided."""

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from spark_jobs.running import Kind, Order, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.not_fast, pytest.mark.timeout(300)]

Values = list[int]


def amount(kind: Kind, values: Values) -> int | None:
    if not values:
        return None
    if kind == "xor":
        found = 0
        for value in values:
            found ^= value
        return found
    return {"max": max, "min": min, "sum": sum}[kind](values)


@pytest.mark.parametrize("including", [True, False])
@pytest.mark.parametrize("width", [None, 7, 1000])
def test_what_rows_up_to_each_amount_to(
    spark: "SparkSession", width: int | None, *, including: bool
) -> None:
    random = Random(width)
    rows = [
        (random.randrange(4), at, random.choice((None, random.randint(1, 99))))
        for at in random.sample(range(200), 150)
    ]
    kinds: tuple[Kind, ...] = ("max", "min", "sum", "xor")
    values: dict[str, tuple[Kind, str]] = {f"the_{kind}": (kind, "value") for kind in kinds}
    bucket = None if width is None else f"floor(at / {width})"
    order = Order(["group"], ("at",), including=including, bucket=bucket)
    given = spark.createDataFrame(rows, "group int, at int, value int")
    found = running(given, order, values).select(*given.columns, *values).collect()
    expected = []
    before: defaultdict[int, Values] = defaultdict(list)
    for group, at, value in sorted(rows, key=lambda row: row[1]):
        met = list(before[group])
        if value is not None:
            before[group].append(value)
        told = before[group] if including else met
        expected.append((group, at, value, *(amount(kind, told) for kind in kinds)))
    assert sorted(map(tuple, found), key=lambda row: row[1]) == expected

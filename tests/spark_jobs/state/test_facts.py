"""Facts are merged exactly, whatever their texts look like."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from spark_jobs.state import facts
from spark_jobs.state.facts import FACT, SAW, UNREAD, WROTE
from tests.spark_jobs.routing_log import UUID

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.not_fast, pytest.mark.timeout(600)]

U = UUID["primary"]
LARGE = 2**62


def test_texts_that_spark_cannot_unite(spark: "SparkSession") -> None:
    zero = {field.name: None if field.nullable else 0 for field in FACT}
    zero |= dict.fromkeys(("proxy", "run", "user"), "")  # type: ignore[arg-type]  # of other types
    texts = (f"{U}:1-2", f"{U.upper()}:3", f" {U}:{LARGE}", "no set", f"{U}:9-8")
    made = [
        zero | {"what": what, "gtids": text, "ended_us": number}
        for what in (WROTE, SAW)
        for number, text in enumerate(texts)
    ]
    rows = [tuple(it[name] for name in FACT.names) for it in made]
    found = facts.merged(spark.createDataFrame(rows, FACT)).collect()
    union = f"{U}:1-3:{LARGE}"
    assert {(row.what, row.gtids, row.ended_us) for row in found} == {
        (WROTE, union, 2),
        (SAW, union, 2),
        (UNREAD, "", 4),
    }

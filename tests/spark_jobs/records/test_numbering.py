"""Numbers go on where those of the time before ended."""

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from spark_jobs.records import numbering
from spark_jobs.tables.schema import RECORD
from tests.spark_jobs.routing_log import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE = (
    "proxy string, worker long, run string, seq long, ended_us long, session long, ordinal long"
)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_numbers_that_go_on(spark: "SparkSession") -> None:
    run = Run()
    for session in (7, 8, 7, 8, 7):
        run.read(session, "r1", "none")
    last = run.records[2]
    whose = (run.proxy, 0, run.name, last["seq"])
    known = [(*whose, last["ended_us"], None, None), (*whose, None, 7, 2), (*whose, None, 8, 1)]
    later = [tuple(it[name] for name in RECORD.names) for it in run.records[3:]]
    records = spark.createDataFrame(later, StructType(RECORD.fields)).selectExpr(
        "*", "seq as fingerprint"
    )

    def strange(*rows: tuple[object, ...]) -> list[tuple[int, int, bool]]:
        found = numbering.strange(records, spark.createDataFrame(list(rows), BEFORE))
        its = found.select("seq", "missing", "hole").orderBy("seq").collect()
        return [tuple(it) for it in its]

    assert strange(*known) == []
    assert strange(known[0], known[1]) == [(4, 0, True)]
    assert strange(*known[1:]) == []
    assert strange(
        (*whose[:3], 1, 0, None, None), *((*it[:3], 1, *it[4:]) for it in known[1:])
    ) == [(4, 2, False)]

"""How GTID sets grow and break up over time (WL#6559).

Every WAIT and every answer to a question for `gtid_executed` carries a set as text. A set without
gaps stays as short as it is, however much is written; each gap that never closes makes it longer
for good. A server without a binary log also keeps one row of `mysql.gtid_executed` per interval.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_jobs.day import HOUR_US
from spark_jobs.tables.report_schema import GROWTH
from spark_jobs.traffic.quantiles import begin_of


def growth(records: DataFrame) -> DataFrame:
    """List the largest sets of each hour.

    Args:
        records: RECORD.

    Returns:
        GROWTH.
    """
    executed = """case when kind = 'proof' and proof = 'probed' then proof_set
        when kind = 'statement' and outcome = 'ok' then observed end"""
    required = "if(kind = 'statement', required, null)"
    server, role = "coalesce(server, '')", "coalesce(role, '')"
    measured = (
        _measured("executed", executed, server, role),
        _measured("required", required, "''", "''"),
    )
    key = ("hour_us", "what", "server", "role")
    return (
        records.selectExpr(
            f"{begin_of(HOUR_US, 'ended_us')} as hour_us", f"inline(array({', '.join(measured)}))"
        )
        .where("gtids != ''")
        .selectExpr(*key, *(f"bigint({size}) as {name}" for name, size in _SIZES.items()))
        .groupBy(*key)
        .agg(*map(fn.expr, ("count(*) as sets", *(f"max({name}) as {name}" for name in _SIZES))))
        .orderBy("what", "server", "role", "hour_us")
        .selectExpr(*GROWTH.names)
    )


def _measured(what: str, gtids: str, server: str, role: str) -> str:
    return f"struct('{what}' as what, {server} as server, {role} as role, {gtids} as gtids)"


_TAGS: Final = "regexp_count(gtids, ':[a-zA-Z_]')"
_SIZES: Final = {
    "sources": "length(gtids) - length(replace(gtids, ',', '')) + 1",
    "tags": _TAGS,
    "intervals": f"length(gtids) - length(replace(gtids, ':', '')) - {_TAGS}",
    "bytes": "length(gtids)",
}
"""Sizes of a canonical set: `uuid:1-5:7:tag:1-3,uuid:…`, so every part follows a colon, and only a
tag has a letter after a colon."""

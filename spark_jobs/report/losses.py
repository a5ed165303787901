"""Counts lost transactions."""

from collections.abc import Iterable

from spark_jobs.gtid import GtidSet, parse
from spark_jobs.tables.row import Row


def count_lost(rows: Iterable[Row]) -> int:
    """Count the transactions that LOST names, each once, even if several proxies report it.

    Long sets are cut short in LOST, so there may be more.
    """
    lost = GtidSet()
    for row in rows:
        lost.update(parse(row.text("gtids").removesuffix(",…")))
    return lost.count()

"""How much was lost."""

from collections.abc import Iterable

from spark_jobs.gtid import GtidSet, parse
from spark_jobs.row import Row


def count_lost(rows: Iterable[Row]) -> int:
    """Count the transactions that LOST names; several proxies may tell of the same.

    A long set is cut short there, so they are at least as many.
    """
    lost = GtidSet()
    for row in rows:
        lost.update(parse(row.text("gtids").removesuffix(",…")))
    return lost.count()

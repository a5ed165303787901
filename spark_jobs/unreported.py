"""What primaries came to have while the log was written, and no record names: a count, no verdict.

A primary's whole sets grow by every transaction, through whatever door it came. What is left of
that growth when all named GTIDs are taken away was written past the proxies, or in a record that is
missing, or by a statement that could not name it: such statements are counted beside it. What was
written before a cluster's first whole set or after its last is not seen.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from spark_jobs.columns.survey import Survey
from spark_jobs.columns.tellings import Told
from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse

_NOTHING: Final = np.zeros(0, np.int64), np.zeros(0, np.int64)


class Unreported(NamedTuple):
    """A count.

    Attributes:
        transactions: that primaries came to have, and no record names.
        statements: that may have committed something, and could not name it.
    """

    transactions: int
    statements: int

    @property
    def sentences(self) -> list[str]:
        """What the report says of it."""
        if not self.transactions:
            return []
        return [
            f"Unreported writes: {self.transactions:,} transactions that primaries came to have are"
            f" named by no record; {self.statements:,} statements may have committed some without a"
            " name, the rest came through other doors, or their records are missing."
        ]


def count(found: Survey, told: Told, clusters: Mapping[str, str]) -> Unreported:
    """Compare the growth of primaries' whole sets with what records name.

    Args:
        found: of some records.
        told: of the same.
        clusters: cluster of each proxy.
    """
    bounds = sorted(
        (reign.first[0], clusters[run[0]], reign.first[1], reign.last[1])
        for (run, _), reign in found.reigns.items()
        if reign.first is not None and reign.last is not None
    )
    grown = growth(bound[1:] for bound in bounds)
    named = 0
    for cluster, gtids in grown.items():
        for tsid, start, end in gtids:
            low, high = told.named.get((cluster, tsid), _NOTHING)
            inside = np.minimum(high + 1, end) - np.maximum(low, start)
            named += int(inside[inside > 0].sum())
    grew = sum(gtids.count() for gtids in grown.values())
    return Unreported(max(0, grew - named), found.nameless if grew else 0)


def growth(sets: Iterable[tuple[str, str, str]]) -> dict[str, GtidSet]:
    """What each cluster's primaries came to have.

    Args:
        sets: cluster, first and last whole set of whoever was told them, the earliest in front.
    """
    began: dict[str, GtidSet] = {}
    grown: defaultdict[str, GtidSet] = defaultdict(GtidSet)
    for cluster, first, last in sets:
        try:
            base = began.setdefault(cluster, parse(first))
            grown[cluster].update(parse(last).minus(base))
        except MalformedGtidSetError:
            continue
    return dict(grown)

"""Counts transactions that primaries came to have and that no record names; this is no verdict.

A primary's whole sets grow with every transaction, whether or not it came through a proxy. GTIDs of
that growth that no record names were written past the proxies; or their record is missing; or the
statement did not report its GTID. Such statements are counted, too. What was written before a
cluster's first whole set or after its last is not counted.
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
    """The counts.

    Attributes:
        transactions: how many transactions primaries came to have that no record names.
        statements: how many statements may have committed something without reporting a GTID.
    """

    transactions: int
    statements: int

    @property
    def sentences(self) -> list[str]:
        """Sentences for the report."""
        if not self.transactions:
            return []
        return [
            f"Unreported writes: {self.transactions:,} transactions that primaries came to have are"
            f" named by no record. {self.statements:,} statements may have committed some of them"
            " without reporting a GTID; the others did not pass through the proxies, or their"
            " records are missing."
        ]


def count(found: Survey, told: Told, clusters: Mapping[str, str]) -> Unreported:
    """Compare the growth of primaries' whole sets with what records name.

    Args:
        found: the survey of some records.
        told: what the same records told.
        clusters: the cluster of each proxy.
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
    """The GTIDs that each cluster's primaries came to have.

    Args:
        sets: cluster, and the first and last whole set of a reign; the earliest reigns first.
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

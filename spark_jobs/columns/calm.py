"""Finds clusters in which a primary's whole set lacked acknowledged writes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spark_jobs.columns import places
from spark_jobs.columns.chunk import EVERYTHING, Chunk
from spark_jobs.columns.piece import Piece, batches
from spark_jobs.columns.places import Places
from spark_jobs.columns.series import WROTE, Series
from spark_jobs.tables.schema import RUN


@dataclass(slots=True)
class Rough:
    """The clusters that were found.

    Attributes:
        clusters: names of clusters in which some whole set of a primary lacked acknowledged writes.
    """

    clusters: set[str]

    def add(self, other: "Rough") -> None:
        """Add the clusters of another piece."""
        self.clusters |= other.clusters


def rough(
    piece: Piece,
    clusters: Mapping[str, str],
    sources: Mapping[str, frozenset[str]],
    since_us: int,
    folder: str,
) -> Rough:
    """Check some whole sets.

    Args:
        piece: part of the table ``tides`` of `tellings.tell`.
        clusters: the cluster of each proxy.
        sources: the sources of what was written, by cluster.
        since_us: times in series are counted from then.
        folder: the folder of the series.
    """
    found, series = Rough(set()), Series.open(folder)
    for batch in batches(piece, [*RUN, "dispatched_us", "whole"]):
        chunk = Chunk(batch, EVERYTHING)
        its, sets, of = Places(chunk, clusters), chunk.sets, chunk.set("whole")
        at = chunk.number("dispatched_us") - since_us
        for source in sorted({it for names in sources.values() for it in names}):
            end, _ = series.find(WROTE, places.series(its.cluster, source), at, until=True)
            prefix = np.zeros(len(sets.odd), np.int64)
            if source in sets.sources:
                prefix = sets.prefixes(sets.sources.index(source))
            # Sets from before `since_us` were checked by the audit of that time.
            there = (end >= 0) & (at >= 0)
            lacks = there & (np.where(there, series.most_x[end], 0) > prefix[of])
            for code in np.unique(its.cluster_codes[lacks]):
                found.clusters.add(its.clusters[code])
    return found

"""Whether a primary's whole sets had all that had been acknowledged when it was asked."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spark_jobs.columns import places
from spark_jobs.columns.chunk import EVERYTHING, Chunk
from spark_jobs.columns.piece import Piece, batches
from spark_jobs.columns.places import Places
from spark_jobs.columns.series import WROTE, Series
from spark_jobs.schema import RUN


@dataclass(slots=True)
class Rough:
    """Clusters in which one had not.

    Attributes:
        clusters: their names.
    """

    clusters: set[str]

    def add(self, other: "Rough") -> None:
        """Take another piece's."""
        self.clusters |= other.clusters


def rough(
    piece: Piece,
    clusters: Mapping[str, str],
    sources: Mapping[str, frozenset[str]],
    since_us: int,
    folder: str,
) -> Rough:
    """Look through some whole sets.

    Args:
        piece: of ``tides``, as `tellings.tell` writes them.
        clusters: of each proxy.
        sources: of what was written, by cluster.
        since_us: times in series are counted from then.
        folder: of the series.
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
            # What was said before all of this was looked at then.
            there = (end >= 0) & (at >= 0)
            lacks = there & (np.where(there, series.most_x[end], 0) > prefix[of])
            for code in np.unique(its.cluster_codes[lacks]):
                found.clusters.add(its.clusters[code])
    return found

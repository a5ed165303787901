"""Makes tellings of what was left open in each group, and of the tide marks that bound it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import NEVER, Flags, Numbers
from spark_jobs.columns import hashes, places, sets
from spark_jobs.columns.chunk import EVERYTHING, Chunk
from spark_jobs.columns.piece import Piece, batches, write
from spark_jobs.columns.places import DOUBTED, Places
from spark_jobs.columns.series import DOUBT, Telling, thinned
from spark_jobs.columns.survey import Wanted

COLUMNS: Final = (
    *("kind", "proxy", "worker", "run", "seq", "session", "user", "application", "ended_us"),
    *("is_unnamed", "hole", "mark"),
)


@dataclass(frozen=True, slots=True)
class Marks:
    """The tide marks of a cluster, in the order of their numbers.

    Attributes:
        numbers: the numbers of the marks.
        asked_us: when each mark and all before it had been asked for; NEVER if one of them cannot
            be read.
        tops: by source, the greatest number of it in each mark and all before it.
    """

    numbers: Numbers
    asked_us: Numbers
    tops: Mapping[str, Numbers]


def marks(told: Iterable[tuple[str, int, int, str]]) -> dict[str, Marks]:
    """Make Marks of rows of cluster, number, time of the question, and set."""
    by_cluster: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for cluster, number, at_us, text in told:
        by_cluster[cluster].append((number, at_us, text))
    found = {}
    for cluster, rows in by_cluster.items():
        rows.sort()
        its = sets.parse(pa.array([text for *_, text in rows], pa.string()))
        asked = np.where(its.odd, NEVER, np.array([at_us for _, at_us, _ in rows]))
        found[cluster] = Marks(
            numbers=np.array([number for number, *_ in rows]),
            asked_us=np.maximum.accumulate(asked),
            tops={
                source: np.maximum.accumulate(its.tops(place))
                for place, source in enumerate(its.sources)
            },
        )
    return found


@dataclass(slots=True)
class Doubted:
    """Counts over some pieces.

    Attributes:
        tellings: how many tellings there are.
        sources: the sources of marks, by cluster.
    """

    tellings: int = 0
    sources: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, other: "Doubted") -> None:
        """Add the counts of another piece."""
        self.tellings += other.tellings
        for cluster, names in other.sources.items():
            self.sources[cluster] |= names


def tell(
    piece: Piece,
    clusters: Mapping[str, str],
    wanted: Mapping[str, Wanted],
    known: Mapping[str, Marks],
    since_us: int,
    error_us: int,
    folder: Path,
) -> Doubted:
    """Make tellings of what was left open.

    Args:
        piece: COLUMNS of statements that left something open, as Parquet.
        clusters: the cluster of each proxy.
        wanted: the kinds of groups that are needed.
        known: the marks, by cluster.
        since_us: times in series are counted from then.
        error_us: by how much clocks may differ, µs.
        folder: takes the tellings.
    """
    doubted = Doubted()
    tables: list[pa.Table] = []
    for batch in batches(piece, COLUMNS):
        chunk = Chunk(batch, EVERYTHING)
        its = Places(chunk, clusters)
        bounds = _Bounds(chunk, its, known)
        unnamed = chunk.flag("is_unnamed")
        ended = np.maximum(chunk.number("ended_us") - since_us, 0)
        seq, hole = chunk.number("seq"), chunk.flag("hole")
        for kind in wanted:
            group, at, where = its.group(kind), ended, unnamed
            if kind == "connection":
                # Missing statements before a record concern the record's own read, too. What the
                # record itself left open concerns only later reads.
                at, where = seq - hole, unnamed | hole
            elif kind == "application":
                where = unnamed & chunk.text("application").filled
            elif kind == "cluster":
                at = np.maximum(ended - error_us, 0)
            for telling in bounds.tellings(group, at, np.flatnonzero(where)):
                tables += (it.table() for it in thinned(telling))
        for cluster, marks_ in known.items():
            doubted.sources[cluster] |= set(marks_.tops)
    write(tables, folder, piece)
    doubted.tellings = sum(it.num_rows for it in tables)
    return doubted


class _Bounds:
    """The tide mark that bounds each record of a chunk."""

    def __init__(self, chunk: Chunk, its: Places, known: Mapping[str, Marks]) -> None:
        self._asked = np.full(len(chunk), NEVER)
        self._tops: dict[str, Numbers] = {}
        number, there = chunk.number("mark"), chunk.known("mark")
        names = its.clusters
        for code, cluster in enumerate(names):
            marks_ = known.get(cluster)
            if marks_ is None:
                continue
            mine: Flags = there & (its.cluster_codes == code)
            rows = np.flatnonzero(mine)
            place = np.searchsorted(marks_.numbers, number[rows])
            self._asked[rows] = marks_.asked_us[place]
            for source, tops in marks_.tops.items():
                every = self._tops.setdefault(source, np.zeros(len(chunk), np.int64))
                every[rows] = tops[place]

    def tellings(self, group: Numbers, at: Numbers, rows: Numbers) -> Iterable[Telling]:
        """The tellings of some records."""
        zero = np.zeros(len(rows), np.int64)
        doubted = places.series(group[rows], DOUBTED)
        yield Telling(DOUBT, doubted, at[rows], self._asked[rows], zero, zero)
        for source, tops in self._tops.items():
            there = tops[rows] > 0
            its, nothing = rows[there], zero[there]
            of_source = places.series(group[its], hashes.of(source))
            yield Telling(DOUBT, of_source, at[its], tops[its], nothing, nothing)

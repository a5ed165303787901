"""All that is known of a log when its reads are settled."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from spark_jobs.columns.chunk import Rules
from spark_jobs.columns.doubts import Doubted, Marks
from spark_jobs.columns.survey import Survey
from spark_jobs.columns.tellings import Form, Told

if TYPE_CHECKING:
    from spark_jobs.primary_history import Gaps, Term

_STEPS: Final = 32
"""Steps of a history of gaps that a read is held against."""

_MOST_SOURCES: Final = 64
"""Of a cluster, beyond which it is left to the judge."""


class Learned(Protocol):
    """What of `primary_history.History` counts here."""

    @property
    def clusters(self) -> "Mapping[str, str]":
        """Of each proxy."""

    @property
    def unplaced(self) -> frozenset[str]:
        """Those that may be any."""

    @property
    def terms(self) -> "Mapping[str, Sequence[Term]]":
        """Of each cluster."""

    @property
    def gaps(self) -> "Mapping[tuple[str, str], Gaps]":
        """Of each cluster and each proxy."""

    @property
    def since_us(self) -> int:
        """From when on it is known in what order things happened."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a replica must have to have reached a tide mark and all before it.

    Attributes:
        asked_us: when the newest of them was asked for.
        tops: the ends of sources; NEVER where that cannot be read.
    """

    asked_us: int
    tops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """From some moment on records are missing that may concern a place.

    Attributes:
        from_us: since when.
        unbounded: nothing bounds what they may tell.
        mark: what does; None if that needs nothing.
    """

    from_us: int
    unbounded: bool
    mark: Mark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is known by now.

    Attributes:
        rules: which records are read, and which reads judged.
        clusters: of each proxy.
        unplaced: clusters that may be any.
        crowded: clusters with too many sources to be judged here.
        writers: the servers that wrote or may have, by cluster.
        turned_us: since when another primary may have been there, by cluster.
        own: sources of what was written, by cluster.
        seen: sources of what was seen.
        shown: sources of what servers showed.
        doubted: sources of what bounds what was left open.
        gaps: in the log, by cluster and by proxy, in the order of their times.
        forms: of primaries' whole sets.
        known_us: from when on it is known in what order things happened.
        since_us: times in series are counted from then.
        series: the directory of `series`.
        doubts: the directory of those of what was left open; None if nothing was.
    """

    rules: Rules
    clusters: Mapping[str, str]
    unplaced: frozenset[str]
    crowded: frozenset[str]
    writers: Mapping[str, frozenset[str | None]]
    turned_us: Mapping[str, int]
    own: Mapping[str, frozenset[str]]
    seen: Mapping[str, frozenset[str]]
    shown: Mapping[str, frozenset[str]]
    doubted: Mapping[str, frozenset[str]]
    gaps: Mapping[tuple[str, str], Sequence[Gap]]
    forms: Mapping[int, Form]
    known_us: int
    since_us: int
    series: str
    doubts: str | None


def make(
    found: Survey,
    told: Told,
    history: Learned,
    *,
    rules: Rules,
    since_us: int,
    marks: Mapping[str, Marks],
    doubted: Doubted,
    series: str,
    doubts: str | None,
) -> Plan:
    """Put it together.

    Args:
        found: by the first pass.
        told: by the second.
        history: the primary's.
        rules: which records are read, and which reads judged.
        since_us: times in series are counted from then.
        marks: tide marks of clusters.
        doubted: what was left open.
        series: the directory of `series`.
        doubts: the directory of those of what was left open; None if nothing was.
    """
    writers: defaultdict[str, set[str | None]] = defaultdict(set)
    for proxy, uuid in found.writers:
        writers[history.clusters[proxy]].add(uuid)
    crowded = {
        name
        for where in (told.own, told.seen, told.shown)
        for name, its in where.items()
        if len(its) > _MOST_SOURCES
    }
    return Plan(
        rules=rules,
        clusters=history.clusters,
        unplaced=history.unplaced,
        crowded=frozenset(crowded),
        writers={name: frozenset(its) for name, its in writers.items()},
        turned_us={
            name: min(term.from_us for term in its) for name, its in history.terms.items() if its
        },
        own=_frozen(told.own),
        seen=_frozen(told.seen),
        shown=_frozen(told.shown),
        doubted=_frozen(doubted.sources),
        gaps={key: _gaps(key, its, history, marks) for key, its in history.gaps.items()},
        forms=told.forms,
        known_us=history.since_us,
        since_us=since_us,
        series=series,
        doubts=doubts,
    )


def _frozen(sources: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(its) for name, its in sources.items()}


def _gaps(
    key: tuple[str, str], gaps: "Gaps", history: Learned, marks: Mapping[str, Marks]
) -> list[Gap]:
    """The steps of a history of gaps, with what bounds each."""
    whose, name = key
    its = marks.get(name if whose == "cluster" else history.clusters[name])
    found = []
    for from_us, unbounded, number in gaps.steps(_STEPS):
        mark = None
        if number and its is not None:
            place = int(np.searchsorted(its.numbers, number))
            tops = {source: int(tops[place]) for source, tops in its.tops.items()}
            mark = Mark(int(its.asked_us[place]), tops)
        found.append(Gap(from_us, unbounded or (bool(number) and its is None), mark))
    return found

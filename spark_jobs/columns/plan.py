"""Collects what `settle` must know of a log."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from spark_jobs.columns.chunk import Rules
from spark_jobs.columns.doubts import Doubted, Marks
from spark_jobs.columns.survey import Survey
from spark_jobs.columns.tellings import Form, Told

if TYPE_CHECKING:
    from spark_jobs.primaries.primary_history import Gaps, Term

_STEPS: Final = 32
"""How many steps of a history of gaps are kept at most."""

_MOST_SOURCES: Final = 64
"""Clusters with more sources are left to the judge."""


class Learned(Protocol):
    """The part of `primary_history.History` that is needed here."""

    @property
    def clusters(self) -> "Mapping[str, str]":
        """The cluster of each proxy."""

    @property
    def unplaced(self) -> frozenset[str]:
        """Clusters that may be part of any other."""

    @property
    def terms(self) -> "Mapping[str, Sequence[Term]]":
        """The terms of primaries, by cluster."""

    @property
    def gaps(self) -> "Mapping[tuple[str, str], Gaps]":
        """The gaps in the log, by "cluster" or "proxy" and its name."""

    @property
    def since_us(self) -> int:
        """The order of events is known from then on."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a replica must have to have reached a tide mark and all before it.

    Attributes:
        asked_us: when the newest of them was asked for; NEVER if one cannot be read.
        tops: by source, the greatest number of it in these marks.
    """

    asked_us: int
    tops: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """From some moment on, records are missing that may concern a cluster or a proxy.

    Attributes:
        from_us: the moment.
        unbounded: whether nothing bounds what the missing records may have written.
        mark: the mark that bounds it; None if there is no bounded gap.
    """

    from_us: int
    unbounded: bool
    mark: Mark | None


class Laid(NamedTuple):
    """The series that were written for the third pass.

    Attributes:
        since_us: times in series are counted from then.
        series: their folder.
        doubts: the folder of the series of what was left open; None if nothing was.
    """

    since_us: int
    series: str
    doubts: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is known before reads are settled.

    Attributes:
        rules: which records are read, and which reads are judged.
        clusters: the cluster of each proxy.
        unplaced: clusters that may be part of any other.
        crowded: clusters with too many sources to be judged here.
        writers: by cluster, the servers that wrote or may have.
        turned_us: by cluster, since when there may have been another primary.
        own: by cluster, the sources of what was written.
        seen: by cluster, the sources of what was seen.
        shown: by cluster, the sources of what servers showed.
        doubted: by cluster, the sources of the marks that bound what was left open.
        gaps: the gaps in the log, by cluster and by proxy, in the order of their times.
        forms: the forms of primaries' whole sets, by their numbers.
        known_us: the order of events is known from then on.
        since_us: times in series are counted from then.
        series: the folder of the series.
        doubts: the folder of the series of what was left open; None if nothing was.
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
    marks: Mapping[str, Marks],
    doubted: Doubted,
    laid: Laid,
) -> Plan:
    """Make a plan.

    Args:
        found: the result of the first pass.
        told: the result of the second pass.
        history: the history of the primaries.
        rules: which records are read, and which reads are judged.
        marks: the tide marks, by cluster.
        doubted: what was left open.
        laid: the series.
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
        since_us=laid.since_us,
        series=laid.series,
        doubts=laid.doubts,
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

"""Tidegate's targets, as numbers: compared with its peers, and by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.measurement import Measurement
from benchmarks.summary import Summary, ratio, summarise


@dataclass(frozen=True, slots=True)
class Target:
    """The largest value that a figure may have, by itself or divided by a peer's.

    Attributes:
        figure: a field of `Measurement` and `Summary`.
        most: a ratio if there is a peer; else in the figure's own unit.
        peer: another contender; None for none.
    """

    workload: str
    figure: str
    most: float
    peer: str | None = None
    contender: str = "tidegate"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a target was met.

    Attributes:
        measured: the median over the rounds; for counts, their sum.
    """

    target: Target
    measured: float

    @property
    def met(self) -> bool:
        """Whether the target was reached."""
        return self.measured <= self.target.most


CPU: Final = "cpu_us_per_query"

WAIT_BUDGET_US: Final = 250_000
"""Tidegate's default ``--wait-budget``."""

TARGETS: Final = (
    Target("point-select", CPU, 1.15, "haproxy"),
    Target("point-select", CPU, 0.5, "router"),
    Target("point-select", CPU, 0.75, "router", contender="tidegate-pure"),
    Target("point-select", CPU, 1.08, "tidegate-unlogged"),
    Target("write-read", CPU, 0.4, "router"),
    Target("write-read", "stale", 0),
    Target("write-read-one", "p50_us", 0.5, "router"),
    Target("write-read-late", "stale", 0),
    Target("write-read-late", "p99_us", WAIT_BUDGET_US + 20_000),
    Target("rows", CPU, 1.3, "haproxy"),
)

PREPARED_MOST: Final = 1.1
"""The largest processor time of a prepared point select, where that of a text one is 1."""


def judge(measurements: Sequence[Measurement]) -> list[Verdict]:
    """The verdict on every target whose figures were measured."""
    known = {(m.contender, m.workload) for m in measurements}
    verdicts = []
    for target in TARGETS:
        if (target.contender, target.workload) not in known:
            continue
        if target.peer is None:
            summary = summarise(measurements, target.contender, target.workload)
            measured = _figure(summary, target.figure)
        else:
            measured = ratio(
                measurements, target.workload, target.figure, target.contender, target.peer
            )
        if measured is not None:
            verdicts.append(Verdict(target, measured))
    return verdicts


def prepared_against_text(measurements: Sequence[Measurement], contender: str) -> float | None:
    """Processor time of a prepared point select, a text one's = 1; None if one is missing."""
    known = {(m.contender, m.workload) for m in measurements}
    if not {(contender, "prepared"), (contender, "point-select")} <= known:
        return None
    prepared = summarise(measurements, contender, "prepared").cpu_us_per_query
    text = summarise(measurements, contender, "point-select").cpu_us_per_query
    return prepared / text if prepared and text else None


def _figure(summary: Summary, name: str) -> float | None:
    value: float | None = getattr(summary, name)
    return value

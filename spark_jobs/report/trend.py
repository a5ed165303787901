"""Small bar charts of the nights: one bar per night; in each chart, less is better."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.findings.results import Summary
from spark_jobs.markdown import span

NIGHTS: Final = 60
"""How many nights are drawn at most: the newest."""

_WIDTH: Final = 240
_HEIGHT: Final = 48
_GAP: Final = 0.25


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of one night.

    Attributes:
        x: its left edge.
        y: its top edge.
        width: its width.
        height: its height; a thin line if the value is 0.
        is_bad: whether the night needs attention.
        told: the tooltip.
    """

    x: float
    y: float
    width: float
    height: float
    is_bad: bool
    told: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure over the nights.

    Attributes:
        title: the name of the figure.
        newest: its value in the last night.
        most: the largest value, at the top of the chart.
        bars: from the oldest night to the newest.
    """

    title: str
    newest: str
    most: str
    bars: Sequence[Bar]
    width: int = _WIDTH
    height: int = _HEIGHT


def charts(nights: Sequence[Summary]) -> list[Chart]:
    """Draw the nights, from the oldest to the newest; an empty list if there are fewer than two.

    A loss is an answer of a primary that lacked acknowledged writes.
    """
    newest = sorted(nights, key=lambda night: night.date)[-NIGHTS:]
    if len(newest) < 2:
        return []
    return [
        _chart(
            "Violations",
            newest,
            lambda night: night.violations,
            _whole,
            lambda night: night.violations > 0,
        ),
        _chart("Losses", newest, lambda night: night.lost, _whole, lambda night: night.lost > 0),
        _chart("Not judged", newest, lambda night: 1 - night.coverage, share, _is_open),
        _chart("Duration", newest, lambda night: night.duration_s, _seconds, lambda _: False),
    ]


def share(value: float) -> str:
    """Format a share as percent, with enough digits to distinguish it from 0 % and 100 %."""
    if value in (0, 1):
        return f"{value:.0%}"
    for digits in range(1, 7):
        told = f"{value:.{digits}%}"
        if 0 < float(told[:-1]) < 100:
            return told
    return "under 0.000001%" if value < 0.5 else "over 99.999999%"


def _chart(
    title: str,
    nights: Sequence[Summary],
    value: Callable[[Summary], float],
    told: Callable[[float], str],
    is_bad: Callable[[Summary], bool],
) -> Chart:
    values = [value(night) for night in nights]
    most = max(values)
    step = _WIDTH / max(len(nights), 10)
    bars = []
    for number, (night, amount) in enumerate(zip(nights, values, strict=True)):
        height = max(2.0, _HEIGHT * amount / most) if amount else 1.0
        bars.append(
            Bar(
                round(number * step, 2),
                round(_HEIGHT - height, 2),
                round(step * (1 - _GAP), 2),
                round(height, 2),
                is_bad(night),
                f"{night.date}: {told(amount)}",
            )
        )
    return Chart(title, told(values[-1]), told(most), bars)


def _is_open(night: Summary) -> bool:
    return night.coverage < night.min_coverage


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(value: float) -> str:
    return span(round(value * 1_000_000))

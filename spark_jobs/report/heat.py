"""A heat map: one figure by hour and server."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_jobs.markdown import moment, span
from spark_jobs.report.names import shorten
from spark_jobs.tables.row import Row

FEW: Final = 100
"""A figure from fewer cases than this has no colour: the p99 of so few is the largest of them."""


class Cell(NamedTuple):
    """One hour of one server.

    Attributes:
        text: the figure; "" if there is none.
        warmth: 0 to 100, by the figure's position between the grid's smallest and largest; -1 for
            no colour.
        told: the tooltip.
    """

    text: str
    warmth: int
    told: str


@dataclass(frozen=True, slots=True)
class Heat:
    """A heat map.

    Attributes:
        title: what it shows.
        hours: headings of the columns.
        rows: each server, its short name and its cells.
    """

    title: str
    hours: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[Cell]]]


def grid(title: str, rows: Iterable[Row], column: str, count: str) -> Heat:
    """Make a heat map; of several rows with the same hour and server, the largest figure counts.

    Args:
        title: what it shows.
        rows: rows with `hour_us` and `server`.
        column: the column of the figure: microseconds, or null.
        count: the column that says from how many cases the figure is.
    """
    figures: dict[tuple[str, int], tuple[int, int]] = {}
    for row in rows:
        if row.has(column) and row.has("hour_us"):
            place = row.text("server"), row.number("hour_us")
            figure = row.number(column), row.number(count)
            figures[place] = max(figure, figures.get(place, (0, 0)))
    short = shorten(server for server, _ in figures)
    hours = sorted({hour for _, hour in figures})
    logs = [math.log10(1 + figure) for figure, cases in figures.values() if cases >= FEW]
    low, high = (min(logs), max(logs)) if logs else (0.0, 0.0)

    def cell(server: str, hour: int) -> Cell:
        figure, cases = figures.get((server, hour), (None, 0))
        if figure is None:
            return Cell("", -1, "")
        warmth = (math.log10(1 + figure) - low) / (high - low) if high > low else 0
        text = span(figure)
        told = f"{server}, {moment(hour)[:16]}: {text}, of {cases:,}"
        return Cell(text, round(100 * warmth) if cases >= FEW else -1, told)

    several = len({moment(hour)[:10] for hour in hours}) > 1
    return Heat(
        f"{title} (no colour: fewer than {FEW} cases):",
        [moment(hour)[5 if several else 11 : 13] for hour in hours],
        [(name, short[name], [cell(name, hour) for hour in hours]) for name in sorted(short)],
    )

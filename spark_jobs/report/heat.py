"""A heat map: one figure by hour and server."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spark_jobs.markdown import moment, span
from spark_jobs.row import Row


class Cell(NamedTuple):
    """One hour of one server.

    Attributes:
        text: the figure; "" if there is none.
        warmth: 0 to 100, by the figure's position between the grid's smallest and largest.
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
        rows: each server and its cells.
    """

    title: str
    hours: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]


def grid(title: str, rows: Iterable[Row], column: str) -> Heat:
    """Make a heat map; of several rows with the same hour and server, the largest figure counts.

    Args:
        title: what it shows.
        rows: rows with `hour_us` and `server`.
        column: the column of the figure: microseconds, or null.
    """
    figures: dict[tuple[str, int], int] = {}
    for row in rows:
        if row.has(column) and row.has("hour_us"):
            place = row.text("server"), row.number("hour_us")
            figures[place] = max(row.number(column), figures.get(place, 0))
    servers = sorted({server for server, _ in figures})
    hours = sorted({hour for _, hour in figures})
    logs = [math.log10(1 + figure) for figure in figures.values()]
    low, high = (min(logs), max(logs)) if logs else (0.0, 0.0)

    def cell(server: str, hour: int) -> Cell:
        figure = figures.get((server, hour))
        if figure is None:
            return Cell("", 0, "")
        place = (math.log10(1 + figure) - low) / (high - low) if high > low else 0
        text = span(figure)
        return Cell(text, round(100 * place), f"{server}, {moment(hour)[:16]}: {text}")

    several = len({moment(hour)[:10] for hour in hours}) > 1
    return Heat(
        title,
        [moment(hour)[5 if several else 11 : 13] for hour in hours],
        [(server, [cell(server, hour) for hour in hours]) for server in servers],
    )

"""Tables and sections of the page, before they are HTML."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.report.heat import Heat

_NUMBER: Final = re.compile(r"-?[0-9][0-9,.]*( ?%| µs| ms| s)?|")


class Table:
    """A table of texts.

    Attributes:
        heads: names of the columns.
        rows: the cells as text; whole numbers have their thousands parted.
        note: a sentence above it.
        folded: whether only the note is seen at first.
        numeric: for each column, whether it holds nothing but numbers, and so stands to the right.
    """

    __slots__ = ("folded", "heads", "note", "numeric", "rows")

    def __init__(
        self,
        heads: Sequence[str],
        rows: Iterable[Sequence[object]],
        note: str = "",
        *,
        folded: bool = False,
    ) -> None:
        self.heads = list(heads)
        self.rows = [[_text(value) for value in row] for row in rows]
        self.note = note
        self.folded = folded
        self.numeric = [
            any(row[place] for row in self.rows)
            and all(_NUMBER.fullmatch(row[place]) for row in self.rows)
            for place in range(len(self.heads))
        ]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        title: its heading, and what leads there.
        notes: sentences below the heading, each a paragraph.
        tables: what it shows; one without rows is left out.
        grids: what it shows by hour, above the tables; one without rows is left out.
    """

    title: str
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    grids: Sequence[Heat] = ()

    @property
    def anchor(self) -> str:
        """Where links to it lead."""
        return re.sub(r"[^a-z]+", "-", self.title.lower())

    @property
    def filled(self) -> list[Table]:
        """The tables that have rows."""
        return [table for table in self.tables if table.rows]


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)

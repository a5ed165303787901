"""Tables and sections of the page, before they are rendered as HTML."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.report.heat import Heat

_NUMBER: Final = re.compile(r"-?[0-9][0-9,.]*( ?%| µs| ms| s)?|")


class Table:
    """A table of texts.

    Attributes:
        heads: headings of the columns.
        rows: the cells as text; whole numbers have thousands separators.
        note: a sentence above the table.
        folded: whether only the note is visible at first.
        numeric: for each column, whether it holds only numbers, and so is aligned to the right.
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
        title: its heading, and the text of links to it.
        notes: sentences below the heading, each a paragraph.
        tables: its tables; those without rows are left out.
        grids: heat maps above the tables; those without rows are left out.
    """

    title: str
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    grids: Sequence[Heat] = ()

    @property
    def anchor(self) -> str:
        """The id that links to the section use."""
        return re.sub(r"[^a-z]+", "-", self.title.lower())

    @property
    def filled(self) -> list[Table]:
        """The tables that have rows."""
        return [table for table in self.tables if table.rows]


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)

"""Tables and sections of the page, before they are rendered as HTML."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_jobs.report.heat import Heat
from spark_jobs.report.names import shorten

_NUMBER: Final = re.compile(r"-?[0-9][0-9,.]*( ?%| µs| ms| s)?|")
_LONG: Final = 45
_NAMES: Final = ("Server", "Source", "Proxy", "User", "Answered by")
"""Headings of columns whose names are shortened."""


class Cell(NamedTuple):
    """A cell.

    Attributes:
        text: what it shows.
        title: the whole name if the text is shortened, else "".
        kind: "number" (aligned to the right), "long" (broken into lines) or "".
    """

    text: str
    title: str = ""
    kind: str = ""


class Table:
    """A table of texts.

    Attributes:
        heads: headings of the columns.
        rows: the cells as text; whole numbers have thousands separators.
        note: a sentence above the table.
        folded: whether only the note is visible at first.
    """

    __slots__ = ("folded", "heads", "note", "rows")

    def __init__(
        self,
        heads: Sequence[str],
        rows: Iterable[Sequence[object]],
        note: str = "",
        *,
        main: str = "",
        folded: bool = False,
    ) -> None:
        """Format a table.

        Args:
            heads: headings of the columns.
            rows: values of the cells.
            note: a sentence above the table.
            main: the heading of the column to be placed second. A narrow screen shows the first
                two, and the others by scrolling.
            folded: whether only the note is visible at first.
        """
        texts = [[_text(value) for value in row] for row in rows]
        columns = [_column(head, [row[place] for row in texts]) for place, head in enumerate(heads)]
        order = list(range(len(heads)))
        if main:
            order.insert(1, order.pop(heads.index(main)))
        self.heads = [Cell(heads[place], kind=_kind(columns[place])) for place in order]
        self.rows = [[columns[place][row] for place in order] for row in range(len(texts))]
        self.note = note
        self.folded = folded


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


def _column(head: str, texts: Sequence[str]) -> list[Cell]:
    if any(texts) and all(_NUMBER.fullmatch(text) for text in texts):
        return [Cell(text, kind="number") for text in texts]
    if head in _NAMES:
        short = shorten(texts)
        return [Cell(short[text], text if short[text] != text else "") for text in texts]
    return [Cell(text, kind="long" if len(text) > _LONG else "") for text in texts]


def _kind(column: Sequence[Cell]) -> str:
    return "number" if column and column[0].kind == "number" else ""


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)

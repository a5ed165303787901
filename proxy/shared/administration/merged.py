"""One table of what all workers answer to a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.shared.administration import digest_rows, server_rows, session_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.shared.administration.question import Answer, Cell, Question, Row, Subject

_DRAIN: Final = ("server", "state", "connections", "note")
COLUMNS: Final[dict[Subject, tuple[str, ...]]] = {
    "sessions": session_rows.COLUMNS,
    "servers": server_rows.COLUMNS,
    "digests": digest_rows.COLUMNS,
    "drain": _DRAIN,
    "undrain": _DRAIN,
    "reload": ("note",),
    "kill": ("id",),
}
_NOTES: Final[dict[Subject, str]] = {
    "sessions": "state",
    "servers": "state",
    "digests": "text",
}
"""The column in which a row says what the table lacks; by default `note`."""


class Merged(NamedTuple):
    """What there is to show.

    Attributes:
        columns: their names.
        rows: with their values.
        notes: what the rows lack, in sentences.
        refusal: why nothing was done; empty if it was.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    notes: Sequence[str]
    refusal: str = ""

    @property
    def objects(self) -> list[dict[str, Cell]]:
        """The rows as objects."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def texts(self, subject: Subject) -> list[tuple[str | None, ...]]:
        """The rows as SQL shows them, and one for each note."""
        found = [tuple([_text(value) for value in row]) for row in self.rows]
        at = self.columns.index(_NOTES.get(subject, "note")) if self.notes else 0
        for note in self.notes:
            found.append(tuple([note if at == i else None for i in range(len(self.columns))]))
        return found


def merged(question: Question, answers: Mapping[int, Answer | None]) -> Merged:
    """Put the answers together: by worker, None for one that did not answer."""
    columns = COLUMNS[question.subject]
    given = [answer for answer in answers.values() if answer is not None]
    refusal = next((answer.refusal for answer in given if answer.refusal), "")
    notes = [
        f"worker {worker} does not answer" for worker, answer in answers.items() if answer is None
    ]
    left_out = sum(answer.left_out for answer in given)
    if left_out:
        notes.append(f"{left_out} more have no room here")
    tables = [
        [row for row in answer.rows if len(row) == len(columns)]
        for answer in given
        if not answer.refusal
    ]
    complete = None not in answers.values()
    if question.subject == "digests":
        return Merged(digest_rows.SHOWN, digest_rows.merged(tables), notes, refusal)
    return Merged(columns, _rows(question.subject, tables, complete=complete), notes, refusal)


def _rows(subject: Subject, tables: list[list[Row]], *, complete: bool) -> list[Row]:
    if not tables:
        return []
    if subject == "servers":
        return server_rows.merged(tables[0], tables[1:], complete=complete)
    if subject in ("drain", "undrain"):
        return _drained(tables, complete=complete)
    if subject == "reload":
        return tables[0]
    return [row for table in tables for row in table]


def _drained(tables: list[list[Row]], *, complete: bool) -> list[Row]:
    """One row: where the first worker has put it, with the connections of all."""
    rows = [row for table in tables for row in table]
    if not rows:
        return []
    name, state, _, note = rows[0]
    connections = sum(row[2] for row in rows if isinstance(row[2], int))
    if state == server_rows.DRAINING and complete and not connections:
        state = server_rows.DRAINED
    return [[name, state, connections, note]]


def _text(value: Cell) -> str | None:
    """A value as SHOW TIDEGATE shows it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3f}" if isinstance(value, float) else str(value)

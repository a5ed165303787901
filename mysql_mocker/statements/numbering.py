"""AUTO_INCREMENT: which numbers new rows get.

As InnoDB does with ``innodb_autoinc_lock_mode=2``: a number that was given out is not used again
after a rollback or for a row that was refused, and INSERT … SELECT takes numbers in blocks of 1, 2,
4, ….
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sqlglot import exp

from mysql_mocker.sql.names import quoted
from mysql_mocker.sql.value import Value
from mysql_mocker.state.catalogue import Column
from mysql_mocker.state.session import Session
from mysql_mocker.statements import definition


@dataclass(slots=True)
class Numbering:
    """The numbers of one INSERT or REPLACE.

    Attributes:
        stored: the table's stored name.
        key: its AUTO_INCREMENT column.
        start: the last number that was given out before.
        first: the first number that is given out now, None if none is.
        last: the number of the last row of VALUES.
    """

    session: Session
    stored: str
    key: Column
    temporary: bool
    start: int = 0
    first: int | None = None
    last: int = 0
    _end: int = 0
    _generated: int = 0

    @classmethod
    def of(
        cls, session: Session, stored: str, columns: list[Column], *, temporary: bool
    ) -> "Numbering | None":
        """The numbering of a table; None if it has no AUTO_INCREMENT column."""
        key = next((column for column in columns if column.auto_increment), None)
        return None if key is None else cls(session, stored, key, temporary)

    def fill(self, tree: exp.Insert, columns: list[Column], refused: Sequence[bool]) -> None:
        """Writes the numbers into the rows of VALUES, or has SQLite continue from the right one.

        `refused` says which rows are left out, or change another row instead. The next row gets
        such a row's number; but after the statement, as many numbers are used up as if it had been
        inserted.
        """
        self.start = self._end = max(self._kept(), self._sequence())
        named = list(tree.this.expressions) if isinstance(tree.this, exp.Schema) else []
        names = [node.name.lower() for node in named] or [column.name.lower() for column in columns]
        values = tree.expression
        if not isinstance(values, exp.Values):
            if self.key.name.lower() not in names:
                self._go_on()
            return
        absent = self.key.name.lower() not in names
        if absent:
            tree.this.append("expressions", exp.to_identifier(self.key.name, quoted=True))
        column = len(names) if absent else names.index(self.key.name.lower())
        for row, without in zip_longest(values.expressions, refused, fillvalue=False):
            if isinstance(row, exp.Expr):
                self._fill_row(row, column, absent=absent, refused=bool(without))
        self._end = max(self._end, self.start + self._generated)

    def _fill_row(self, row: exp.Expr, column: int, *, absent: bool, refused: bool) -> None:
        if absent and len(row.expressions) == column:
            row.append("expressions", exp.Null())
        node = row.expressions[column] if column < len(row.expressions) else None
        if isinstance(node, exp.Null) or (self._zero_counts() and _is_zero(node)):
            self._generated += 1
            self.last = self._end + 1
            row.expressions[column].replace(exp.Literal.number(self.last))
            self.first = self.first or self.last
            self._end += not refused
        elif isinstance(node, exp.Literal) and node.name.isdigit():
            self.last = int(node.name)
            if self.first is not None:
                self._end = max(self._end, self.last)

    def _zero_counts(self) -> bool:
        return "NO_AUTO_VALUE_ON_ZERO" not in str(self.session.variables["sql_mode"])

    def _go_on(self) -> None:
        self.first = self.start + 1
        if self.temporary or self._kept() <= self._sequence():
            return
        parameters: dict[str, Value] = {"name": self.stored, "seq": self.start}
        forget = "DELETE FROM sqlite_sequence WHERE name = :name"
        definition.run(self.session, forget, {"name": self.stored})
        definition.run(self.session, "INSERT INTO sqlite_sequence VALUES (:name, :seq)", parameters)

    def keep(self, rows: int | None) -> None:
        """Remembers what was given out; `rows` is how many rows INSERT … SELECT inserted."""
        end = self._end
        if rows is not None:
            end = self.start + (1 << rows.bit_length()) - 1 if rows else self.start
        counters = self.session.counters(temporary=self.temporary)
        counters[self.stored] = max(end, self._kept(), self._sequence())

    def changed(self) -> None:
        """An UPDATE may have set a higher number."""
        highest = self.session.storage.value(
            f"SELECT max({quoted(self.key.name)}) FROM {quoted(self.stored)}"  # noqa: S608 - quoted
        )
        counters = self.session.counters(temporary=self.temporary)
        if isinstance(highest, int):
            counters[self.stored] = max(highest, self._kept())

    def _kept(self) -> int:
        return self.session.counters(temporary=self.temporary).get(self.stored, 0)

    def _sequence(self) -> int:
        schema = "temp" if self.temporary else "main"
        found = self.session.storage.value(
            f"SELECT seq FROM {schema}.sqlite_sequence WHERE name = ?",  # noqa: S608 - two names
            (self.stored,),
        )
        return found if isinstance(found, int) else 0


def _is_zero(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Literal) and node.name == "0"

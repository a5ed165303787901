"""A row of a table, for code that must work without Spark."""

from collections.abc import Mapping


class Row:
    """One row of a table of `schema`; each getter raises TypeError if the type does not fit."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def text(self, column: str) -> str:
        """A column of text."""
        value = self._values[column]
        if not isinstance(value, str):
            raise TypeError(f"{column} is no text: {value!r}")
        return value

    def number(self, column: str) -> int:
        """A column of whole numbers."""
        value = self._values[column]
        if not isinstance(value, int):
            raise TypeError(f"{column} is no whole number: {value!r}")
        return value

    def share(self, column: str) -> float:
        """A column of fractions."""
        value = self._values[column]
        if not isinstance(value, float):
            raise TypeError(f"{column} is no fraction: {value!r}")
        return value

    def rows(self, column: str) -> "list[Row]":
        """A column of arrays of structs."""
        value = self._values[column]
        if not isinstance(value, list):
            raise TypeError(f"{column} is no array: {value!r}")
        return [Row(item) for item in value]

    def has(self, column: str) -> bool:
        """Whether the column is not null."""
        return self._values[column] is not None

    def as_dict(self) -> dict[str, object]:
        """The values by the names of the columns."""
        return dict(self._values)

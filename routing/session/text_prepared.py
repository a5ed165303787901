"""The statements of a session that are prepared by text (PREPARE, EXECUTE), by name."""

from typing import Final

from routing.sql.statement import Statement

_OBJECTS: Final = 1024
"""Bytes of a statement that is classified, and of its entry here."""


class TextPreparedStatements:
    """Those that are known; what is not here may be there all the same.

    Attributes:
        size: bytes that they take, an estimate.
    """

    def __init__(self) -> None:
        self._statements: dict[str, Statement] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._statements)

    def get(self, name: str) -> Statement | None:
        """The one with this name, or None."""
        return self._statements.get(name)

    def add(self, name: str, statement: Statement) -> None:
        """One was prepared."""
        self.remove(name)
        self._statements[name] = statement
        self.size += _size(name, statement)

    def remove(self, name: str) -> None:
        """One is no more, if it was there."""
        statement = self._statements.pop(name, None)
        if statement is not None:
            self.size -= _size(name, statement)

    def clear(self) -> None:
        """None is known."""
        self._statements.clear()
        self.size = 0


def _size(name: str, statement: Statement) -> int:
    return _OBJECTS + len(name) + statement.size

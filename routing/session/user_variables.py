"""The values of a session's user variables, as far as they are known."""

import re
from typing import Final

from routing.sql.user_variables import ALL

_MOST: Final = 256
"""At most so many values are kept."""
_CARRIED: Final = re.compile(
    r"(?i:NULL|TRUE|FALSE)|[+-]?(?:\d|\.\d)[0-9a-zA-Z.+-]{0,100}|'[\s\S]{0,1000}|\"[\s\S]{0,1000}"
)
"""Values that are kept: literals and a server's own words, and nothing long."""


class UserVariables:
    """What is known of the values of a session's user variables.

    A value is the literal that SET assigned: executed on another server in the same character set
    and sql_mode, it makes the same value with the same type.

    Attributes:
        forgotten: none is known.
        assigned: one of them was, since the session began or was reset.
    """

    def __init__(self) -> None:
        self._values: dict[str, str | None] = {}  # None is a value that is not known
        self._rest: str | None = ""  # the value of all other variables
        self.forgotten = False
        self.assigned = False

    def value(self, name: str) -> str | None:
        """A variable's value as a literal; "" if it was never assigned, None if not known.

        One that was set to NULL has another type than one that was never assigned.
        """
        return None if name == ALL else self._values.get(name, self._rest)

    def know(self, names: tuple[str, ...]) -> bool:
        """Whether the values of all these are known."""
        if ALL in names:
            return self._rest == "" and None not in self._values.values()
        return all(self.value(name) is not None for name in names)

    @property
    def known(self) -> bool:
        """Whether the value of each one that was assigned is known.

        What a program assigns, and no statement shows, pins its session.
        """
        return not self.assigned or self.know((ALL,))

    def expanded(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """These names, or where they stand for all, those of all that are assigned."""
        return tuple(self._values) if ALL in names else names

    def assign(self, name: str, literal: str | None) -> None:
        """A variable was assigned a literal, or None where its value is not known."""
        self.assigned = True
        if name == ALL or len(self._values) >= _MOST:
            self.forget()
        if name != ALL:
            known = literal is not None and _CARRIED.fullmatch(literal) is not None
            if known and literal is not None and literal.upper() == "NULL":
                known = self.value(name) in ("", literal)  # else it keeps the type that it had
            self._values[name] = literal if known else None
            self.forgotten = False

    def forget(self) -> None:
        """Any of them may have been assigned anything."""
        self._values.clear()
        self._rest = None
        self.forgotten = True

    def forget_strings(self) -> None:
        """Strings are read differently from now on, so their values are not known."""
        for name, literal in self._values.items():
            if literal is not None and literal[:1] in "'\"":
                self._values[name] = None

    def clear(self) -> None:
        """The session was reset: none is assigned."""
        self._values.clear()
        self._rest = ""
        self.forgotten = self.assigned = False

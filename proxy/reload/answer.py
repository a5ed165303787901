"""What came of a reload."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

APPLIED: Final = 0
NEEDS_RESTART: Final = 1
FAILED: Final = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a reload; all are texts for people.

    Attributes:
        applied: the options and tables that have changed and count from now on.
        needs_restart: those that have changed and count from the next start on.
        errors: what is wrong; if there is anything, nothing has changed, unless `applied` names it.
        warnings: settings that work but are most likely not intended.
    """

    applied: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def status(self) -> int:
        """The exit status of the command `tidegate reload`."""
        if self.errors:
            return FAILED
        return NEEDS_RESTART if self.needs_restart else APPLIED

    @property
    def lines(self) -> list[str]:
        """The answer as text."""
        lines = [f"error: {error}" for error in self.errors]
        if self.applied:
            lines.append(f"applied: {', '.join(self.applied)}")
        elif self.errors:
            lines.append("nothing was changed")
        elif not self.needs_restart:
            lines.append("nothing has changed")
        if self.needs_restart:
            lines.append(f"needs a restart: {', '.join(self.needs_restart)}")
        return [*lines, *(f"warning: {warning}" for warning in self.warnings)]

    def to_message(self) -> dict[str, tuple[str, ...]]:
        """The answer as a message of the control socket."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    def from_message(cls, message: Mapping[str, object]) -> Answer:
        """Read what `to_message` made.

        Raises:
            TypeError: it is something else.
        """
        return cls(*(_texts(message, field.name) for field in dataclasses.fields(cls)))


def _texts(message: Mapping[str, object], name: str) -> tuple[str, ...]:
    found = message.get(name)
    if not isinstance(found, list | tuple):
        raise TypeError(f"no list {name}")
    return tuple(str(text) for text in found)

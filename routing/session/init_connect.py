"""What a server's init_connect leaves in each session, besides the values of system variables."""

from functools import lru_cache
from typing import Final

from routing.session.variables import CARRIED
from routing.sql.statement import Statement, classify_text

_ASKED_FOR: Final = CARRIED | {"autocommit", "character set", "names"}
"""Variables whose values the login asks for, or that follow from them."""
_LONGEST: Final = 4096
"""Characters of a text that is read; a longer one may leave anything."""


@lru_cache(maxsize=16)
def leaves_nothing(text: str) -> bool:
    """Whether all its statements only set session variables, read data, or change data.

    Anything else, such as user variables, temporary tables and stored programs, is known to the
    server alone.
    """
    if len(text) > _LONGEST:
        return False
    parts = [text] if any(mark in text for mark in "'\"`#/-") else text.split(";")
    statements = [
        classify_text(part.encode("utf-8", "surrogateescape"), 0) for part in parts if part.strip()
    ]
    return all(_leaves_nothing(statement) for statement in statements)


def _leaves_nothing(statement: Statement) -> bool:
    if statement.plain:
        return True
    return (
        bool(statement.assignments)
        and not statement.multi
        and not statement.holds
        and all(
            assignment.scope == "session" and assignment.name in _ASKED_FOR
            for assignment in statement.assignments
        )
    )

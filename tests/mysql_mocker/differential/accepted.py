"""Disagreements of the mocker with MySQL that are known and accepted, each with its reason.

What differs here can make later steps differ, so the rest of such a session is not judged.
"""

import re
from dataclasses import dataclass

from tests.differential.comparison import Difference
from tests.differential.session import Session


@dataclass(frozen=True)
class Accepted:
    """One of them.

    Attributes:
        step: is found in the repr of the step.
        difference: is found in the difference as it is printed.
        reason: why it is accepted.
        before: is found in the repr of a step before it.
    """

    step: str
    difference: str
    reason: str
    before: str = ""


ACCEPTED = (
    Accepted(
        r"",
        r"\n  direct +1: ERROR (1099|1100|1192|1223) ",
        "LOCK TABLES is told of, but locks nothing",
    ),
    Accepted(
        r"^Query\(sql='SELECT FOUND_ROWS\(\)'",
        r"\n  direct +\d+: b'\\x011'\n",
        "FOUND_ROWS() behind a later INSERT or DELETE is what a subquery of a SET has counted; the "
        "mocker has one count alone",
        before=r"SET @\w = \(SELECT",
    ),
    Accepted(
        r"INSERT INTO items \(name\) SELECT",
        r"\n  direct .*last_insert_id=[1-9].*\n  through .*last_insert_id=[1-9]",
        "a table that is opened once more, as for reading what is written, passes over its next "
        "number if a row that had it was refused; the mocker has no cache of open tables",
        before=r"INSERT INTO items \(id, name\)",
    ),
)


def accepted(session: Session, found: Difference) -> Accepted | None:
    """Which of them a difference is."""
    if not found.step:
        return None
    *before, step = [repr(step) for step in session.steps[: found.step]]
    text = f"\n{found}"
    for entry in ACCEPTED:
        fits = re.search(entry.step, step) and re.search(entry.difference, text)
        if fits and re.search(entry.before, "\n".join(before)):
            return entry
    return None

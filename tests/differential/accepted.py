"""Differences that are known and accepted, each with its reason: the fewer, the better.

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
        pattern: is found in the repr of the step, a line feed, and the difference as it is printed.
        reason: why it is accepted.
    """

    pattern: str
    reason: str


ACCEPTED = (
    Accepted(
        r"\n  direct .*session_state=b'(.*)\\x05\\t\\x08________'.*"
        r"\n  through .*session_state=(b'\1'|None)",
        "that a transaction ended behind an error, which was told already or ran on a replica",
    ),
    Accepted(
        r"\n  direct .*session_state=(?:None|b'(.*)'), "
        r".*\n  through .*session_state=b'(?:\1)?\\x05\\t\\x08________'",
        "the end of a transaction that began on a replica, and by START TRANSACTION on the primary",
    ),
    Accepted(
        r"^Query\(sql=.SET session_track_(gtids|system_variables)",
        "a client sees what it asks to be tracked from the next statement on",
    ),
    Accepted(
        r"^Query\(sql=.S(ELECT @@|HOW VARIABLES LIKE ')session_track",
        "behind an error the proxy asks for GTIDs, and what it tracks for itself shows",
    ),
    Accepted(
        r"\n  direct +\d+: ERROR (1047 \(\w+\)): .*\n  through +\d+: ERROR \1: Unknown command",
        "what the proxy refuses itself, it says in English, whatever lc_messages is",
    ),
)


def accepted(session: Session, found: Difference) -> bool:
    """Whether a difference is one of them."""
    if not found.step:
        return False
    text = f"{session.steps[found.step - 1]!r}\n{found}"
    return any(re.search(entry.pattern, text) for entry in ACCEPTED)

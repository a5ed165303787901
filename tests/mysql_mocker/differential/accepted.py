"""Disagreements of the mocker with MySQL that are known and accepted, each with its reason.

What differs here can make later steps differ, so the rest of such a session is not judged.
"""

import re
from dataclasses import dataclass

from protocol.resultset import ColumnDefinition41
from tests.differential.comparison import Difference
from tests.differential.player import Packet
from tests.differential.session import Session

_FLAGS_OF_KEYS = 0x5 | 0x2 | 0x8 | 0x200 | 0x1000 | 0x4000


@dataclass(frozen=True)
class Accepted:
    """One of them.

    Attributes:
        step: is found in the repr of the step.
        difference: is found in the difference as it is printed.
        reason: why it is accepted.
        before: is found in the repr of a step before it.
        keys_only: nothing but the flags that come from a table's keys differs.
    """

    step: str
    difference: str
    reason: str
    before: str = ""
    keys_only: bool = False


ACCEPTED = (
    Accepted(
        r"(JOIN|IN \(SELECT).* ORDER BY ",
        r"ColumnDefinition41",
        "a plan's temporary table takes the keys from a column's flags; the mocker has no plans",
        keys_only=True,
    ),
    Accepted(
        r"",
        r"\n  direct +1: ERROR (1099|1100|1192|1223) ",
        "LOCK TABLES is told of, but locks nothing",
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
        fits = fits and re.search(entry.before, "\n".join(before))
        if fits and (not entry.keys_only or _differs_in_keys_only(found)):
            return entry
    return None


def _differs_in_keys_only(found: Difference) -> bool:
    if len(found.direct) != len(found.through):
        return False
    pairs = zip(found.direct, found.through, strict=True)
    return all(_without_keys(first) == _without_keys(second) for first, second in pairs)


def _without_keys(packet: Packet) -> bytes:
    if packet.control or not packet.payload.startswith(b"\x03def"):
        return packet.payload
    column = ColumnDefinition41.parse(packet.payload)
    offset = len(packet.payload) - 5  # flags, decimals, two zeros
    flags = (column.flags & ~_FLAGS_OF_KEYS).to_bytes(2, "little")
    return packet.payload[:offset] + flags + packet.payload[offset + 2 :]

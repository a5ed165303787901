"""Asks a replica, in front of a read, whether it still has what it has proved.

A replica can be rebuilt without a restart, with older data while connections stay open (RESET
BINARY LOGS AND GTIDS), and can be told not to commit in its source's order any more. So a read that
relies on what the replica proved a while ago (`proof-max-age`) has a question in front, in the same
write; a read that waits asks within its WAIT. One answer serves all reads that follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.constants import TEXT_ONE, TEXT_ZERO
from proxy.server.commit_order import KEEPS_ORDER

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from routing.request.read import Read

_IN_ORDER: Final = f"{KEEPS_ORDER} d"

_VALUE: Final = len(TEXT_ONE)


class Said(NamedTuple):
    """What a replica says of itself.

    Attributes:
        still: it has all that it had proved; None if it was not asked, or does not say.
        ordered: it commits in its source's order; None if it does not say.
    """

    still: bool | None
    ordered: bool | None


UNANSWERED: Final = Said(None, None)


def columns(applied: GtidSet) -> str:
    """Does the server have all of a set, and are commits in order?"""
    return f"GTID_SUBSET(_latin1'{applied.text}',@@GLOBAL.gtid_executed) c,{_IN_ORDER}"


def beside_wait(read: Read, *, confirm: bool) -> str:
    """What a WAIT also asks: everything, only the order of commits, or nothing.

    Where the order matters every WAIT asks for it: that costs little in addition to the WAIT.
    """
    if confirm:
        return columns(read.question())
    return _IN_ORDER if read.asks_order else ""


def parsed(values: bytes, *, confirm: bool) -> Said:
    """What these values of a row say; anything else is not an answer.

    Args:
        values: those of `columns`, or of the order alone.
        confirm: all was asked.
    """
    if confirm and values[:_VALUE] == TEXT_ZERO:
        return Said(still=False, ordered=None)
    order = values[-_VALUE:]
    if order not in (TEXT_ONE, TEXT_ZERO) or values[:-_VALUE] != (TEXT_ONE if confirm else b""):
        return UNANSWERED
    return Said(still=True if confirm else None, ordered=order == TEXT_ONE)

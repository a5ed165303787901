"""What a replica is asked in front of a read, so that the read's answer may count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from protocol.gtid import GtidSet


class ReplicaChecks:
    """The questions for one read; never changed.

    Attributes:
        gtids: the set that a WAIT is for; None if there is none.
        budget: how long that may take, s.
        question: what the replica is asked about itself (`proxy.client.statements.confirmation`),
            with the WAIT or alone; "" if nothing.
        audited: the replica is asked whether it has this set; None if it is not asked.
    """

    def __init__(
        self,
        gtids: GtidSet | None = None,
        budget: float = 0.0,
        question: str = "",
        audited: GtidSet | None = None,
    ) -> None:
        self.gtids: Final = gtids
        self.budget: Final = budget
        self.question: Final = question
        self.audited: Final = audited


NOTHING: Final = ReplicaChecks()

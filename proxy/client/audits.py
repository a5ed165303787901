"""Which reads are audited: of all that could be, the share that the configuration asks for."""

from __future__ import annotations


class Audits:
    """Those of one worker.

    Attributes:
        on: whether any are.
        share: of the reads, 0 to 1.
        credit: shares of the reads since the last one that is audited; one is, once it is 1.
    """

    def __init__(self, share: float) -> None:
        """`share` of the reads, 0 to 1."""
        self.on = share > 0
        self.share = share
        self.credit = 0.0

    def due(self) -> bool:
        """Whether one more read, which could be audited, is one of them."""
        self.credit += self.share
        if self.credit < 1:
            return False
        self.credit -= 1
        return True

"""Chooses the reads to audit: the share that the configuration asks for, of all that could be."""

from __future__ import annotations


class Audits:
    """Chooses those of one worker.

    Attributes:
        on: whether any are.
        share: of the reads, 0 to 1.
        credit: the sum of shares since the last audited read; at 1 the next one is audited.
    """

    def __init__(self, share: float) -> None:
        """`share` of the reads, 0 to 1."""
        self.credit = 0.0
        self.choose(share)

    def choose(self, share: float) -> None:
        """Choose this share of the reads from now on, 0 to 1."""
        self.on = share > 0
        self.share = share

    def due(self) -> bool:
        """Whether one more read, which could be audited, is one of them."""
        self.credit += self.share
        if self.credit < 1:
            return False
        self.credit -= 1
        return True

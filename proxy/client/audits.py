"""Which reads are audited: of all that could be, the share that the configuration asks for."""

from __future__ import annotations


class Audits:
    """Those of one worker.

    Attributes:
        on: whether any are.
    """

    def __init__(self, share: float) -> None:
        """`share` of the reads, 0 to 1."""
        self.on = share > 0
        self._share = share
        self._credit = 0.0

    def due(self) -> bool:
        """Whether one more read, which could be audited, is one of them."""
        self._credit += self._share
        if self._credit < 1:
            return False
        self._credit -= 1
        return True

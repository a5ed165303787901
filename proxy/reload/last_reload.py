"""How the last reload went, for the metrics: as Prometheus tells of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final


class LastReload:
    """What came of the last reload; the start counts as one that went well.

    Attributes:
        successful: it was applied, or there was nothing to apply.
        succeeded_at: when one went well last, seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock: Final = clock
        self.successful = True
        self.succeeded_at = clock()

    def ended(self, *, successful: bool) -> None:
        """A reload has ended."""
        self.successful = successful
        if successful:
            self.succeeded_at = self._clock()

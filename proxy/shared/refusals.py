"""Clients that were refused: each is counted, and a limited number is logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from routing.servers.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.channel import PacketChannel
    from proxy.observe.label_values import RefusalCause
    from proxy.observe.metrics import Metrics

_log = logging.getLogger(__name__)

_A_SECOND: Final = 10.0
"""At most so many lines a second are logged; the next line counts the rest."""

_LONGEST: Final = 300
"""Characters of a reason; names in it are the client's choice."""
_LONGEST_USER: Final = 64
"""Characters of a user's name; servers allow 32."""


class Refusals:
    """Those of one worker."""

    def __init__(self, metrics: Metrics, now: Callable[[], float]) -> None:
        """`now` is monotonic, seconds."""
        self._metrics = metrics
        self._now = now
        self._bucket = RateLimit(_A_SECOND)
        self._unlogged = 0

    def add(self, cause: RefusalCause, client: PacketChannel, why: str) -> None:
        """Count and log one.

        Args:
            cause: as the metric has it.
            client: who it was.
            why: in words, without passwords; the log escapes what is not printable.
        """
        self._metrics.client_refused(cause)
        if cause == "closed":  # it left by itself, like a check of the port
            _log.debug("client %s left before it had logged in", _name(client))
        else:
            self.log_failure(client, f"was refused ({cause}): {why}")

    def log_failure(self, client: PacketChannel, event: str) -> None:
        """Log, and do not count, an event that kept a client from logging in."""
        if self._bucket.reserve(self._now(), 0.0) is None:
            self._unlogged += 1
            return
        self.flush()
        _log.warning("client %s %s", _name(client), event[:_LONGEST])

    def flush(self) -> None:
        """Tell how many were not logged."""
        if self._unlogged:
            _log.warning("%d more clients were refused, and not logged one by one", self._unlogged)
            self._unlogged = 0


def _name(client: PacketChannel) -> str:
    return f"{client.peer} as {client.user[:_LONGEST_USER]!r}" if client.user else client.peer

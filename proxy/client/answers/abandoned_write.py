"""A statement that may write, and whose client has left before it was answered.

The server goes on with it, and commits it at any time. Whoever comes back to look whether it took
effect must see that, though nobody was told. So its connection is read until the answer has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Purpose
    from routing.consistency.rules import Rules
    from routing.session.session import Session


_MOST_BYTES: Final = 1 << 20
"""So much of an answer is read, about what the buffers of a network take from a server."""


class AbandonedWrite:
    """One of them, and the owner of the connection on which it runs."""

    def __init__(self, state: Session, rules: Rules, metrics: Metrics) -> None:
        """It may have committed already, in the scopes that `state` and `rules` tell."""
        self._state = state
        self._rules = rules
        self._metrics = metrics
        self._received = 0
        self._doubt()

    def await_end(self, connection: ServerConnection) -> None:
        """It may commit until it ends."""
        connection.abandon_to(self)

    def _doubt(self) -> None:
        self._state.may_have_written(self._rules)
        self._metrics.required_unknown("abandoned")

    # Of the connection

    def answer(self, connection: ServerConnection, data: bytes, received: int) -> None:
        """Nobody is shown it; a file that it asks for does not come."""
        self._received += received
        if connection.stream.infile or self._received > _MOST_BYTES:
            connection.give_up("its client has left")

    def aside(self, connection: ServerConnection, purpose: Purpose) -> None:
        """A question in front of it was answered."""

    def on_idle(self, connection: ServerConnection) -> None:
        """It has ended."""
        connection.give_up("its client has left")

    def server_lost(self, connection: ServerConnection, cause: str, error: bytes | None) -> None:
        """It has ended, or nobody waits for its end any more."""
        self._doubt()
        self._metrics.server_disconnected(connection.server.name)

    def server_paused(self, connection: ServerConnection) -> None:
        """Nothing more is written."""

    def server_resumed(self, connection: ServerConnection) -> None:
        """Nothing more is written."""

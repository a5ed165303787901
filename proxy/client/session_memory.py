"""How much one session makes the proxy keep: the ceiling is `max-session-memory`.

Theory of operation
===================

What a client makes the proxy keep by sending more and more of it is counted in bytes: prepared
statements with their texts, types and long data, statements that are prepared by text, names of
locks and of temporary tables. Each of these knows its own size; here they are added. All else that
a session has is of limited size by itself (docs/memory.md).

A session that keeps more is ended with 4082, as a server ends one that exceeds its
`connection_memory_limit`. That is looked at when a command comes that is not plain, since plain
ones add nothing: so a session exceeds the ceiling by one command at most, and its client reads the
error as the answer to the next. Long data is not kept beyond it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.client.prepared import PreparedStatements
    from proxy.live_config import LiveConfig
    from routing.session.session import Session


class SessionMemory:
    """That of one session."""

    def __init__(self, live: LiveConfig, state: Session, prepared: PreparedStatements) -> None:
        self._live: Final = live
        self._state: Final = state
        self._prepared: Final = prepared
        self._wanted = 0  # bytes that were too many, and are not kept

    @property
    def used(self) -> int:
        """Bytes that are kept."""
        state = self._state
        return self._prepared.size + state.text_prepared.size + state.pins.size

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes may be kept; if not, the session ends at its next command."""
        limit = self._live.config.max_session_memory
        if not limit:
            return True
        wanted = self.used + size
        if wanted > limit:
            self._wanted = max(self._wanted, wanted)
        return wanted <= limit

    @property
    def excess(self) -> str:
        """What to tell the client whose session exceeds the ceiling; empty if it does not."""
        if self.has_room(0) and not self._wanted:
            return ""
        limit = self._live.config.max_session_memory
        return (
            f"Connection closed. Connection memory limit {limit} bytes exceeded. Consumed"
            f" {self._wanted} bytes. (It is Tidegate's max-session-memory.)"
        )

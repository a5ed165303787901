"""Makes the sessions of one worker give their connections back while no command comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy import tasks

if TYPE_CHECKING:
    from proxy.live_config import LiveConfig
    from proxy.shared.sessions import Sessions


class IdleRelease:
    """Looks at all sessions once per `connection-sharing-delay`.

    So a session gives its connections back after one to two delays without a command, and no
    statement needs a timer.
    """

    def __init__(self, live: LiveConfig, sessions: Sessions) -> None:
        self._live = live
        self._sessions = sessions
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking, if connections are shared, or are to be from now on."""
        if self._task is None and self._live.config.shares_connections:
            self._task = tasks.start(self._watch(), "resting sessions")

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            await tasks.stop(self._task)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._live.config.connection_sharing_delay)
            self.look()

    def look(self) -> None:
        """Let sessions rest if they got no command since the last look."""
        for session in self._sessions:
            session.rest()

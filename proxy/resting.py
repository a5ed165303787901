"""Has the sessions of one worker give back their connections that no command comes for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy import tasks

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.sessions import Sessions


class Resting:
    """Looks at all sessions once per `connection-sharing-delay`.

    So a session rests once or twice as long, and no timer is set per statement.
    """

    def __init__(self, config: Config, sessions: Sessions) -> None:
        self._delay = config.connection_sharing_delay
        self._on = config.connection_sharing == "on"
        self._sessions = sessions
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, if connections are shared."""
        if self._on:
            self._task = tasks.start(self._watch(), "resting sessions")

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            await tasks.stop(self._task)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._delay)
            self.look()

    def look(self) -> None:
        """Let those rest that no command came to since the last look."""
        for session in self._sessions:
            session.rest()

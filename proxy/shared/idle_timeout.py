"""Ends the sessions of one worker whose clients have sent nothing for too long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy import tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.live_config import LiveConfig
    from proxy.shared.sessions import Sessions
    from routing.request.command import Command


class IdleTimeout:
    """Looks at all sessions ten times per `client-idle-timeout`, so no statement needs a timer."""

    def __init__(self, live: LiveConfig, sessions: Sessions, now: Callable[[], float]) -> None:
        """`now` is monotonic, seconds."""
        self._live = live
        self._sessions = sessions
        self._now = now
        self._seen: dict[int, tuple[Command, float]] = {}  # by session: its last command, since
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking, if there is a limit, or is one from now on."""
        if self._task is None and self._live.config.client_idle_timeout:
            self._task = tasks.start(self._watch(), "idle clients")

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            await tasks.stop(self._task)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep((self._live.config.client_idle_timeout or 10.0) / 10)
            self.look()

    def look(self) -> None:
        """End the sessions that are idle for the whole time; a transaction holds nobody up."""
        now, limit = self._now(), self._live.config.client_idle_timeout
        if not limit:
            self._seen = {}
            return
        before, self._seen = self._seen, {}
        for session in self._sessions:
            command = session.last_command
            if command is None:
                continue
            seen = before.get(session.session_id)
            since = seen[1] if seen is not None and seen[0] is command else now
            if now - since >= limit:
                session.end_idle(limit)
            else:
                self._seen[session.session_id] = command, since

"""Keeps the primary from ending the sessions whose clients work on replicas meanwhile.

A server ends a connection that has sent it no command for wait_timeout. It knows nothing of the
commands that replicas answer. So it is sent a COM_PING for each session whose client has sent such
commands, or still waits for one, and none for the primary. A client that does nothing is ended as
at a server.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from proxy import tasks

if TYPE_CHECKING:
    from proxy.shared.sessions import Sessions

_INTERVAL_S: Final = 10.0
"""Between two looks; a session's first COM_PING may come two of them after its last command."""


class Keepalive:
    """Looks at all sessions of one worker now and then, so that no statement needs a timer."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking."""
        self._task = tasks.start(self._watch(), "sessions in touch")

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            await tasks.stop(self._task)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_S)
            self.look()

    def look(self) -> None:
        """Let the primary hear of sessions that work without it."""
        for session in self._sessions:
            session.keep_alive()

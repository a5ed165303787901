"""Keeps the primary from ending the sessions whose clients work on replicas meanwhile.

A server ends a connection that has sent it no command for wait_timeout. It knows nothing of the
commands that replicas answer. So it is sent a COM_PING for each session whose client has sent such
commands, or still waits for one, and none for the primary. A client that does nothing is ended as
at a server.

A session's first COM_PING may come two looks after its last command, so it is looked at three times
in its wait_timeout. That is a whole number of seconds (MySQL's manual), and a tick a third of one:
so a session has its turn every wait_timeout ticks.

A command may come when wait_timeout is almost over, and then the next look would be too late. So
the primary hears once more of a session that is idle (`is_last_chance`). From then on it does not
end the session in time, and the proxy does (`is_over`): one or two looks later than a server would.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from proxy import tasks

if TYPE_CHECKING:
    from proxy.shared.sessions import Sessions

_TICK_S: Final = 1 / 3
_MOST_TICKS: Final = 30
"""Between two looks at one session, however long its wait_timeout is."""


def is_last_chance(idle_looks: int, wait_timeout: int) -> bool:
    """Whether the primary may end a session before the look after the next one.

    Args:
        idle_looks: how many looks have found the session idle, with no command since the one
            before; its last command was less than one look before the first of them.
        wait_timeout: its own, s.
    """
    return idle_looks == _ticks(wait_timeout) // _ticks_between_looks(wait_timeout) - 2


def is_over(idle_looks: int, wait_timeout: int) -> bool:
    """Whether a session has been idle for all of its wait_timeout; arguments as above."""
    return idle_looks * _ticks_between_looks(wait_timeout) >= _ticks(wait_timeout)


def _ticks(seconds: int) -> int:
    return 3 * seconds


def _ticks_between_looks(wait_timeout: int) -> int:
    return min(wait_timeout, _MOST_TICKS)


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
        tick = 0
        while True:
            await asyncio.sleep(_TICK_S)
            tick += 1
            self.look(tick)

    def look(self, tick: int = 0) -> None:
        """Let the primary hear of sessions that work without it and whose turn it is.

        `tick` is the number of the tick; at 0 it is everybody's turn.
        """
        for session in self._sessions:
            if tick % _ticks_between_looks(session.state.wait_timeout) == 0:
                session.keep_alive()

"""How a worker lets its sessions go before it stops."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proxy.shared.shared import Shared

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.02
_LAST_SESSIONS_S: Final = 1.0
"""How long the last clients before a take-over have for what they came for."""
_LOOK_PER_SESSION_S: Final = 20e-6
"""So that looking at thousands of sessions takes no more than a small part of the time."""
_REPORT_EVERY_S: Final = 1.0
"""How often the log says for how many sessions it waits."""
_MOST_NAMES: Final = 10
"""How many of the clients that are cut off the log names."""


async def end_of_logins(shared: Shared) -> None:
    """Return when the clients that came before a successor took over have logged in.

    Those that did so last get the time to do what they came for: most short sessions end by
    themselves meanwhile. No login takes longer than `handshake-timeout`.
    """
    await asyncio.sleep(_LAST_SESSIONS_S)
    while shared.sessions.accepting:  # noqa: ASYNC110 no login is to set an event for this
        await asyncio.sleep(_LOOK_S)


async def drain(shared: Shared) -> None:
    """End all sessions, as a server does that shuts down (1053).

    A session ends when it runs no statement and has no transaction open. Those that do so still
    when `drain-timeout` is over end then.
    """
    shared.refusals.flush()
    shared.pool.close()
    sessions = shared.sessions
    limit = shared.config.drain_timeout
    now = logged_at = shared.now()
    deadline = now + limit
    _log.info("stopping: %d sessions are open", len(sessions))
    while True:
        for session in sessions:
            session.shut_down()
        if not sessions or now >= deadline:
            break
        await asyncio.sleep(max(_LOOK_S, _LOOK_PER_SESSION_S * len(sessions)))
        now = shared.now()
        if now - logged_at >= _REPORT_EVERY_S:
            logged_at = now
            _log.info("stopping: %d sessions still run a statement or a transaction", len(sessions))
    left = list(sessions)
    if left:
        _log.warning(
            "stopping: %d sessions still ran a statement or a transaction after %g s"
            " (drain-timeout) and are cut off: %s",
            len(left),
            limit,
            ", ".join(session.peer for session in left[:_MOST_NAMES])
            + (", …" if len(left) > _MOST_NAMES else ""),
        )
    for session in left:
        session.cut_off()

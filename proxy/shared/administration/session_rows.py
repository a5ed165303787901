"""SHOW TIDEGATE SESSIONS and /v1/sessions: one row for each session."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from routing.consistency.decision import Proof
from routing.request.stage import (
    ANSWERING,
    ASKING,
    BEGUN,
    DELAYED,
    DONE,
    FORWARDED,
    JOINED,
    LEFT,
    OPENING,
    PASSING,
    SENT,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.shared.activity import Activity
    from proxy.shared.administration.question import Row
    from proxy.shared.sessions import Member
    from routing.request.stage import Stage

COLUMNS: Final = (
    *("id", "user", "host", "worker", "state", "server", "digest", "level", "waiting_for"),
    "since",
)
MOST: Final = 4096
"""Rows of one worker; others are left out, first those of sessions that do nothing."""

_WAITS: Final[dict[Stage, str]] = {
    ASKING: "the primary's GTIDs",
    JOINED: "another read's wait",
    OPENING: "a connection to a replica",
    DELAYED: "primary-fallback-rate",
}
_STATES: Final[dict[Stage, str]] = {
    BEGUN: "executing",
    FORWARDED: "executing",
    SENT: "executing",
    PASSING: "sending",
    ANSWERING: "executing",
    LEFT: "ending",
}


def rows(sessions: Iterable[Member], worker: int, user: str | None) -> tuple[list[Row], int]:
    """The rows of a worker's sessions, and how many are left out.

    Args:
        sessions: all of them.
        worker: its number.
        user: only sessions of this user are shown; None: of all.
    """
    busy: list[Row] = []
    idle: list[Row] = []
    left_out = 0
    for session in sessions:
        if user is not None and session.state.user != user:
            continue
        doing = session.activity
        found = idle if doing.stage == DONE else busy
        if len(found) < MOST:
            found.append(_row(session, doing, worker))
        else:
            left_out += 1
    shown = (busy + idle)[:MOST]
    return shown, left_out + len(busy) + len(idle) - len(shown)


def _row(session: Member, doing: Activity, worker: int) -> Row:
    command, runs = doing.command, doing.stage != DONE
    statement = command.statement if runs else None
    rules = command.rules if runs else session.state.rules
    waits = _waits_for(doing)
    if runs:
        state = "waiting" if waits else _STATES.get(doing.stage, "executing")
    else:
        state = "in transaction" if session.state.transaction.is_open else "idle"
    return [
        session.connection_id,
        session.state.user,
        session.peer,
        worker,
        state,
        doing.server if runs else None,
        None if statement is None else statement.digest or None,
        rules.consistency,
        waits,
        _time(command.arrived_us),
    ]


def _waits_for(doing: Activity) -> str | None:
    """What the statement waits for before a server executes it, if anything."""
    if doing.stage == DONE:
        return None
    found = _WAITS.get(doing.stage)
    if found is not None:
        return found
    if doing.stage in (SENT, FORWARDED):
        outcome = doing.outcome
        if outcome.proof is Proof.WAITED and not outcome.wait_us:
            return "GTIDs of the replica"
        if doing.server is None and doing.is_away:
            return "a connection to the primary"
    return None


def _time(microseconds: int) -> str | None:
    """A time of day as ISO 8601 writes it; None where there was no command yet."""
    if not microseconds:
        return None
    seconds, rest = divmod(microseconds, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"

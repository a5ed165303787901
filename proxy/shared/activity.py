"""What a session does at a moment, as operators see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.request.stage import Stage


class Activity(NamedTuple):
    """What a session does.

    Attributes:
        stage: of its command.
        command: the one that runs, or the last one.
        outcome: of that.
        server: the one that answers; None if none does.
        is_away: it has no connection to the primary of its own.
    """

    stage: Stage
    command: Command
    outcome: CommandOutcome
    server: str | None
    is_away: bool

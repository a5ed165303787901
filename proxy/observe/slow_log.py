"""Writes one line into the log for each slow statement: what it was, where it ran and why."""

import logging
from typing import TYPE_CHECKING, Final

from proxy.observe.digests import text_of
from routing.consistency.decision import Outcome
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.servers.rate_limit import RateLimit
from routing.servers.topology import Server

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

NEVER: Final = 1 << 62
"""Microseconds that no statement takes."""
LINES_PER_S: Final = 10.0
"""Further ones are counted, and the next line says how many they were."""


class SlowLog:
    """The slow statements of one worker.

    Attributes:
        slow_us: a statement that takes as long, us, is slow.
    """

    def __init__(self, slow_us: int, now: "Callable[[], float]") -> None:
        """`now` is monotonic, s."""
        self.slow_us: Final = slow_us
        self._now = now
        self._limit = RateLimit(LINES_PER_S)
        self._left_out = 0

    def write(
        self,
        command: Command,
        outcome: CommandOutcome,
        server: Server | None,
        result: Outcome,
        took_us: int,
        user: str,
        mode_flags: int,
    ) -> None:
        """Write the line of a command that has just ended, unless there were too many lately.

        Args:
            command: the command.
            outcome: what became of it.
            server: who answered it; None if no server did.
            result: how it ended.
            took_us: from its arrival to its end.
            user: whose it was.
            mode_flags: those of its session, a sum of `routing.sql.lexer.MODE_…`.
        """
        if self._limit.reserve(self._now(), 0.0) is None:
            self._left_out += 1
            return
        statement = command.statement
        digest = "" if statement is None else statement.digest
        text = text_of(digest, command, mode_flags) if digest else command.code.name
        left_out, self._left_out = self._left_out, 0
        _log.warning(
            "slow statement: %.3f s, waited %.3f s, %s of user %r on %s, reason %s, proof %s, %s;"
            " digest %s: %s%s",
            took_us / 1e6,
            outcome.wait_us / 1e6,
            command.code.name,
            user,
            "no server" if server is None else server.name,
            "none" if outcome.reason is None else outcome.reason.value,
            "none" if outcome.proof is None else outcome.proof.value,
            result.value,
            digest or "none",
            text,
            f" ({left_out} slow statements before it were not logged)" if left_out else "",
        )

"""A generated session, and how it is run."""

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import Self

from protocol.constants import Capability
from tests.differential.player import Answer, Player
from tests.differential.schema import PASSWORD, USER
from tests.differential.step import Query, Step
from tests.real_mysql.raw_client import NOTHING, RawClient

OPENING = (Query("SELECT 1"), Query("DO 1"))
"""What each session begins with, unseen: the proxy's own statements at a login are the last ones
that ROW_COUNT() and FOUND_ROWS() of a new connection tell of."""


@dataclass(frozen=True)
class Session:
    """What one client does.

    Attributes:
        capabilities: what it negotiates beyond `raw_client.BASE`.
        database: its schema from the login on, or None.
        without: what it leaves out of `BASE`.
    """

    capabilities: Capability
    database: str | None
    steps: tuple[Step, ...] = field(repr=False)
    without: Capability = NOTHING

    def __str__(self) -> str:
        lines = [f"Session({self.capabilities!r}, {self.database!r}, without={self.without!r}):"]
        return "\n".join([*lines, *(f"  {k}: {step}" for k, step in enumerate(self.steps))])

    def with_steps(self, steps: tuple[Step, ...]) -> Self:
        """The same client, doing other things."""
        return replace(self, steps=steps)

    def run(self, address: str, primary: str, pause: float = 0.0) -> list[Answer]:
        """Log in and take each step; the answers to them.

        Args:
            address: where its client connects.
            primary: where the other client does.
            pause: before each step, s.
        """
        return self.play(address, primary, USER, PASSWORD, pause)

    def play(
        self, address: str, primary: str, user: str, password: str, pause: float = 0.0
    ) -> list[Answer]:
        """Like `run`, for any account."""

        def connect_other() -> RawClient:
            return RawClient(primary, user, password, Capability.CLIENT_DEPRECATE_EOF, "app")

        client = RawClient(address, user, password, self.capabilities, self.database, self.without)
        player = Player(client, connect_other)
        with contextlib.closing(player):
            for step in OPENING:
                step.play(player)
            answers = [player.login]
            for step in self.steps:
                if pause:
                    time.sleep(pause)
                answers.append(step.play(player))
            return answers

"""A generated session, and how it is run."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from protocol.constants import Capability
from tests.differential.player import CLOSED, Answer, Packet, Player
from tests.differential.schema import PASSWORD, USER
from tests.differential.server_defaults import ServerDefault
from tests.differential.step import Step
from tests.real_mysql.raw_client import NOTHING, RawClient


@dataclass(frozen=True)
class Session:
    """What one client does.

    Attributes:
        capabilities: what it negotiates beyond `raw_client.BASE`.
        database: its schema from the login on, or None.
        without: what it leaves out of `BASE`.
        collation: the id that it logs in with, of one byte.
        defaults: in what the servers differ that it finds.
        follows: another client of its kind was there before, whose connections Tidegate keeps.
    """

    capabilities: Capability
    database: str | None
    steps: tuple[Step, ...] = field(repr=False)
    without: Capability = NOTHING
    collation: int = 255
    defaults: tuple[ServerDefault, ...] = ()
    follows: bool = False

    def __str__(self) -> str:
        lines = [
            f"Session({self.capabilities!r}, {self.database!r}, without={self.without!r},"
            f" collation={self.collation}, defaults={self.defaults}, follows={self.follows}):"
        ]
        return "\n".join([*lines, *(f"  {k}: {step}" for k, step in enumerate(self.steps))])

    def with_steps(self, steps: tuple[Step, ...]) -> Self:
        """The same client, doing other things."""
        return replace(self, steps=steps)

    def run(
        self, address: str, primary: str, rest: Callable[[], None] | None = None
    ) -> list[Answer]:
        """Log in and take each step; the answers to them.

        Args:
            address: where its client connects.
            primary: where the other client does.
            rest: what the client does to pause; None if `address` is the server itself.
        """
        return self.play(address, primary, USER, PASSWORD, rest)

    def play(
        self,
        address: str,
        primary: str,
        user: str,
        password: str,
        rest: Callable[[], None] | None = None,
    ) -> list[Answer]:
        """Like `run`, for any account."""

        def connect_other() -> RawClient:
            return RawClient(primary, user, password, Capability.CLIENT_DEPRECATE_EOF, "app")

        try:
            client = _Client(address, user, password, self)
        except ConnectionError as error:
            refused = Packet(0, str(error).encode(), control=False)
            return [(refused,), *((CLOSED,) for _ in self.steps)]
        player = Player(client, connect_other, rest)
        with contextlib.closing(player):
            return [player.login, *(step.play(player) for step in self.steps)]


class _Client(RawClient):
    """Logs in as a session says, and does not wait for ever for an answer."""

    timeout = 10.0

    def __init__(self, address: str, user: str, password: str, session: Session) -> None:
        self.character_set = session.collation
        super().__init__(
            address, user, password, session.capabilities, session.database, session.without
        )

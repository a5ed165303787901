"""The configuration that counts now; a reload puts another in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.config import Config
    from proxy.reload.answer import Answer
    from proxy.tls.materials import Materials

    Follower = Callable[[Config, Materials], None]
    """Is given the configuration of before, and its materials."""


class LiveConfig:
    """That of one worker.

    Whoever needs an option reads it here when it is needed, and keeps a `Config` or `Materials` for
    no longer than one piece of work, such as a login: each is immutable, so what belongs together
    does not change meanwhile. Who has computed something from options follows their changes.

    Attributes:
        config: the options.
        materials: the keys and TLS contexts that were made with them.
        reload: reads the file anew, for all workers, and says what came of it; None where nobody
            can, as in tests.
    """

    def __init__(self, config: Config, materials: Materials) -> None:
        self.config = config
        self.materials = materials
        self.reload: Callable[[], Awaitable[Answer]] | None = None
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Call this whenever other options count, after those that follow already."""
        self._followers.append(follower)

    def change(self, config: Config, materials: Materials) -> None:
        """Let other options count."""
        before = self.config, self.materials
        self.config = config
        self.materials = materials
        for follower in self._followers:
            follower(*before)

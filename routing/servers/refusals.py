"""Statements that replicas refuse, since they write although they look like reads.

A view may call a function that writes. That is found out once, by a replica's error; from then on
statements of the same digest go to the primary at once, until they are tried again some time later.
"""

from typing import Final

MOST: Final = 1024
"""How many digests are remembered; beyond that the oldest is forgotten."""
TRIED_AGAIN_AFTER_S: Final = 600.0


class Refusals:
    """The digests of one proxy's refused statements.

    Attributes:
        until: until when each is not to be tried on replicas, monotonic s.
    """

    def __init__(self) -> None:
        self.until: Final[dict[str, float]] = {}

    def add(self, digest: str, now: float) -> None:
        """A replica refused a statement; `now` is monotonic, s."""
        self.until.pop(digest, None)
        if len(self.until) >= MOST:
            del self.until[next(iter(self.until))]
        self.until[digest] = now + TRIED_AGAIN_AFTER_S

    def holds(self, digest: str, now: float) -> bool:
        """Whether statements with this digest are not to be tried on replicas."""
        until = self.until.get(digest)
        if until is None:
            return False
        if now >= until:
            del self.until[digest]
            return False
        return True

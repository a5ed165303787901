"""Replicas that refused what a session carries: a variable's value, a role, a schema."""

from typing import Final, NamedTuple

from routing.servers.topology import Server

StateVersions = tuple[int, int, int]
"""Versions of the session's variables, role and schema."""

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 3600.0
"""How long a replica is left alone after its first refusal, and at most."""


class ReplicaRejection(NamedTuple):
    """What one replica refused.

    Attributes:
        cause: in its own words.
        versions: what it was told then; other values were not tried.
        until: when it may be tried again, monotonic s: it may have been behind, or be repaired.
        pause: how long that is, s.
    """

    cause: str
    versions: StateVersions
    until: float
    pause: float


class ReplicaRejections:
    """The objections to one session.

    Attributes:
        last: the last objection of each replica that has one.
    """

    def __init__(self) -> None:
        self.last: Final[dict[Server, ReplicaRejection]] = {}

    def add(self, server: Server, cause: str, versions: StateVersions, now: float) -> float:
        """A replica refused; how long it is left alone, s."""
        before = self.last.get(server)
        pause = _FIRST_S
        if before is not None and before.versions == versions:
            pause = min(2 * before.pause, _LONGEST_S)
        self.last[server] = ReplicaRejection(cause, versions, now + pause, pause)
        return pause

    def hold(self, server: Server, versions: StateVersions, now: float) -> bool:
        """Whether a replica is left alone."""
        last = self.last.get(server)
        return last is not None and last.versions == versions and now < last.until

    def causes(self, versions: StateVersions) -> list[tuple[Server, str]]:
        """Which replicas refused what the session carries now, and why."""
        return [
            (server, last.cause) for server, last in self.last.items() if last.versions == versions
        ]

    def clear(self) -> None:
        """Another session begins."""
        self.last.clear()

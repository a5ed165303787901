"""When a transaction was committed: on the first server, and on the one whose log it is in.

Both are microseconds since the epoch, UTC. WL#7319 (I3, I5, I7): they take 7 bytes if they are
equal, else 14; then the highest bit of the first timestamp is set.
"""

from dataclasses import dataclass
from typing import Final

from protocol.wire import Reader

UNDEFINED: Final = 2**55
"""Default of the session variable ``original_commit_timestamp``: never in a log."""
UNKNOWN: Final = 0
"""The original time, if this server was not told it."""

_BYTES: Final = 7


@dataclass(frozen=True, slots=True)
class CommitTimestamps:
    """Both times of one transaction, in microseconds since the epoch.

    Attributes:
        original: on the server where it was first committed; `UNKNOWN` is 0.
        immediate: on the server whose log this is.
    """

    original: int
    immediate: int

    @property
    def lag(self) -> int | None:
        """Microseconds from the first commit to this one; None if one of them is not known.

        Negative where the clocks disagree.
        """
        if self.original == UNKNOWN or self.immediate == UNKNOWN:
            return None
        return self.immediate - self.original

    @classmethod
    def parse(cls, reader: Reader) -> "CommitTimestamps":
        """Takes 7 or 14 bytes.

        Raises:
            MalformedPacketError: fewer are left.
        """
        first = int.from_bytes(reader.take(_BYTES), "little")
        immediate = first & (UNDEFINED - 1)
        if not first & UNDEFINED:
            return cls(immediate, immediate)
        original = int.from_bytes(reader.take(_BYTES), "little")
        return cls(original & (UNDEFINED - 1), immediate)

    def serialise(self) -> bytes:
        """7 bytes, or 14."""
        if self.original == self.immediate:
            return self.immediate.to_bytes(_BYTES, "little")
        first = self.immediate | UNDEFINED
        return first.to_bytes(_BYTES, "little") + self.original.to_bytes(_BYTES, "little")


def original_for(session_value: int, immediate: int, *, by_applier: bool) -> int:
    """The original time of a transaction that is being written to a log (WL#7319, L6).

    Args:
        session_value: ``original_commit_timestamp`` of the session that commits.
        immediate: the time now.
        by_applier: whether that session applies what another server wrote.
    """
    if session_value != UNDEFINED:
        return session_value
    return UNKNOWN if by_applier else immediate

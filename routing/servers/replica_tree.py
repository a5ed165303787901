"""The servers that replicate from others, in chains, as each of them reports its replicas; pure."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

MOST: Final = 64
"""So many servers are found at most: what a source reports, replicas have told it themselves."""


class Reported(NamedTuple):
    """A replica, as its source reports it (SHOW REPLICAS).

    Attributes:
        uuid: its `server_uuid`.
        address: ``host:port``; empty if it has reported none that can be used.
        fault: why there is none.
    """

    uuid: str
    address: str
    fault: str = ""


class Branch(NamedTuple):
    """A replica, and the server that reports it.

    Attributes:
        replica: it.
        source: the `server_uuid` of the one that reports it.
    """

    replica: Reported
    source: str


def replica_tree(
    roots: Iterable[str], reports: Mapping[str, Sequence[Reported]]
) -> tuple[list[Branch], bool]:
    """All servers below the roots, each once, those nearest to a root first.

    A server that changed its source is reported by both for a while, and servers that replicate
    from each other report each other.

    Args:
        roots: the `server_uuid`s to begin with, which are not among the result.
        reports: what each server reports, by its `server_uuid`.

    Returns:
        The servers, `MOST` at most, and whether these are all.
    """
    pending = deque(dict.fromkeys(root for root in roots if root))
    met = set(pending)
    found: list[Branch] = []
    while pending:
        source = pending.popleft()
        for replica in reports.get(source, ()):
            if replica.uuid in met:
                continue
            if len(found) == MOST:
                return found, False
            met.add(replica.uuid)
            pending.append(replica.uuid)
            found.append(Branch(replica, source))
    return found, True

"""Which replicas are too far behind to be read (max-lag).

What is judged is how old a replica's state was when the primary was last seen, so that nothing
grows while the primary is idle or gone. That is known by the primary's own states at moments of the
past, without clocks. It is not known of a replica that lacks something which the primary had before
it was first seen: then the age is at least what commit timestamps say for certain, in spite of the
clocks; and if nothing more comes to that replica, it is taken for too old.
"""

from typing import Final

from routing.servers.observations import Staleness
from routing.servers.topology import Server, Topology

_RETURN: Final = 0.5
"""A replica is read again at this share of the limit: one that stays near it does not flap."""


def is_lagging(replica: Server, topology: Topology, limit: float, now: float) -> bool:
    """Whether a replica is too far behind to be read.

    Args:
        replica: as it was when it was asked last.
        topology: its cluster.
        limit: how far behind it may be, s.
        now: monotonic, s.
    """
    staleness = replica.staleness
    if staleness is None:
        return replica.lagging  # nothing is known of the primary
    stopped = replica.channels is not None and replica.channels.stopped
    if not (replica.gtids and topology.primary.gtids):
        return stopped
    unseen = topology.observations.unseen(now)
    if _age(replica, topology.source_uuid, staleness, unseen) > limit:
        return True
    if not staleness.known:
        return replica.lagging or stopped
    return replica.lagging and staleness.least > limit * _RETURN


def _age(replica: Server, primary: str, staleness: Staleness, unseen: float) -> float:
    """How old a replica's state was at least when the primary was last seen, s."""
    if staleness.known or replica.replication.disordered:
        return staleness.least
    certain_us = 0
    for source in replica.replication.sources:
        if source.source == primary and source.waits and source.hop_waits:
            # A transaction may be said to be older than it is, where it was first committed.
            certain_us = max(certain_us, min(source.waits.least_us, source.hop_waits.least_us))
    return max(staleness.least, certain_us / 1e6 - unseen)

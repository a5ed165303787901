"""Which replica has become the primary, judged by `read_only` alone: pure.

Whoever promotes a replica makes it writable, and the old primary read only unless it is gone. A
replica that was writable all along says nothing, so only one that was seen to open counts.
"""

from routing.topology import Server, Topology


def new_primary(topology: Topology, now: float) -> Server | None:
    """The replica that took over; None while the primary is the primary, or while it is unclear.

    Args:
        topology: the servers, as they were last seen.
        now: monotonic time, seconds.
    """
    primary = topology.primary
    if now >= primary.down_until and not primary.read_only:
        return None
    opened = [
        server
        for server in topology.replicas
        if server.opened and now >= server.down_until and not server.read_only
    ]
    return opened[0] if len(opened) == 1 else None

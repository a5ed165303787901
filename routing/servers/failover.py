"""Who the primary is, judged by looks at the servers; pure.

Theory of operation
===================

Every tool that promotes a replica ends its replication (RESET REPLICA ALL), makes it writable, and
makes sure that the old primary is read only or gone. Each of these can be seen:

* A server *claims* to be the primary if it was seen to open (read only at one look, writable at a
  later one, and not started in between) and is not configured to replicate. A server that was
  merely restarted proves nothing: its configuration may have opened it. A server whose replication
  is stopped still counts as a replica.
* The primary *has stepped down* for it if the primary is gone, is read only, or replicates from it.
* A server that is named twice, as where a name of its own leads to the primary, claims nothing as
  against itself.
* While the primary has not, or several claim, nobody can tell to which of them other programs
  write. They are *rivals*, and none of them gets a write, until all but one are read only,
  replicate or are gone.

Before the primary was first seen to take writes, nothing can have been seen to open. Then a
writable server that replicates from nobody claims, too, and is followed if it has all that the
others have. But if it is known who was the primary last (`kept`), being writable does not make
another server its rival. A server that was the primary earlier (`former`) may be an old one that
came back writable, and is not followed while the last one is gone, which may come back as well.

The new primary must have what the old one was last seen to have while it took writes. Only where
the old one is gone, and the new one was seen to be opened, may it lack some of that: then those
writes are lost, which is reported (`on-lost-writes`).
"""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.servers.topology import ProbeResult, Server, Topology

REOPEN: Final = "if it is to be the primary, SET GLOBAL read_only = ON there, and then OFF"
"""What lets a server be seen to open."""


class Election:
    """Judges the servers of one topology, again and again.

    Attributes:
        settled: the primary was seen to take writes, or was followed.
        obstacle: why the one server that claims is not followed; empty if none is in the way.
        kept: the UUID of the last primary, where that is known from before.
        former: the UUIDs of earlier primaries.
    """

    def __init__(self, topology: Topology) -> None:
        self.settled = False
        self.obstacle = ""
        self.kept = ""
        self.former: frozenset[str] = frozenset()
        self._topology = topology
        self._had = EMPTY  # the primary, when it was last seen to take writes
        self._claimed_at: dict[Server, float] = {}

    def decide(self, now: float) -> Server | None:
        """Judge the last looks; return the primary, or None while it is not clear.

        It also says who the rivals are (`Topology.rivals`). Another server than the topology's
        primary is to be promoted there, and then told to `on_primary`.

        Args:
            now: monotonic s; when the last of these looks had ended.
        """
        topology = self._topology
        primary = topology.primary
        self.obstacle = ""
        if primary.takes_writes:
            self._had = primary.applied
        if any(server.probe_result is ProbeResult.UNKNOWN for server in topology.servers):
            return None
        if primary.takes_writes and primary.uuid == self.kept:
            self.settled = True
        claiming = self._claiming(now)
        if not claiming:
            topology.dispute([])
            self.settled = self.settled or primary.takes_writes
            return primary if primary.takes_writes else None
        if all(_has_stepped_down(primary, server) for server in claiming):
            topology.dispute(claiming if len(claiming) > 1 else [])
            if topology.rivals:
                return None
            self.obstacle = self._obstacle(claiming[0])
            return None if self.obstacle else claiming[0]
        if self.settled:
            # It may have been made read only before the other one was opened: so it is looked at
            # again.
            claiming = [
                server for server in claiming if primary.seen_at >= self._claimed_at[server]
            ]
        topology.dispute([primary, *claiming] if claiming else [])
        return None

    def on_primary(self, server: Server) -> None:
        """This server is the topology's primary now."""
        self.settled = True
        self.obstacle = ""
        self._had = server.applied

    def _claiming(self, now: float) -> list[Server]:
        primary = self._topology.primary
        found = [
            server
            for server in self._topology.replicas
            if server.uuid != primary.uuid and self._claims(server)
        ]
        self._claimed_at = {server: self._claimed_at.get(server, now) for server in found}
        return found

    def _claims(self, server: Server) -> bool:
        if not server.takes_writes or server.sources:
            return False
        return server.opened or (not self.settled and server.sources is not None)

    def _obstacle(self, server: Server) -> str:
        """What is missing for a promotion."""
        topology = self._topology
        if server.sources is None:
            return "it cannot be seen whether it replicates (grant the monitor REPLICATION CLIENT)"
        primary = topology.primary
        lacked = (self._had & primary.applied) - server.applied  # it may have been made anew
        if primary.probe_result is not ProbeResult.GONE and lacked:
            return f"it lacks what {primary.name} has, which is there still: {lacked.text}"
        if not server.opened:
            if primary.probe_result is ProbeResult.GONE and server.uuid in self.former:
                return f"it was the primary before {primary.name}, which may come back; {REOPEN}"
            for other in topology.servers:
                lacked = _without_own(other) - server.applied
                if lacked and other is not server:
                    return f"it lacks what {other.name} has: {lacked.text}"
        return ""


def _has_stepped_down(primary: Server, claimant: Server) -> bool:
    if primary.probe_result is ProbeResult.GONE:
        return True
    if primary.probe_result is not ProbeResult.ANSWERED:
        return False
    return primary.read_only is True or claimant.uuid in (primary.sources or ())


def _without_own(server: Server) -> GtidSet:
    """What a server got from others."""
    applied = server.applied
    return GtidSet(
        {
            tsid: applied.intervals(tsid)
            for tsid in applied.tsids
            if not tsid.startswith(server.uuid or "?")
        }
    )

"""Takes replicas out of use that are further behind than max-lag, and says so."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from routing.servers.max_lag import is_lagging

if TYPE_CHECKING:
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_State = frozenset[tuple[str, str, int]]


class LagLimit:
    """Judges replicas when the monitor has looked at them."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._not_replicating: dict[Server, _State] = {}  # those of which that was logged

    def judge_all(self) -> None:
        """Judge all replicas by what is known: the primary was seen for the first time."""
        topology = self._shared.topology
        for replica in (*topology.replicas, *topology.standby):
            if replica.uuid:
                replica.staleness = topology.observations.staleness(replica.applied)
                self.judge(replica)

    def judge(self, replica: Server) -> None:
        """Judge a replica."""
        self._note_channels(replica)
        shared = self._shared
        limit = shared.config.lag_limit
        before = replica.lagging
        lagging = limit is not None and is_lagging(replica, shared.topology, limit, shared.now())
        replica.set_lagging(lagging)
        shared.metrics.lagging(replica.name, replica.lagging)
        if replica.lagging is before:
            return
        if before:
            _log.info("replica %s is no longer too far behind, and is read again", replica.name)
            return
        _log.warning(
            "replica %s is too far behind to be read (max-lag = %gs): it lacks %s%s; %s",
            replica.name,
            limit,
            self._lacks(replica),
            self._why(replica),
            self._what_is_left(),
        )

    def forget(self, server: Server) -> None:
        """It does not answer, or is the primary: what its replication does is not known."""
        self._not_replicating.pop(server, None)
        self._shared.metrics.replicating(server.name, None)

    def _lacks(self, replica: Server) -> str:
        staleness = replica.staleness
        if staleness is None or not staleness.missing:
            return "what nobody can tell, since there are no GTIDs"
        if not staleness.known:
            return "what the primary had when it was first seen"
        return f"what the primary had {replica.lag or 0.0:.1f} s ago"

    def _why(self, replica: Server) -> str:
        channels = replica.channels
        if channels is None or (channels.replicating and not channels.delay):
            return ""
        return f" ({channels.text})"

    def _what_is_left(self) -> str:
        topology = self._shared.topology
        if not all(replica.lagging for replica in topology.replicas):
            return "reads go to other servers"
        if topology.reads_lagging:
            return "so are all others, and all are read nevertheless (on-max-lag = stale)"
        return "so are all others, and reads go to the primary (on-max-lag = primary)"

    def _note_channels(self, replica: Server) -> None:
        """Log whether it replicates, when that has changed."""
        channels = replica.channels
        if channels is None:
            self._shared.metrics.replicating(replica.name, None)
            return
        self._shared.metrics.replicating(replica.name, channels.replicating)
        before = self._not_replicating.get(replica)
        if channels.replicating:
            if before is not None:
                del self._not_replicating[replica]
                _log.info("replica %s replicates again", replica.name)
        elif channels.state != before:
            self._not_replicating[replica] = channels.state
            _log.warning("replica %s does not replicate: %s", replica.name, channels.text)

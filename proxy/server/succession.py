"""Follows the primary: promotes who has taken over, and says how it stands."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.gtid import EMPTY
from routing.failover import Election
from routing.topology import Sight

if TYPE_CHECKING:
    from proxy.proxy import Proxy
    from routing.topology import Server

_log = logging.getLogger(__name__)


class Succession:
    """What the monitor's looks mean for who the primary is.

    Without `failover` nobody is followed; whether the primary takes writes is told in any case.
    """

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._election = Election(proxy.topology) if proxy.config.failover == "read_only" else None
        self._trouble = ""
        self._strays: set[Server] = set()

    @property
    def follows(self) -> bool:
        """Whether another server may become the primary."""
        return self._election is not None

    def judge(self) -> None:
        """Judge the last looks at the servers."""
        proxy = self._proxy
        obstacle = ""
        if self._election is not None:
            server = self._election.decide(proxy.now())
            if server is not None and server is not proxy.topology.primary:
                self._follow(self._election, server)
            obstacle = self._election.obstacle
            self._tell_strays()
        proxy.metrics.primary_disputed(bool(proxy.topology.rivals))
        self._tell(self._judged(obstacle))

    def _follow(self, election: Election, server: Server) -> None:
        """Route to a server that has taken over."""
        proxy = self._proxy
        old = proxy.topology.primary
        _log.warning("server %s is the primary now, %s was", server.name, old.name)
        proxy.promote(server)
        election.followed(server)
        for one in proxy.topology.servers:
            one.errant = EMPTY
            proxy.metrics.errant_gtids(one.name, 0)

    def _judged(self, obstacle: str) -> str:
        """Why clients' writes cannot be served; empty if they can, as far as is known."""
        topology = self._proxy.topology
        primary = topology.primary
        if topology.rivals:
            return (
                f"{_names(topology.rivals)} take writes, and it is not clear which is the primary:"
                " none gets a write until all but one are read only, replicate or are gone"
            )
        if primary.sight is Sight.GONE:
            why = f"the primary {primary.name} cannot be reached"
        elif primary.sight is Sight.ANSWERED and primary.read_only:
            why = f"the primary {primary.name} is read only"
        else:
            return ""
        if self._election is None:
            return why
        open_ones = [one for one in topology.replicas if one.takes_writes and not one.sources]
        if not open_ones:
            return why
        obstacle = obstacle or "nobody was seen to open it; SET GLOBAL read_only = ON, and then OFF"
        return f"{why}; {_names(open_ones)} takes writes, but is not followed: {obstacle}"

    def _tell(self, trouble: str) -> None:
        if trouble == self._trouble:
            return
        if trouble:
            _log.error("no write is served: %s", trouble)
        else:
            _log.warning(
                "writes are served again; the primary is %s", self._proxy.topology.primary.name
            )
        self._trouble = trouble
        self._proxy.metrics.unfit(trouble)

    def _tell_strays(self) -> None:
        """Log who takes writes that is neither the primary nor one of its rivals."""
        topology = self._proxy.topology
        strays = {one for one in topology.replicas if one.takes_writes}
        strays.difference_update(topology.rivals)
        for server in strays - self._strays:
            _log.warning(
                "server %s takes writes, too, and gets none here: the primary is %s; make the other"
                " one read only",
                *(server.name, topology.primary.name),
            )
        self._strays = strays


def _names(servers: list[Server]) -> str:
    return " and ".join(server.name for server in servers)

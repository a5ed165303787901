"""How the simulated proxy monitors servers, as `proxy.monitor.monitor` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.links import Link

if TYPE_CHECKING:
    from routing.servers.topology import Held, Server
    from tests.model.proxy import Proxy
    from tests.model.wires import Answer


class Monitor:
    """Asks one server after the other who it is and what it has, over a connection of its own."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._links: dict[Server, Link] = {}
        # For each server, what replicas held when it was asked.
        self._held: dict[Server, list[Held]] = {}
        # And, of those that had diverged by then, how often that was found.
        self._divergences: dict[Server, int] = {}

    def look(self, server: Server) -> bool:
        """Ask a server, unless its last answer is still awaited."""
        proxy = self._proxy
        link = self._links.get(server)
        if link is not None and link.busy:
            return False
        self._held[server] = proxy.topology.held_by_replicas()
        self._divergences[server] = server.divergences if server.has_diverged else -1
        if link is not None:
            link.ask("identify", proxy.now())
        elif proxy.servers[server].up:
            self._links[server] = link = Link(server, proxy.servers[server], self._answered)
            link.identify("OFF", proxy.now())
        else:
            server.set_unreachable(proxy.now())
        return True

    def end(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()

    def _answered(self, link: Link, answer: Answer) -> None:
        proxy, server = self._proxy, link.server
        if answer.kind == "lost":
            del self._links[server]
            link.close()
            proxy.primary_epoch.leave(self)
            server.set_unreachable(proxy.now())
            return
        purpose = link.purposes.popleft()
        if purpose == "compare":
            proxy.primary_epoch.compared(link, answer)
            return
        if purpose == "track":
            link.tracked()
            return
        kept = link.epoch >= 0
        link.identified(answer, proxy.start_slack)
        if kept and self._divergences[server] >= 0:
            server.take_binary_log(answer.binary_log, self._divergences[server])
        if server.regained:
            server.judge_regained(answer.gtids, answer.purged)
        server.keeps_order(answer.ordered, link.asked_at, proxy.now())
        server.set_reachable()
        topology = proxy.topology
        if server is not topology.primary:
            return
        if proxy.primary_epoch.has_begun():
            topology.compare(self._held[server], answer.gtids | answer.owned)
            proxy.keeper.on_compared(topology.diverged_gtids)
            topology.observations.add(link.asked_at, answer.gtids)
        else:
            proxy.primary_epoch.begin(self, link)

    def logged_in(self, link: Link) -> None:
        """The term has begun; there is nothing to log in for."""

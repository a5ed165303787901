"""The shared probes of the simulated proxy, as in `proxy.shared.probe`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from routing.servers.gathering import Gathering
from tests.model.wires import Answer, Command

if TYPE_CHECKING:
    from tests.model.links import Link
    from tests.model.proxy import Proxy
    from tests.model.session import ProxySession


class Probes:
    """The shared probes of the primary."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.gathering: Gathering[ProxySession] = Gathering()
        self._asked_at = 0.0

    def ask(self, session: ProxySession) -> None:
        """Give a read the answer to the next question that is sent."""
        self.gathering.arrive(session)
        self.begin()

    def leave(self, session: ProxySession) -> None:
        """A session ends."""
        if self.gathering.leave(session):
            self.begin()

    def begin(self) -> None:
        """Ask, if somebody waits and no question is in flight."""
        while askers := self.gathering.begin():
            link = askers[0].primary_for_probe()
            if link is not None:
                self._asked_at = self._proxy.now()
                link.send("gather", Command("probe"))
                return
            leader = askers[0]
            self.gathering.leave(leader)
            leader.reads.probed(None)

    def answered(self, link: Link, answer: Answer) -> None:
        """The primary has answered, over the leader's connection."""
        askers = self.gathering.asked
        if not askers or askers[0].primary_for_probe() is not link:
            return
        topology = self._proxy.topology
        link.server.add_proof(answer.gtids, link.epoch)
        if link.server is topology.primary:
            topology.observations.add(self._asked_at, answer.gtids)
        for session in self.gathering.end():
            session.reads.probed(answer)
        self.begin()

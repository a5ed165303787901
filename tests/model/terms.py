"""How the simulated proxy begins the term of a primary, as in `proxy.shared.primary_epoch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from routing.servers.topology import Held
from tests.model.links import Link
from tests.model.wires import Answer

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from routing.consistency.scope import ScopeState
    from routing.servers.topology import Server
    from tests.model.monitor import Monitor
    from tests.model.proxy import Proxy
    from tests.model.servers import Mysql
    from tests.model.session import ProxySession


class PrimaryEpoch:
    """The terms of primaries: a primary is not used before everything was compared with it."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._begun: int | None = None
        self._compared_with = ("", 0.0)  # uuid and start of a primary
        self._waiting: list[tuple[ProxySession | Monitor, Link]] = []
        self._asked: list[Link] = []  # replicas that have not answered yet
        self._answers: list[Held] = []  # what replicas have, or were committing
        self._comparing: Link | None = None  # the connection of the first session that waits
        self._held: list[Held] = []
        self._scopes: list[tuple[ScopeState, GtidSet]] = []
        self._term = 0

    def has_begun(self) -> bool:
        """Whether the present term has begun."""
        return self._begun == self._proxy.topology.term

    def replicas(self) -> list[Server]:
        """The replicas that are asked what they have."""
        return self._proxy.topology.replicas

    def scopes(self) -> list[ScopeState]:
        """The scopes that are compared with the primary."""
        proxy = self._proxy
        return [*proxy.scopes.states(), *(session.state.own_scope for session in proxy.sessions)]

    def has_compared(self, primary: Mysql) -> bool:
        """Whether everything was compared with this server's present incarnation."""
        return self._compared_with == (primary.uuid, primary.started)

    def begin(self, session: ProxySession | Monitor, link: Link) -> None:
        """Let a session that has connected to the primary go on when the term has begun."""
        if self.has_begun():
            session.logged_in(link)
            return
        for other in list(self._proxy.sessions):
            old = other.primary
            if old is not None and -1 < old.epoch < old.server.started_epoch:
                other.leave_primary()
        self._waiting.append((session, link))
        if self._comparing is None:
            self._ask_replicas()

    def leave(self, session: ProxySession | Monitor) -> None:
        """A session ends."""
        leads = bool(self._waiting) and self._waiting[0][0] is session
        self._waiting = [(other, link) for other, link in self._waiting if other is not session]
        if leads:
            self._ask_replicas()

    def end(self) -> None:
        """Close the connections to replicas that have not answered."""
        for link in self._asked:
            link.close()

    def _ask_replicas(self) -> None:
        proxy = self._proxy
        for link in self._asked:
            link.close()
        self._asked = []
        self._answers = []
        self._comparing = None
        while self._waiting and (
            self.has_begun() or self._waiting[0][1].server is not proxy.topology.primary
        ):
            session, link = self._waiting.pop(0)
            session.logged_in(link)
        if not self._waiting:
            return
        self._comparing = self._waiting[0][1]
        for server in self.replicas():
            mysql = proxy.servers[server]
            if mysql.up:
                link = Link(server, mysql, self._answered)
                self._asked.append(link)
                link.identify("OFF", self._proxy.now())
        self._ask_primary()

    def _answered(self, link: Link, answer: Answer) -> None:
        """A replica has answered what it has."""
        if link not in self._asked:
            return
        if answer.kind != "lost" and link.purposes.popleft() == "track":
            link.tracked()
            return
        if answer.kind != "lost":
            link.identified(answer, self._proxy.start_slack)
            server = link.server
            having = answer.gtids | answer.owned
            self._answers.append(Held(server, server.uuid, having, link.epoch, answer.binary_log))
        link.close()
        self._asked.remove(link)
        self._ask_primary()

    def _ask_primary(self) -> None:
        if self._asked or self._comparing is None:
            return
        proxy = self._proxy
        self._term = proxy.topology.term
        self._held = proxy.topology.held_by_replicas(self._answers)
        self._scopes = [(scope, scope.everything) for scope in self.scopes()]
        self._comparing.ask("compare", self._proxy.now())

    def compared(self, link: Link, answer: Answer) -> None:
        """The primary has answered what it has: compare."""
        proxy = self._proxy
        topology = proxy.topology
        link.identified(answer, proxy.start_slack)
        if link is not self._comparing:
            return
        if topology.term == self._term:
            has = answer.gtids | answer.owned
            topology.compare(self._held, has)
            proxy.keeper.on_compared(topology.diverged_gtids)
            proxy.owe(has)
            for scope, required in self._scopes:
                if scope.term != self._term:
                    scope.compare_with_primary(has, required, self._term)
            self._begun = self._term
            self._compared_with = (answer.uuid, answer.started)
            topology.observations.clear()
        self._ask_replicas()

"""The proxy of the simulation: the real routing code, driven as `proxy` drives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from routing.servers.waits import Waits
from tests.model.monitor import Monitor
from tests.model.probes import Probes
from tests.model.session import ProxySession
from tests.model.tables import SCHEMA, Tables
from tests.model.terms import PrimaryEpoch
from tests.model.wires import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.gtid import GtidSet
    from routing.consistency.rules import Rules
    from routing.consistency.scope import Scopes, ScopeState
    from routing.servers.topology import Server, Topology
    from routing.session.session import Session
    from tests.model.keeper import Keeper
    from tests.model.links import Reply, Request
    from tests.model.servers import Mysql


@dataclass(eq=False)
class Proxy:
    """One proxy before one primary and its replicas.

    Attributes:
        servers: the simulated server behind each server that routing knows.
        topology: the servers as routing sees them.
        scopes: the wide scopes.
        now: the monotonic clock, s.
        keeper: keeps what outlives the proxy.
        registers: how many there are.
        start_slack: by how much the reported start of a server may be off, s.
        timers: calls that are due at some time.
        owing: wide scopes whose clients must be told of lost writes, and since when.
        silent: complaints: reads that were answered in such a scope without telling of the loss.
    """

    servers: dict[Server, Mysql]
    topology: Topology
    scopes: Scopes
    now: Callable[[], float]
    keeper: Keeper
    registers: int = 1
    start_slack: float = 0.4
    sessions: list[ProxySession] = field(default_factory=list)
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    owing: dict[int, tuple[ScopeState, float]] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.primary_epoch = PrimaryEpoch(self)
        self.monitor = Monitor(self)
        self.probes = Probes(self)
        self.waits = Waits()
        self.tables = Tables(self, self.registers)
        self._told: dict[tuple[int, int], ScopeState] = {}

    def connect(
        self, rules: Rules, user: str, number: int, reply: Callable[[Reply], None]
    ) -> ProxySession:
        """Let a client connect."""
        session = ProxySession(self, rules, user, number, reply)
        self.sessions.append(session)
        session.login()
        return session

    def begin_session(self, state: Session) -> None:
        """Let a session read the tables."""
        state.schema = SCHEMA
        state.known_tables = self.tables.known

    def read_command(self, register: int, now: float) -> Command:
        """What reads a register, or the view."""
        return Command("read", register, sent_at=now, registers=self.registers)

    def end(self) -> None:
        """The proxy's process ends; clients and servers see their connections close."""
        self.timers.clear()
        for session in list(self.sessions):
            session.end()
        self.primary_epoch.end()
        self.monitor.end()

    def promote(self, server: Server) -> None:
        """Another server is the primary: sessions on the old one must end."""
        self.topology.promote(server)
        mysql = self.servers[server]
        self.owe(mysql.executed | mysql.owned)
        for session in list(self.sessions):
            if session.primary is None or session.primary.server is not server:
                session.leave_primary()

    def owe(self, executed: GtidSet) -> None:
        """Note which scopes have lost writes, and must tell: the primary has only `executed`."""
        for scope in self.scopes.states():
            if not scope.everything <= executed:
                self.owing[id(scope)] = (scope, self.now())

    def hint(self, server: Server, gtids: GtidSet) -> None:
        """A server's binlog stream has these; it may not show them yet, so they prove nothing."""

    def told(self, scope: ScopeState) -> None:
        """A reader is told that acknowledged writes are gone."""
        self.owing.pop(id(scope), None)
        key = (id(scope), self.topology.term)
        if not scope.lost or key in self._told:
            self.silent.append(f"{scope.kind} {scope.key!r} was told of a loss twice, or of none")
        self._told[key] = scope

    def judge_told(self, request: Request) -> None:
        """A read was answered: check that its scope did not have to tell of lost writes first."""
        scope = request.scope
        if scope is None or id(scope) not in self.owing:
            return
        if self.owing[id(scope)][1] < request.arrived:
            why = request.decision.reason if request.decision else ""
            self.silent.append(f"{scope.kind} {scope.key!r} was not told of its lost writes: {why}")

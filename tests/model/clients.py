"""Clients of the proxy, and one that bypasses it: they write the history."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from routing.consistency.decision import Level, Proof, Reason, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from tests.model.links import Reply, Request
from tests.model.servers import VIEW
from tests.model.wires import Answer, Command, CommandKind, Wire
from tests.support.history import Read, ScopeKey, Write

if TYPE_CHECKING:
    from tests.model.options import Chooser
    from tests.model.session import ProxySession
    from tests.model.simulation import Simulation

TICK: Final = 0.005
"""Seconds between two ticks of the clock."""
STAMPS: Final = 1000
"""Stamps per tick; no step needs so many."""
USERS: Final = ("ann", "bob")
_FIRST_RULES: Final = Rules(Level.STRONG, Scope.CONNECTION, 0.2, TimeoutPolicy.PRIMARY)

_PRIMARYS_SHARE: Final = (Proof.PRIMARY, Reason.READ)


@dataclass(slots=True, eq=False)
class Written:
    """A write, and what has become of it so far."""

    client: str
    scopes: frozenset[ScopeKey]
    register: int
    value: int
    invoked: int
    acknowledged: int | None = None
    number: int | None = None
    aborted: bool = False
    lost: bool = False

    def as_write(self) -> Write:
        """The write in the form of the history."""
        return Write(
            self.client,
            self.scopes,
            self.register,
            self.value,
            self.invoked,
            self.acknowledged,
            self.number,
            self.aborted,
            self.lost,
        )


@dataclass(slots=True, eq=False)
class _Op:
    """The statement whose answer a client awaits."""

    request: Request
    invoked: int
    rules: Rules
    written: Written | None = None
    rows: Reply | None = None


class Client:
    """Sends one statement at a time, and records in the history what it did and saw."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self._simulation = simulation
        self._number = number
        self._user = USERS[number % len(USERS)]
        self._session: ProxySession | None = None
        self._replies: deque[Reply] = deque()
        self._connections = 0
        self._connecting = False
        self._op: _Op | None = None
        self._sent = True  # the request has arrived
        self._initial_rules = self._rules = _FIRST_RULES

    @property
    def name(self) -> str:
        """The name of its connection."""
        return f"c{self._number}.{self._connections}"

    @property
    def is_connected(self) -> bool:
        """Whether `hang_up` does anything."""
        return self._session is not None

    @property
    def has_a_part(self) -> bool:
        """Whether it has received the rows of an answer, but not its end."""
        return self._op is not None and self._op.rows is not None

    @property
    def can_act(self) -> bool:
        """Whether `act` does anything."""
        waits = self._connecting or self._op is not None
        return bool(self._replies) or not self._sent or not waits

    def act(self, choose: Chooser) -> None:
        """Take a reply, or let the request arrive at the proxy, or begin the next one."""
        if self._replies:
            self._take(self._replies.popleft())
        elif not self._sent:
            self._sent = True
            if self._session is not None and self._op is not None:
                self._session.command(self._op.request)
        elif self._session is None:
            self._connect(choose)
        else:
            self._begin(choose)

    def hang_up(self) -> None:
        """Disconnect, whatever is going on; the proxy notices it at once."""
        if self._session is not None:
            self._session.client_lost()
        while self._replies:
            self._take(self._replies.popleft())

    # What it sends

    def _connect(self, choose: Chooser) -> None:
        simulation = self._simulation
        self._connections += 1
        self._connecting = True
        self._initial_rules = self._rules = simulation.some_rules(choose)
        self._session = simulation.proxy.connect(
            self._rules, self._user, self._number, self._replies.append
        )

    def _begin(self, choose: Chooser) -> None:
        simulation = self._simulation
        draw = choose.below(24)
        rules = simulation.some_rules(choose) if choose.below(4) == 0 else None
        options = simulation.options
        register = choose.below(options.registers)
        views = options.views and draw >= 10 and choose.below(2) == 0
        request = Request("read", VIEW if views else register, rules=rules)
        if draw < 8:
            fails = draw < simulation.options.errors
            kind: CommandKind = "implicit" if fails else "refused" if draw == 7 else "write"
            request.kind = kind
            request.value = simulation.new_value()
        elif draw == 8:
            request = Request("reset")
        elif draw == 9:
            self._rules = simulation.some_rules(choose)
            request = Request("set", rules=self._rules, bends=choose.below(2) == 0)
        self._op = op = _Op(request, simulation.stamp(), request.rules or self._rules)
        if request.may_write:
            op.written = simulation.write(
                self.name, self._memberships(op.rules), register, request.value, op.invoked
            )
            op.written.aborted = request.kind == "refused"
        self._sent = False

    def _memberships(self, rules: Rules) -> frozenset[ScopeKey]:
        return frozenset(self._key(scope, rules) for scope in Scope)

    def _key(self, scope: Scope, rules: Rules) -> ScopeKey:
        keys = {
            Scope.CONNECTION: self.name,
            Scope.USER: self._user,
            Scope.APPLICATION: rules.application,
        }
        return scope, keys.get(scope, "")

    # What it gets

    def _take(self, reply: Reply) -> None:
        op = self._op
        if reply.kind == "rows":
            if op is not None:
                op.rows = reply
            return
        self._op = None
        self._connecting = False
        if op is not None:
            self._end(op, reply)
        if reply.kind == "lost":
            self._session = None
            self._sent = True

    def _end(self, op: _Op, reply: Reply) -> None:
        simulation = self._simulation
        request = op.request
        if op.written is not None and not op.written.aborted and reply.kind in ("ok", "error"):
            # The client knows that a statement which fails after an implicit commit has committed.
            op.written.acknowledged = simulation.stamp()
        if request.kind == "reset" and reply.kind == "ok":
            self._rules = self._initial_rules
        if op.rows is not None:
            rules = op.rules
            stale = op.rows.stale
            simulation.reads.append(
                Read(
                    self.name,
                    self._key(rules.scope, rules),
                    Level.BEST_EFFORT if stale else rules.level,
                    op.rows.register,
                    op.rows.value,
                    op.invoked,
                    simulation.stamp(),
                    # The clock has a resolution of one tick.
                    round(rules.staleness / TICK + 1) * STAMPS,
                    self._memberships(rules),
                )
            )
            simulation.count(f"read {rules.level}{' stale' if stale else ''}")
            decision = request.decision
            if decision is not None and decision.independence is not None:
                simulation.count("read independent")
            if decision is not None and (decision.proof, decision.reason) == _PRIMARYS_SHARE:
                simulation.count("read of the primary's share")
        else:
            simulation.count(f"{request.kind} {reply.kind}")


class DirectWriter:
    """A client that writes to the primary directly, not through the proxy."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._wire: Wire | None = None
        self._written: Written | None = None

    def act(self, choose: Chooser) -> bool:
        """Send a write, if none is under way."""
        simulation = self._simulation
        if self._written is not None or not simulation.primary.up:
            return False
        if self._wire is None:
            self._wire = Wire(simulation.primary, self._receive)
        options = simulation.options
        register = choose.below(options.registers)
        if options.views and choose.below(3) == 0:
            register = VIEW
        value = simulation.new_value()
        stamp = simulation.stamp()
        self._written = simulation.write("direct", frozenset(), register, value, stamp)
        self._wire.send(Command("write", register, value))
        return True

    def _receive(self, answer: Answer) -> None:
        written, self._written = self._written, None
        if answer.kind == "lost":
            self._wire = None
        elif written is not None:
            written.acknowledged = self._simulation.stamp()

"""A primary, its replicas, a proxy and its clients, moved step by step by whoever chooses.

A step is a kind and a number; the number chooses what exactly, so that a list of steps is all that
a run depends on. Nothing looks at a clock or runs by itself. What clients do and see goes into a
history; servers and proxy are not asked when it is judged.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, TypeVar

from routing.consistency import Rules
from routing.decision import Level, Scope, TimeoutPolicy
from routing.scope import Scopes
from routing.topology import Server, Topology
from tests.model.proxy import Proxy, ProxySession, Reply, Request
from tests.model.servers import Answer, Command, CommandKind, Mysql, Physics, Wire
from tests.support.history import Read, ScopeKey, Stamps, Write
from tests.support.history_checker import Violation, check

TICK: Final = 0.005
"""Seconds between two ticks of the clock."""
_STAMPS: Final = 1000
"""Stamps in a tick; no step needs so many."""
_APART: Final = 4.0
"""Between two starts of a server, s: it tells them in whole seconds."""

_FIRST_RULES: Final = Rules(Level.STRONG, Scope.CONNECTION, 0.2, TimeoutPolicy.PRIMARY)

_LOOKS: Final = 25
"""Steps between two looks for scopes that are stuck."""

USERS: Final = ("ann", "bob")
APPLICATIONS: Final = ("", "shop", "till")

WEIGHTS: Final = {
    "client": 24,
    "server": 40,
    "answer": 40,
    "receive": 12,
    "apply": 9,
    "commit": 8,
    "timer": 1,
    "time": 3,
    "delay": 5,
    "door": 1.5,
    "hint": 2,
    "hang_up": 0.25,
    "restart_replica": 0.12,
    "restart_primary": 0.05,
    "promote": 0.04,
    "notice": 1,
}


_STEADY: Final = ("client", "server", "answer", "notice")
"""Kinds of steps without which nothing moves."""

_Any = TypeVar("_Any")


@dataclass(frozen=True, slots=True)
class Options:
    """What a simulation is made of.

    Attributes:
        clients: how many.
        replicas: for each, whether it preserves commit order.
        registers: how many; few make more conflicts.
        errors: of 24 statements, how many commit a write and then fail.
        levels: those that clients ask for.
        scopes: those that clients ask for.
        scope_limit: wide scopes that the proxy keeps.
        scope_age: how long it keeps one that nobody uses, s.
        fallback_rate: reads per second that may leave late replicas.
        physics: which moments of a commit are apart.
        weights: of the kinds of steps.
    """

    clients: int = 4
    replicas: tuple[bool, ...] = (True, True, False)
    registers: int = 3
    errors: int = 1
    levels: tuple[Level, ...] = tuple(Level)
    scopes: tuple[Scope, ...] = tuple(Scope)
    scope_limit: int = 4
    scope_age: float = 6.0
    fallback_rate: float = 40.0
    physics: Physics = Physics.REAL
    weights: dict[str, float] = field(default_factory=lambda: dict(WEIGHTS))


def some_options(seed: int) -> Options:
    """Options chosen at random: with few clients, scopes and faults a run goes deeper."""
    chance = random.Random(seed)

    def some(all_of: Sequence[_Any], most: int) -> tuple[_Any, ...]:
        return tuple(chance.sample(all_of, chance.randint(1, most)))

    weights = {
        kind: weight * (1 if kind in _STEADY else chance.choice((0.1, 0.3, 1, 1, 1, 3)))
        for kind, weight in WEIGHTS.items()
    }
    return Options(
        clients=chance.randint(2, 5),
        replicas=tuple(chance.random() < 0.7 for _ in range(chance.randint(1, 3))),
        registers=chance.randint(1, 3),
        errors=chance.choice((1, 1, 4)),
        levels=some(tuple(Level), 3),
        scopes=some(tuple(Scope), 2),
        scope_limit=chance.randint(1, 5),
        scope_age=chance.choice((2.0, 6.0, 60.0)),
        fallback_rate=chance.choice((5.0, 40.0, 1000.0)),
        physics=chance.choice((Physics.REAL, Physics.REAL, *Physics, Physics.SIMPLE)),
        weights=weights,
    )


class Chooser:
    """Takes one choice after the other out of a number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def below(self, count: int) -> int:
        """One of 0..count-1."""
        self._number, found = divmod(self._number, count)
        return found


@dataclass(slots=True, eq=False)
class _Written:
    """A write, as far as it has come."""

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
        """As the history has it."""
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
    """What a client waits for."""

    request: Request
    invoked: int
    rules: Rules
    written: _Written | None = None
    rows: Reply | None = None


class Client:
    """Sends one statement at a time, and enters into the history what it did and saw."""

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
        """Its connection's name."""
        return f"c{self._number}.{self._connections}"

    @property
    def is_connected(self) -> bool:
        """Whether `hang_up` does anything."""
        return self._session is not None

    @property
    def has_a_part(self) -> bool:
        """Whether it has rows of an answer, and not its end."""
        return self._op is not None and self._op.rows is not None

    @property
    def can_act(self) -> bool:
        """Whether `act` does anything."""
        waits = self._connecting or self._op is not None
        return bool(self._replies) or not self._sent or not waits

    def act(self, choose: Chooser) -> None:
        """Take a reply, or let the request arrive, or send the next."""
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
        """Leave, whatever was going on; the proxy sees it at once."""
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
        what = choose.below(24)
        rules = simulation.some_rules(choose) if choose.below(4) == 0 else None
        register = choose.below(simulation.options.registers)
        request = Request("read", register, rules=rules)
        if what < 8:
            errors = simulation.options.errors
            kinds: list[CommandKind] = ["implicit"] * errors + ["write"] * (7 - errors)
            request.kind = [*kinds, "refused"][what]
            request.value = simulation.new_value()
        elif what == 8:
            request = Request("reset")
        elif what == 9:
            self._rules = simulation.some_rules(choose)
            request = Request("set", rules=self._rules)
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
            # The client knows: what fails behind an implicit commit has committed what was before.
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
                    request.register,
                    op.rows.value,
                    op.invoked,
                    simulation.stamp(),
                    # The clock itself is a tick wide.
                    round(rules.staleness / TICK + 1) * _STAMPS,
                    self._memberships(rules),
                )
            )
            simulation.count(f"read {rules.level}{' stale' if stale else ''}")
        else:
            simulation.count(f"{request.kind} {reply.kind}")


class Door:
    """A client that writes to the primary and does not come through the proxy."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._wire: Wire | None = None
        self._written: _Written | None = None

    def act(self, choose: Chooser) -> bool:
        """Send a write, if none is under way."""
        simulation = self._simulation
        if self._written is not None or not simulation.primary.up:
            return False
        if self._wire is None:
            self._wire = Wire(simulation.primary, self._receive)
        register = choose.below(simulation.options.registers)
        value = simulation.new_value()
        stamp = simulation.stamp()
        self._written = simulation.write("door", frozenset(), register, value, stamp)
        self._wire.send(Command("write", register, value))
        return True

    def _receive(self, answer: Answer) -> None:
        written, self._written = self._written, None
        if answer.kind == "lost":
            self._wire = None
        elif written is not None:
            written.acknowledged = self._simulation.stamp()


class Simulation:
    """All of it.

    Attributes:
        options: what it is made of.
        primary: the server that takes the writes, whether the proxy knows it or not.
        replicas: the others.
        proxy: the proxy.
        reads: of the history.
        counts: how often things happened, for tests that want to know what a run was about.
        steps: taken so far.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options = options or Options()
        self.reads: list[Read] = []
        self.counts: Counter[str] = Counter()
        self.steps = 0
        self.stamp = Stamps(lambda: self._ticks * _STAMPS)
        self._ticks = 1000
        self._values = self._flushes = self._uuids = 0
        self._written: dict[int, _Written] = {}
        self._stuck: set[str] = set()
        self._delayed: dict[object, int] = {}  # what does not move before which tick
        physics = options.physics
        self.primary = Mysql("primary:1", self._new_uuid(), ordered=True, physics=physics)
        self.replicas = [
            Mysql(f"replica:{number}", self._new_uuid(), ordered=ordered, physics=physics)
            for number, ordered in enumerate(options.replicas, 1)
        ]
        for replica in self.replicas:
            replica.follow(self.primary)
        names = [replica.name for replica in self.replicas]
        topology = Topology(self.primary.name, names, options.fallback_rate)
        servers = dict(zip(topology.servers, [self.primary, *self.replicas], strict=True))
        scopes = Scopes(options.scope_limit, options.scope_age)
        self.proxy = Proxy(servers, topology, scopes, self.now)
        self.clients = [Client(self, number) for number in range(options.clients)]
        self._by_door = Door(self)
        self._kinds: dict[str, Callable[[Chooser], bool]] = {
            kind: getattr(self, f"_{kind}") for kind in WEIGHTS
        }

    # Time, names, numbers

    def now(self) -> float:
        """The monotonic clock, s."""
        return self._ticks * TICK

    def new_value(self) -> int:
        """A value that was never written."""
        self._values += 1
        return self._values

    def _new_uuid(self) -> str:
        self._uuids += 1
        return f"{self._uuids:08d}-0000-0000-0000-000000000000"

    def _number(self, command: Command) -> int:
        self._flushes += 1
        self._written[command.value].number = self._flushes
        return self._flushes

    def write(
        self, client: str, scopes: frozenset[ScopeKey], register: int, value: int, invoked: int
    ) -> _Written:
        """Enter a write into the history as it is sent."""
        written = self._written[value] = _Written(client, scopes, register, value, invoked)
        return written

    def count(self, what: str) -> None:
        """Something happened once more."""
        self.counts[what] += 1

    def some_rules(self, choose: Chooser) -> Rules:
        """What a client may ask for."""
        options = self.options
        policies = (TimeoutPolicy.PRIMARY,) * 4 + (TimeoutPolicy.ERROR, TimeoutPolicy.STALE)
        return Rules(
            level=options.levels[choose.below(len(options.levels))],
            scope=options.scopes[choose.below(len(options.scopes))],
            wait_budget=(0.2, 0.5, 2.0)[choose.below(3)],
            on_timeout=policies[choose.below(len(policies))],
            staleness=(0.3, 1.5)[choose.below(2)],
            application=APPLICATIONS[choose.below(len(APPLICATIONS))],
        )

    # Steps

    def step(self, kind: str, number: int) -> bool:
        """Do one thing; False if there was nothing of this kind to do."""
        self._ticks += 1
        done = self._kinds[kind](Chooser(number))
        self.steps += done
        if self.steps % _LOOKS == 0:
            self._look_for_stuck()
        return done

    def run(self, seed: int, steps: int) -> None:
        """Take steps at random, as `Options.weights` has it."""
        chance = random.Random(seed)
        kinds = list(self.options.weights)
        weights = list(accumulate(self.options.weights.values()))
        goal = self.steps + steps
        while self.steps < goal:
            (kind,) = chance.choices(kinds, cum_weights=weights)
            self.step(kind, chance.getrandbits(48))

    def _delay(self, choose: Chooser) -> bool:
        """Something stands still for a while: a connection, a replica's applier, a client."""
        now = self._ticks
        self._delayed = {thing: until for thing, until in self._delayed.items() if until > now}
        things: list[object] = [
            wire for server in self._servers for wire in (*server.wires, *server.broken)
        ]
        things += [*self.replicas, *self.clients]
        self._delayed[things[choose.below(len(things))]] = now + 20 + choose.below(200)
        return True

    def _moves(self, thing: object) -> bool:
        return self._delayed.get(thing, 0) <= self._ticks

    def _client(self, choose: Chooser) -> bool:
        able = [client for client in self.clients if client.can_act and self._moves(client)]
        if able:
            able[choose.below(len(able))].act(choose)
        return bool(able)

    @property
    def _servers(self) -> list[Mysql]:
        return [self.primary, *self.replicas]

    def _server(self, choose: Chooser) -> bool:
        now = self.now()
        ready = [
            wire for server in self._servers for wire in server.wires if server.is_ready(wire, now)
        ]
        if ready:
            wire = ready[choose.below(len(ready))]
            wire.server.execute(wire, now, self._number)
        return bool(ready)

    def _answer(self, choose: Chooser) -> bool:
        able = [
            wire
            for server in self._servers
            for wire in (*server.wires, *server.broken)
            if wire.to_client and self._moves(wire)
        ]
        if able:
            able[choose.below(len(able))].deliver()
        return bool(able)

    def _receive(self, choose: Chooser) -> bool:
        able = [replica for replica in self.replicas if replica.can_receive]
        if able:
            able[choose.below(len(able))].receive()
        return bool(able)

    def _apply(self, choose: Chooser) -> bool:
        able = [
            replica
            for replica in self.replicas
            if replica.up and replica.relay and self._moves(replica)
        ]
        if able:
            able[choose.below(len(able))].apply(choose.below(64))
        return bool(able)

    def _commit(self, choose: Chooser) -> bool:
        able = [server for server in self._servers if server.is_committing]
        if able:
            able[choose.below(len(able))].go_on(later=choose.below(2) == 0)
        return bool(able)

    def _timer(self, choose: Chooser) -> bool:
        timers = self.proxy.timers
        due = [timer for timer in timers if timer[0] <= self.now()]
        if due:
            timer = due[choose.below(len(due))]
            timers.remove(timer)
            timer[1]()
        return bool(due)

    def _time(self, choose: Chooser) -> bool:
        self._ticks += choose.below(40)
        return True

    def _door(self, choose: Chooser) -> bool:
        return self._by_door.act(choose)

    def _hint(self, choose: Chooser) -> bool:
        able = [replica for replica in self.replicas if replica.up and replica.relay]
        if able:
            replica = able[choose.below(len(able))]
            gtids = replica.executed
            for transaction in replica.relay:
                gtids |= transaction.gtid
            self.proxy.hint(self._known_as(replica), gtids)
        return bool(able)

    def _known_as(self, mysql: Mysql) -> Server:
        return next(known for known, real in self.proxy.servers.items() if real is mysql)

    # Faults

    def _hang_up(self, choose: Chooser) -> bool:
        able = [client for client in self.clients if client.is_connected]
        midway = [client for client in able if client.has_a_part]
        if midway and choose.below(8):
            able = midway  # the worst moment
        if able:
            self.count("hang up")
            able[choose.below(len(able))].hang_up()
        return bool(able)

    def _crash(self, server: Mysql, choose: Chooser) -> None:
        server.crash(lambda answers: choose.below(answers + 1))
        for wire in server.broken:
            self._delayed[wire] = self._ticks + choose.below(100)
        if self.now() - server.started < _APART:
            self._ticks += round(_APART / TICK)

    def _restart_replica(self, choose: Chooser) -> bool:
        able = [replica for replica in self.replicas if replica.source is not None]
        if not able:
            return False
        replica = able[choose.below(len(able))]
        if replica.up:
            self.count("replica crashed")
            self._crash(replica, choose)
            if choose.below(2):
                return True
        lost = choose.below(4) if choose.below(2) else 0
        replica.restart(self.now(), min(lost, len(replica.binlog)))
        return True

    def _restart_primary(self, choose: Chooser) -> bool:
        if self._is_promoting:
            return False
        if self.primary.up:
            self.count("primary crashed")
            self._crash(self.primary, choose)
        self.primary.restart(self.now(), 0)
        return True

    @property
    def _is_promoting(self) -> bool:
        """Whether the proxy does not know the primary yet, or the old one is not back yet."""
        known = self.proxy.servers[self.proxy.topology.primary]
        return known is not self.primary or any(one.source is None for one in self.replicas)

    def _promote(self, choose: Chooser) -> bool:
        if self._is_promoting:
            return False
        able = [
            replica
            for replica in self.replicas
            # What is ahead of the primary came from one before it: to bring that back is an error.
            if replica.up and replica.ordered and self.primary.has_all_of(replica)
        ]
        if not able:
            return False
        self.count("promoted")
        old, new = self.primary, able[choose.below(len(able))]
        self._crash(old, choose)
        while new.is_committing:  # STOP REPLICA waits for that
            new.go_on(later=True)
        for written in self._written.values():
            if written.number is not None and not new.has(written.number) and not written.lost:
                written.lost = True
                self.count("lost")
        new.follow(None)
        self.primary = new
        self.replicas = [old if replica is new else replica for replica in self.replicas]
        old.source = None
        for replica in self.replicas:
            if replica is not old:
                replica.follow(new)
        return True

    def _notice(self, choose: Chooser) -> bool:
        """The proxy learns of the new primary; later the old one comes back as a replica."""
        if not self._is_promoting:
            return False
        known = self.proxy.servers[self.proxy.topology.primary]
        if known is not self.primary:
            self.proxy.promote(self._known_as(self.primary))
        elif self.primary.up:
            old = next(replica for replica in self.replicas if replica.source is None)
            old.clone(self.primary, self._new_uuid(), self.now())
        return True

    # The judge

    @property
    def history(self) -> list[Write | Read]:
        """What clients did and saw."""
        return [*(written.as_write() for written in self._written.values()), *self.reads]

    def judge(self) -> list[Violation | str]:
        """What went wrong: reads that broke their promise, and losses that were not told once."""
        return [*check(self.history), *self.proxy.silent, *sorted(self._stuck)]

    def _look_for_stuck(self) -> None:
        """Find scopes that were compared with the primary, and require what it will never have."""
        proxy, primary = self.proxy, self.primary
        if self._is_promoting or not primary.up:
            return
        for scope in (*proxy.scopes.states(), *(one.state.own_scope for one in proxy.sessions)):
            if scope.term == proxy.topology.term and not scope.own <= primary.executed:
                self._stuck.add(f"{scope.kind} {scope.key!r} waits for what no server will have")

"""A simulation of a primary, its replicas, a proxy and its clients, which runs step by step.

A step is a kind and a number; the number chooses the details, so a run depends on nothing but its
list of steps. Nothing looks at a clock or happens by itself. What clients do and see goes into a
history. Only the history is judged, not what the servers and the proxy know.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from routing.consistency.decision import TimeoutPolicy
from routing.consistency.rules import Rules
from routing.consistency.scope import Scopes
from routing.servers.placement import Place, Placement
from routing.servers.topology import Server, Topology
from tests.model.clients import STAMPS, TICK, Client, DirectWriter, Written
from tests.model.keeper import Keeper
from tests.model.options import WEIGHTS, Chooser, Options
from tests.model.proxy import Proxy
from tests.model.servers import Mysql
from tests.support.history import Read, ScopeKey, Stamps, Write
from tests.support.history_checker import Violation, check

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.wires import Command

APPLICATIONS: Final = ("", "shop", "till")
_APART: Final = 4.0
"""The least time between two starts of a server, s: it reports them in whole seconds."""
_ACKNOWLEDGEMENT: Final = "the acknowledgement of a replica"
_LOG: Final = "the primary's log, as the proxy reads it"
_LOOKS: Final = 25
"""After so many steps, scopes that are stuck are looked for."""


class Simulation:
    """One simulation.

    Attributes:
        options: its options.
        primary: the server that takes the writes, whether the proxy knows it or not.
        replicas: the other servers.
        proxy: the proxy.
        reads: the reads of the history.
        counts: how often things happened, for tests that check what a run covered.
        steps: how many steps were taken so far.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options = options or Options()
        self.reads: list[Read] = []
        self.counts: Counter[str] = Counter()
        self.steps = 0
        self.stamp = Stamps(lambda: self._ticks * STAMPS)
        self._ticks = 1000
        self._values = self._flushes = self._uuids = 0
        self._written: dict[int, Written] = {}
        self._stuck: set[str] = set()
        self._diverged_gtids: set[Mysql] = (
            set()
        )  # servers that have, or had, what a primary has lost
        self._restored = False  # the primary has lost transactions that the proxy knew of
        self._delayed: dict[object, int] = {}  # things that do not move before some tick
        physics = options.physics
        self.primary = Mysql("primary:1", self._new_uuid(), ordered=True, physics=physics)
        self.replicas = [
            Mysql(f"replica:{number}", self._new_uuid(), ordered=ordered, physics=physics)
            for number, ordered in enumerate(options.replicas, 1)
        ]
        for replica in self.replicas:
            replica.follow(self.primary)
        self._keeper = Keeper()
        self.proxy = self._new_proxy(self.primary)
        self.clients = [Client(self, number) for number in range(options.clients)]
        self._direct_writer = DirectWriter(self)
        self._kinds: dict[str, Callable[[Chooser], bool]] = {
            kind: getattr(self, f"_{kind}") for kind in {**WEIGHTS, **options.weights}
        }

    def _new_proxy(self, known: Mysql) -> Proxy:
        """Start a proxy that takes this server for the primary, and finds what was kept."""
        options = self.options
        others = [server for server in self._servers if server is not known]
        names = [server.name for server in others]
        topology = Topology(known.name, names, options.fallback_rate, options.proof_max_age)
        servers = dict(zip(topology.servers, [known, *others], strict=True))
        scopes = Scopes(options.scope_limit, options.scope_age)
        if self.options.weights["restart_proxy"]:
            keeper = self._keeper
            scopes.restore(keeper.found(), keeper, self.now())
            topology.remember_diverged(dict(keeper.diverged_gtids))
        proxy = Proxy(servers, topology, scopes, self.now, self._keeper, options.registers)
        for state in scopes.states():
            if state.lost_untold:
                proxy.owing[id(state)] = (state, self.now())
        return proxy

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
    ) -> Written:
        """Enter a write into the history as it is sent."""
        written = self._written[value] = Written(client, scopes, register, value, invoked)
        return written

    def count(self, event: str) -> None:
        """Count that something happened."""
        self.counts[event] += 1

    def some_rules(self, choose: Chooser) -> Rules:
        """Choose rules that a client may ask for."""
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
        """Take one step; False if nothing of this kind was possible."""
        self._ticks += 1
        done = self._kinds[kind](Chooser(number))
        self.steps += done
        if self.steps % _LOOKS == 0:
            self._look_for_stuck()
        return done

    def run(self, seed: int, steps: int) -> None:
        """Take steps at random, weighted by `Options.weights`."""
        chance = random.Random(seed)
        kinds = list(self.options.weights)
        weights = list(accumulate(self.options.weights.values()))
        goal = self.steps + steps
        while self.steps < goal:
            (kind,) = chance.choices(kinds, cum_weights=weights)
            self.step(kind, chance.getrandbits(48))

    def _delay(self, choose: Chooser) -> bool:
        """Let something stand still for a while: a connection, a replica's applier, a client."""
        now = self._ticks
        self._delayed = {thing: until for thing, until in self._delayed.items() if until > now}
        things: list[object] = [
            wire for server in self._servers for wire in (*server.wires, *server.broken)
        ]
        things += [*self.replicas, *self.clients]
        things += [_LOG] * 4 if self.options.views else []
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
        able = [
            server
            for server in self._servers
            if server.is_committing
            and (server is not self.primary or self._moves(_ACKNOWLEDGEMENT))
        ]
        if able:
            able[choose.below(len(able))].go_on(later=choose.below(2) == 0)
        return bool(able)

    def _await_acknowledgement(self, choose: Chooser) -> bool:
        """Let the primary finish no commit for a while, as under semi-synchronous replication.

        It has sent the transactions to replicas, which show them.
        """
        self.count("acknowledgement awaited")
        self._delayed[_ACKNOWLEDGEMENT] = self._ticks + 50 + choose.below(300)
        return True

    def _look(self, choose: Chooser) -> bool:
        servers = self.proxy.topology.servers
        return self.proxy.monitor.look(servers[choose.below(len(servers))])

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

    def _direct(self, choose: Chooser) -> bool:
        # Writes that bypass the proxy before it has compared servers may hide a loss.
        return not self._is_restoring and self._direct_writer.act(choose)

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
            self._delayed[wire] = self._ticks + choose.below(400)
        if self.now() - server.started < _APART:
            self._ticks += round(_APART / TICK)

    def _restart_replica(self, choose: Chooser) -> bool:
        able = [replica for replica in self.replicas if replica.source is not None]
        # A replica must say what it has before the primary reuses GTIDs; else it cannot be judged.
        if not able or self._is_restoring:
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

    def _restore_primary(self, choose: Chooser) -> bool:
        """The primary comes back without its last transactions, whose GTIDs it gives to others."""
        if self._is_promoting or not all(replica.up for replica in self.replicas):
            return False
        self.count("primary restored")
        primary = self.primary
        if primary.up:
            self._crash(primary, choose)
        kept = len(primary.binlog) - min(1 + choose.below(4), len(primary.binlog))
        gone = {transaction.number for transaction in primary.binlog[kept:]}
        for written in self._written.values():
            if written.number in gone:
                written.lost = True
        primary.restart(self.now(), len(gone))
        for replica in self.replicas:
            replica.reconnect()
            if not primary.has_all_of(replica):
                self._diverged_gtids.add(replica)
        self._restored = True
        return True

    @property
    def _is_restoring(self) -> bool:
        """Whether the proxy has not met the primary since it lost transactions."""
        self._restored = self._restored and not self.proxy.primary_epoch.has_compared(self.primary)
        return self._restored

    def _repair(self, choose: Chooser) -> bool:
        """Make a replica anew that has transactions which the primary lacks."""
        primary = self.primary
        able = [
            replica
            for replica in self.replicas
            if replica.source and not primary.has_all_of(replica)
        ]
        if not able or not primary.up or self._is_restoring:
            return False
        replica = able[choose.below(len(able))]
        if replica.up:
            self._crash(replica, choose)
        replica.clone(primary, self._new_uuid(), self.now())
        self._diverged_gtids.discard(replica)
        return True

    def _rebuild_replica(self, choose: Chooser) -> bool:
        able = [replica for replica in self.replicas if replica.can_be_rebuilt]
        if able:
            self.count("replica rebuilt")
            replica = able[choose.below(len(able))]
            lost = 1 + choose.below(min(4, len(replica.binlog)))
            replica.rebuild(lost, self.now() + self.options.proof_max_age)
        return bool(able)

    def _change_order(self, choose: Chooser) -> bool:
        able = [replica for replica in self.replicas if replica.source is not None]
        if able:
            self.count("order changed")
            replica = able[choose.below(len(able))]
            replica.change_order(self.now() + self.options.proof_max_age)
        return bool(able)

    def _lag(self, choose: Chooser) -> bool:
        """Let a replica be found to be too far behind to be read, or no longer."""
        topology = self.proxy.topology
        server = topology.replicas[choose.below(len(topology.replicas))]
        server.set_lagging(not server.lagging)
        topology.reads_lagging = choose.below(4) == 0
        self.count("lagging" if server.lagging else "not lagging")
        return True

    def _place(self, choose: Chooser) -> bool:
        """Let the proxy be told other zones and weights, or none, and whom reads may ask."""
        proxy = self.proxy
        topology = proxy.topology
        placement: Placement[Server] | None = None
        if choose.below(8):
            places = {
                server.name: Place(
                    (0, 1, 1, 3)[choose.below(4)], ("", "near", "far")[choose.below(3)]
                )
                for server in topology.servers
            }
            zone = ("", "near")[choose.below(2)]
            placement = Placement(zone, places, with_primary=choose.below(2) == 0)
        topology.place(placement)
        for session in proxy.sessions:
            session.prefer_replica(topology.number_of(session.number))
        self.count("placed")
        return True

    def _follow(self, choose: Chooser) -> bool:
        return self._moves(_LOG) and self.proxy.tables.follow()

    def _ask_names(self, choose: Chooser) -> bool:
        return self.proxy.tables.ask()

    def _look_at_primary(self, choose: Chooser) -> bool:
        return self.proxy.tables.look()

    def _keep(self, choose: Chooser) -> bool:
        keeper = self._keeper
        if keeper.has_something:
            keeper.go_on()
            return True
        return False

    def _restart_proxy(self, choose: Chooser) -> bool:
        """Stop or kill the proxy, whatever it is doing, and start it again."""
        old = self.proxy
        if choose.below(3) == 0:
            self.count("proxy stopped")
            self._keeper.stop()
        else:
            self.count("proxy killed")
        old.scopes.begin_keeping(None)
        old.end()
        self.proxy = self._new_proxy(old.servers[old.topology.primary])
        self.proxy.silent = old.silent
        restored = self.proxy.scopes.states()
        self.counts["scope found known"] += sum(not scope.unknown for scope in restored)
        self.counts["scope found unknown"] += sum(scope.unknown for scope in restored)
        return True

    @property
    def _is_promoting(self) -> bool:
        """Whether the proxy does not know the new primary yet, or the old one is not back yet."""
        known = self.proxy.servers[self.proxy.topology.primary]
        return known is not self.primary or any(replica.source is None for replica in self.replicas)

    def _promote(self, choose: Chooser) -> bool:
        if self._is_promoting:
            return False
        able = [
            replica
            for replica in self.replicas
            # A replica that is ahead of the primary has transactions of an earlier primary.
            # To promote it would be an operator's error.
            if replica.up and replica.ordered and self.primary.has_all_of(replica)
        ]
        if not able:
            return False
        self.count("promoted")
        old, new = self.primary, able[choose.below(len(able))]
        self._crash(old, choose)
        while new.is_committing:  # STOP REPLICA waits until all is committed
            new.go_on(later=True)
        for written in self._written.values():
            if written.number is not None and not new.has(written.number) and not written.lost:
                written.lost = True
                self.count("lost")
        new.follow(None)
        if new in self._diverged_gtids:  # the proxy cannot know whether it still has strayed GTIDs
            self._diverged_gtids.update(self.replicas, [old])
        self.primary = new
        self.replicas = [old if replica is new else replica for replica in self.replicas]
        old.source = None
        for replica in self.replicas:
            if replica is not old:
                replica.follow(new)
        return True

    def _notice(self, choose: Chooser) -> bool:
        """Let the proxy learn of the new primary, and later the old one come back as a replica."""
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
        """Find what went wrong: broken promises, losses that were not told exactly once, and so on.

        Scopes that are stuck, and replicas that are wrongly said to have diverged, count, too.
        """
        return [*check(self.history), *self.proxy.silent, *sorted(self._stuck)]

    def _look_for_stuck(self) -> None:
        """Find scopes that require what the primary will never have, though it was compared."""
        proxy, primary = self.proxy, self.primary
        if self._is_promoting or not primary.up or not proxy.primary_epoch.has_compared(primary):
            return
        for scope in (
            *proxy.scopes.states(),
            *(session.state.own_scope for session in proxy.sessions),
        ):
            if scope.term == proxy.topology.term and not scope.own <= primary.executed:
                self._stuck.add(f"{scope.kind} {scope.key!r} waits for what no server will have")
        for replica in self.replicas:
            known = self._known_as(replica)
            if (
                known.has_diverged
                and known.uuid == replica.uuid
                and replica not in self._diverged_gtids
            ):
                self._stuck.add(f"{replica.name} is said to have diverged")

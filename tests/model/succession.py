"""A simulation of how several workers find the primary: real rules, with servers that change roles.

Servers freeze, crash, and come back with their configuration. An operator, who makes mistakes,
opens them for writes, closes them, promotes them, and makes them replicas. Workers look at the
servers, which takes a while, judge as `proxy.monitor.primary_election` does, and are restarted.
Clients write through workers. Each write that a server takes is judged at once. At the end the
operator puts everything right, and all workers must take writes again.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from protocol.gtid import EMPTY, GtidSet
from proxy.state.state_file import PrimaryTerm, StateFile
from routing.servers.failover import Election
from routing.servers.topology import ProbeResult, Server, Topology

if TYPE_CHECKING:
    from collections.abc import Callable

_WEIGHTS: Final = {
    "ask": 40,
    "answer": 40,
    "keep": 6,
    "write": 12,
    "replicate": 10,
    "operate": 3,
    "freeze": 0.7,
    "resume": 1,
    "crash": 0.5,
    "start": 1,
    "begin_again": 0.6,
}
_NAMES: Final = ("a:1", "b:1", "c:1")


class Mysql:
    """One simulated server; `opens` says whether its configuration makes it writable."""

    def __init__(self, name: str, uuid: str, opens: bool) -> None:
        self.name = name
        self.uuid = uuid
        self.opens = opens
        self.up = True
        self.frozen = False
        self.read_only = True
        self.source: Mysql | None = None
        self.started = 0
        self.has = EMPTY
        self.written = 0

    @property
    def answers(self) -> bool:
        """Whether it runs, and is not frozen."""
        return self.up and not self.frozen

    def write(self) -> None:
        """Commit something."""
        self.written += 1
        self.has |= GtidSet({self.uuid: [(self.written, self.written + 1)]})


@dataclass(frozen=True, slots=True)
class Look:
    """What a server said when it was asked at a moment."""

    at: int
    read_only: bool
    started: int
    has: GtidSet
    sources: frozenset[str]


class Worker:
    """One worker, as in `proxy.monitor.monitor` and `proxy.monitor.primary_election`."""

    def __init__(self, file: StateFile, real: dict[str, Mysql]) -> None:
        self.topology = Topology(_NAMES[0], list(_NAMES[1:]))
        self.election = Election(self.topology)
        self.real = real
        self.term = PrimaryTerm(0, "", "", 0)
        self.asked: dict[str, tuple[int, Look | None]] = {}
        self.pending: PrimaryTerm | None = None
        self.looks: dict[str, list[Look | None]] = {name: [] for name in _NAMES}
        self._clear = False  # whether it was ever clear who the primary is
        self.guessed = False  # whether the next primary was not seen to be opened
        self.lacked = EMPTY  # what the next primary lacks of the old one's GTIDs
        self.opened_at: dict[str, int] = {}
        self.had = EMPTY  # what the primary had when it was last seen to take writes
        self.judged_at = 0
        self.ready = False  # whether clients can connect
        self._seen: set[str] = set()
        self._file = file
        self.learn()
        server = self.known
        if server is not None and server is not self.topology.primary:
            self.topology.promote(server)

    @property
    def known(self) -> Server | None:
        """The primary of the last term."""
        return next(
            (server for server in self.topology.servers if server.name == self.term.address), None
        )

    @property
    def primary(self) -> str:
        """The name of the server to which writes go."""
        return self.topology.primary.name

    def learn(self) -> None:
        """Read the terms that are kept in the file."""
        terms = self._file.terms()
        if terms and terms[-1] != self.term:
            self.term = terms[-1]
            self.election.kept = self.term.server_uuid
            former = frozenset(term.server_uuid for term in terms)
            self.election.former = former - {self.term.server_uuid}

    def follow(self) -> None:
        """Route to the primary of the last term."""
        server = self.known
        if server is not None and server is not self.topology.primary:
            for name in (server.name, self.primary):
                # An opening that was seen before does not count again.
                self.looks[name] = [look for look in self.looks[name] if look][-1:]
            self.topology.promote(server)
            self.election.on_primary(server)
            self._clear = True
            self.had = server.applied

    def answered(self, name: str, now: int) -> None:
        """A look has ended: take its result, and judge."""
        (server,) = [server for server in self.topology.servers if server.name == name]
        at, look = self.asked.pop(name)
        self._seen.add(name)
        server.seen_at = at
        self.looks[name].append(look)
        server.probe_result = ProbeResult.GONE if look is None else ProbeResult.ANSWERED
        if look is not None:
            started = (look.started * 1000.0, look.started * 1000.0 + 1)
            before = server.applied
            server.observe(self.real[name].uuid, started, look.has, before)
            server.sources = look.sources
            server.set_read_only(look.read_only)
        self.judge(now)

    def judge(self, now: int) -> None:
        """Find out who the primary is."""
        if self.pending is not None:
            return  # the last result must be kept first
        self.learn()
        self.follow()
        all_seen = len(self._seen) == len(_NAMES)  # openings count only then
        opened = {name for name in _NAMES if all_seen and self.has_seen_open(name)}
        self.opened_at = {name: self.opened_at.get(name, now) for name in opened}
        looks = self.looks[self.primary]
        if looks and looks[-1] is not None and not looks[-1].read_only:
            self.had = looks[-1].has
        server = self.election.decide(now)
        self.judged_at = now
        if server is not None and (server.name, server.uuid) != self.term_of:
            self.pending = PrimaryTerm(self.term.number + 1, server.name, server.uuid, now)
            old = self.topology.primary
            self.lacked = (self.had & old.applied) - self.real[server.name].has
            if old.probe_result is ProbeResult.GONE:
                self.lacked = EMPTY
            self.guessed = self._clear and server is not old and server.name not in opened
        elif all_seen:
            self.ready = True
        self._clear = self._clear or server is self.topology.primary

    @property
    def term_of(self) -> tuple[str, str]:
        """The server whose term it is: address and UUID."""
        return self.term.address, self.term.server_uuid

    def keep(self, now: int) -> None:
        """Write the new term to the file, unless another worker was faster."""
        if self.pending is not None:
            self._file.add(self.pending)
            self.pending = None
            self.learn()
            self.follow()
            self.election.decide(now)
            self.ready = True

    def withholds(self) -> bool:
        """Whether writes are refused."""
        return bool(self.topology.rivals)

    def has_seen_open(self, name: str) -> bool:
        """Whether the worker has seen a server being opened that replicates from nobody."""
        last: Look | None = None
        opened = False
        for look in self.looks[name]:
            if look is None:
                continue
            if last is None or last.started != look.started or look.read_only:
                opened = False
            elif last.read_only:
                opened = True
            last = look
        now = self.looks[name][-1] if self.looks[name] else None
        return opened and now is not None and not now.sources


class SuccessionSimulation:
    """One simulation.

    Attributes:
        complaints: what went wrong.
        counts: how often things happened.
        promoted: names of servers that were promoted at some time.
    """

    def __init__(self, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self.now = 0
        self.complaints: list[str] = []
        self.counts: Counter[str] = Counter()
        self.real = {
            name: Mysql(name, f"{str(n) * 8}-1111-1111-1111-111111111111", chance.random() < 0.5)
            for n, name in enumerate(_NAMES, 1)
        }
        self.meant = self.real[_NAMES[0]]
        self.meant.read_only = False
        for server in self.real.values():
            if server is not self.meant:
                server.source = self.meant
        self.promoted = {self.meant.name}
        self.file = StateFile(None)
        self.workers = [Worker(self.file, self.real) for _ in range(2)]
        self._written: dict[int, str] = {}  # the server of each term
        self._kept_at = 0
        self._to_do: deque[Callable[[], None]] = deque()

    def run(self, steps: int) -> list[str]:
        """Take steps at random; return what went wrong."""
        kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
        for _ in range(steps):
            self.now += 1
            (kind,) = self._chance.choices(kinds, weights)
            getattr(self, f"_{kind}")()
        self._set_right()
        self.file.close()
        return self.complaints

    def _some(self, servers: list[Mysql]) -> list[Mysql]:
        return [self._chance.choice(servers)] if servers else []

    # Workers

    def _ask(self) -> None:
        worker, name = self._chance.choice(self.workers), self._chance.choice(_NAMES)
        if name not in worker.asked:
            worker.asked[name] = (self.now, self._look(self.real[name]))

    def _look(self, real: Mysql) -> Look | None:
        if not real.answers:
            return None
        sources = frozenset() if real.source is None else frozenset({real.source.uuid})
        return Look(self.now, real.read_only, real.started, real.has, sources)

    def _answer(self) -> None:
        worker = self._chance.choice(self.workers)
        if worker.asked:
            worker.answered(self._chance.choice(sorted(worker.asked)), self.now)

    def _keep(self) -> None:
        self._kept(self._chance.choice(self.workers))

    def _kept(self, worker: Worker) -> None:
        pending, old = worker.pending, worker.primary
        before = len(self.file.terms())
        worker.keep(self.now)
        if len(self.file.terms()) > before:
            self._kept_at = self.now
        if pending is not None and worker.term == pending and worker.primary != old:
            self.counts["followed"] += 1
            if worker.guessed:
                self._complain(f"{worker.primary} was followed, and nobody opened it")
            if worker.lacked:
                self._complain(f"{worker.primary} was followed and lacks {worker.lacked.text}")

    def _complain(self, complaint: str) -> None:
        self.complaints.append(f"{self.now}: {complaint}")

    def _write(self) -> None:
        worker = self._chance.choice(self.workers)
        server = self.real[worker.primary]
        if not worker.ready:
            return
        self._judge_refusal(worker)
        if worker.withholds():
            self.counts["withheld"] += 1
        elif not server.answers or server.read_only:
            self.counts["failed"] += 1
        else:
            server.write()
            self.counts["written"] += 1
            if server.name not in self.promoted:
                self._complain(f"a write on {server.name}, which nobody promoted")
            number = worker.term.number
            if self._written.setdefault(number, server.name) != server.name:
                self._complain(f"two servers were written to in term {number}")
            terms = self.file.terms()
            if terms and worker.judged_at > self._kept_at and server.name != terms[-1].address:
                self._complain(f"a write on {server.name} after the end of its term")

    def _judge_refusal(self, worker: Worker) -> None:
        """Complain if a worker has seen two servers take writes, and does not refuse writes."""
        primary = worker.looks[worker.primary]
        if not primary or primary[-1] is None or primary[-1].read_only or worker.withholds():
            return
        if worker.pending is not None:
            return  # it has not judged since then
        for name in _NAMES:
            looks = worker.looks[name]
            if name == worker.primary or not looks or looks[-1] is None:
                continue
            follows = self.real[name].uuid in primary[-1].sources
            opened = worker.has_seen_open(name) and worker.opened_at.get(name, self.now)
            if opened and opened < primary[-1].at and not follows:
                self._complain(f"{worker.primary} and {name} take writes")

    def _begin_again(self) -> None:
        self.counts["worker began again"] += 1
        self.workers[self._chance.randrange(len(self.workers))] = Worker(self.file, self.real)

    # Servers

    def _replicate(self) -> None:
        for server in self.real.values():
            if server.answers and server.source is not None and server.source.answers:
                server.has |= server.source.has

    def _freeze(self) -> None:
        for server in self._some(
            [candidate for candidate in self.real.values() if candidate.answers]
        ):
            server.frozen = True

    def _resume(self) -> None:
        for server in self._some(
            [candidate for candidate in self.real.values() if candidate.frozen]
        ):
            server.frozen = False

    def _crash(self) -> None:
        for server in self._some([candidate for candidate in self.real.values() if candidate.up]):
            server.up = server.frozen = False

    def _start(self) -> None:
        for server in self._some(
            [candidate for candidate in self.real.values() if not candidate.up]
        ):
            server.up = True
            server.started = self.now
            server.read_only = not server.opens
            if server.opens and server.source is None:
                self.promoted.add(server.name)
            self.counts["came back writable"] += server.opens and server.source is not None

    # The operator

    def _operate(self) -> None:
        if self._to_do:
            self._to_do.popleft()()
            return
        self._chance.choice(
            (self._promote, self._promote, self._promote, self._open, self._close, self._attach)
        )()

    def _others(self) -> list[Mysql]:
        return [
            server for server in self.real.values() if server is not self.meant and server.answers
        ]

    def _promote(self) -> None:
        """Make another server the primary, sometimes carelessly."""
        for new in self._some(self._others()):
            old = self.meant
            careless = self._chance.random() < 0.2
            if old.answers and not careless:
                self._to_do.append(partial(self._set, old, True))
                if self._chance.random() < 0.8:
                    self._to_do.append(partial(self._catch_up, new, old))
            self._to_do.append(partial(self._reset, new))
            self._to_do.append(partial(self._set, new, False))
            for other in self.real.values():
                if other is not new and self._chance.random() < 0.7:
                    self._to_do.append(partial(self._make_replica, other, new))

    def _set(self, server: Mysql, read_only: bool) -> None:
        if server.answers:
            server.read_only = read_only
            self._promoted(server)

    def _catch_up(self, server: Mysql, source: Mysql) -> None:
        if server.answers and source.answers:
            server.has |= source.has

    def _reset(self, server: Mysql) -> None:
        if server.answers:
            server.source = None
            self._promoted(server)

    def _promoted(self, server: Mysql) -> None:
        if not server.read_only and server.source is None:
            self.meant = server
            self.promoted.add(server.name)
            self.counts["promoted"] += 1

    def _make_replica(self, server: Mysql, source: Mysql) -> None:
        """Make a server a replica, with the data of its source."""
        if server.answers and source.answers and source.source is None:
            server.source = source
            server.has = source.has
            server.read_only = True

    def _open(self) -> None:
        """Make a replica writable; that is no promotion."""
        for server in self._some(
            [candidate for candidate in self._others() if candidate.source is not None]
        ):
            server.read_only = False
            self.counts["replica opened"] += 1

    def _close(self) -> None:
        for server in self._some(self._others()):
            server.read_only = True

    def _attach(self) -> None:
        for server in self._some(self._others()):
            self._make_replica(server, self.meant)

    def _set_right(self) -> None:
        """Start all servers, as a primary and two replicas; then every worker must take writes."""
        self._to_do.clear()
        for server in self.real.values():
            server.frozen = False
            if not server.up:
                server.up = True
                server.started = self.now
        meant = self.meant
        meant.source = None
        for server in self.real.values():
            if server is not meant:
                self._make_replica(server, meant)
        for read_only in (True, False):
            meant.read_only = read_only
            for _ in range(3):
                self._look_at_all()
        for worker in self.workers:
            if worker.withholds() or worker.primary != meant.name:
                self._complain(f"{meant.name} is not followed: {worker.election.obstacle}")

    def _look_at_all(self) -> None:
        for worker in self.workers:
            for name in _NAMES:
                self.now += 1
                if name in worker.asked:
                    worker.answered(name, self.now)
                worker.asked[name] = (self.now, self._look(self.real[name]))
                self.now += 1
                worker.answered(name, self.now)
                self._kept(worker)

"""A small cluster and proxies that do what they should, so that their log is clean by construction.

The same seed gives the same log. There is one clock, statements of different sessions overlap, and
some writes come through direct that no log tells of. `spoil` then takes back what some reads relied
on, and says which.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from protocol.gtid import EMPTY, GtidSet
from tests.spark_jobs.oracle import Owed, Place
from tests.spark_jobs.routing_log import UUID, Run, on

SEEN = ("MONOTONIC_READS", "READ_ALL_WRITES")
LEVELS = ("READ_OWN_WRITES", *SEEN, "STRONG", "BOUNDED_STALENESS")
SCOPES = ("connection", "user", "application", "proxy")
REPLICAS = ("r1", "r2", "other")
BOUNDS = (2_000, 10_000, 50_000)
PROMISES = [(level, scope) for level in LEVELS for scope in SCOPES]


@dataclass
class Scope:
    """What a proxy knows of a scope."""

    own: GtidSet = EMPTY
    observed: GtidSet = EMPTY
    unknown: bool = False
    unseen: bool = False
    term: int = 0


class Session:
    """A connection, and what it asks for unless a statement says otherwise."""

    def __init__(self, number: int, run: Run, random: Random) -> None:
        self.number = number
        self.run = run
        self.user = random.choice(("ann", "bob", "cy"))
        self.application = random.choice((None, "cart", "till", "cart", "till"))
        self.level, self.scope = random.choice(PROMISES)
        self.free_us = 0

    @property
    def tracks_all(self) -> bool:
        return self.level in SEEN

    def places(self) -> list[Place]:
        """The groups that its statements belong to."""
        return self.run.places(self.number, self.user, self.application)


class Simulation:
    """Proxies of several workers share a primary and replicas that follow it late."""

    def __init__(self, seed: int, proxies: int = 2, workers: int = 2, sessions: int = 60) -> None:
        self.random = Random(seed)
        self.runs = [
            Run(f"{seed:x}{proxy}{worker}", worker, f"gate{seed}{proxy}")
            for proxy in range(proxies)
            for worker in range(workers)
        ]
        self.sessions = [
            Session(number, self.random.choice(self.runs), self.random)
            for number in range(1, sessions + 1)
        ]
        self.now = self.runs[0].clock.now
        self.primary = "primary"
        self.term = 0
        self.committed = GtidSet.parse(f"{UUID['primary']}:1-100")
        self.applied = {name: GtidSet.parse(f"{UUID['primary']}:1-90") for name in REPLICAS}
        self.incarnation = dict.fromkeys(("primary", *REPLICAS), 1)
        self.known: defaultdict[tuple[Run, str, int], GtidSet] = defaultdict(lambda: EMPTY)
        self.terms: dict[Run, int] = {}
        self.looks: defaultdict[Run, list[tuple[int, GtidSet]]] = defaultdict(list)
        self.scopes: defaultdict[Place, Scope] = defaultdict(Scope)
        self.owed = Owed()
        self.lost = EMPTY
        self._shown: list[tuple[int, Run, str, int, GtidSet]] = []
        self._doubts: list[tuple[int, Place]] = []
        self._sights: list[tuple[int, Place]] = []

    # Steps

    def step(self) -> None:
        """One statement, and whatever the servers do meanwhile."""
        self.now += self.random.randrange(50, 1200)
        for name in self.applied:
            if self.random.random() < 0.4:
                self.applied[name] = self.committed
        self._take_evidence()
        chance = self.random.random()
        if chance < 0.05:
            self._commit("another direct")
        elif chance < 0.15:
            self._look(self.random.choice(self.runs), self.random.choice(list(self.applied)))
        elif chance < 0.20:
            self._ask(self.random.choice(self.runs))
        elif chance < 0.201:
            self.incarnation[self.random.choice(list(self.applied))] += 1
        else:
            free = [session for session in self.sessions if session.free_us < self.now]
            if free:
                self._statement(self.random.choice(free), self.random.random())

    def _statement(self, session: Session, chance: float) -> None:
        if self.terms.setdefault(session.run, self.term) != self.term:
            self.terms[session.run] = self.term
            self._ask(session.run)
        if chance < 0.25:
            self._write(session)
        elif chance < 0.27:
            self._fail(session)
        elif chance < 0.29:
            replica = self.random.choice(list(self.applied))
            self._record(session, replica, proof="none", level="BEST_EFFORT", **_READ)
        else:
            level, scope = session.level, session.scope
            if self.random.random() < 0.2:
                level, scope = self.random.choice(PROMISES)
            self._read(session, level, scope)

    def promote(self, name: str, *, crash: bool) -> None:
        """A replica takes the primary's place: with all it had, or without its newest writes."""
        if crash:
            self.now += 3000  # what is on its way then is not acknowledged any more
            self._commit("somebody is told, and it is lost")
            session = self.random.choice(self.sessions)
            self._statement(session, 0.0)
            self.now += 3000
        else:
            self.applied[name] = self.committed
        executed = self.applied.pop(name)
        self.primary = name
        self.term += 1
        self.lost |= self.committed - executed
        self.committed = executed | GtidSet.parse(f"{UUID[name]}:1")
        for other, applied in self.applied.items():
            if not applied <= executed:
                self.incarnation[other] += 1
                self.applied[other] = applied & executed

    # Statements

    def _commit(self, direct: str) -> GtidSet:
        tsid = UUID[self.primary]
        if direct != "another direct" and self.random.random() < 0.1:
            tsid += ":blue"
        low = max((end for _, end in self.committed.intervals(tsid)), default=1)
        high = low + (self.random.randrange(3) if self.random.random() < 0.2 else 0)
        prefix, _, tag = tsid.partition(":")
        text = f"{prefix}:{tag}:{low}-{high}" if tag else f"{prefix}:{low}-{high}"
        gtids = GtidSet.parse(text)
        self.committed |= gtids
        return gtids

    def _write(self, session: Session) -> None:
        own = self._commit("the proxy")
        places = session.places()
        if session.tracks_all:
            self._record(
                *(session, self.primary),
                **_WRITE | {"own_known": False, "observed": self.committed.text},
            )
            own = self.committed
        else:
            self._record(session, self.primary, **_WRITE | {"own_gtids": own.text})
        for place in places:
            self.scopes[place].own |= own
            self.scopes[place].observed |= own

    def _fail(self, session: Session) -> None:
        self._commit("nobody was told")
        failed: dict[str, object] = {"own_known": False, "outcome": "error", "error_code": 1062}
        record = self._record(session, self.primary, **_WRITE | failed)
        self._doubts += [(int(str(record["ended_us"])), place) for place in session.places()]

    def _read(self, session: Session, level: str, scope: str) -> None:
        if scope == "application" and session.application is None:
            scope = "user"
        place = self.scopes[next(it for it in session.places() if it[0] == scope)]
        bound_us = self.random.choice(BOUNDS) if level == "BOUNDED_STALENESS" else None
        arrived_us = max(session.free_us + 1, self.now - self.random.randrange(400))
        required = self._required(session.run, place, level, bound_us)
        rules: dict[str, object] = {"level": level, "scope": scope, "bound_us": bound_us}
        rules |= {"arrived_us": arrived_us, "required": required.text, **_READ}
        names = sorted(self.applied, key=lambda _: self.random.random())
        for name in names:
            known = self.known[session.run, name, self.incarnation[name]]
            if required <= known:
                record = self._record(session, name, proof="known", proof_set=known.text, **rules)
                self.owed.relies(record, level, scope, session.places(), bound_us or 0)
                return
        if required <= self.applied[names[0]]:
            at_us = self.now + 100
            key = (session.run, names[0], self.incarnation[names[0]])
            self._shown.append((at_us, *key, required))
            wait = {"proof_set": required.text, "wait_us": 100}
            self._record(session, names[0], proof="waited", **wait, **rules)
            return
        late = {"reason": "wait_timeout", "wait_us": 50, "fallbacks": f"{names[0]}:3306:x"}
        self._record(session, self.primary, proof="primary", **rules | late)

    def _required(self, run: Run, scope: Scope, level: str, bound_us: int | None) -> GtidSet:
        if bound_us is not None:
            for asked_us, executed in self.looks[run]:
                if asked_us >= self.now - bound_us:
                    return executed
            return self._ask(run)
        if level == "STRONG":
            return self._ask(run)
        doubtful = scope.unknown or (level in SEEN and scope.unseen)
        if doubtful or scope.term != self.term:
            # What ends while the primary is being asked is in doubt again.
            scope.unknown = scope.unseen = False
            executed = self._ask(run)
            if scope.term != self.term:
                scope.own &= executed
                scope.observed &= executed
                scope.term = self.term
            scope.own |= executed
            scope.observed |= executed
        return scope.own | scope.observed if level in SEEN else scope.own

    # What servers show

    def _take_evidence(self) -> None:
        late = [shown for shown in self._shown if shown[0] > self.now]
        for at_us, run, name, incarnation, gtids in self._shown:
            if at_us <= self.now:
                self.known[run, name, incarnation] |= gtids
        self._shown = late
        for at_us, place in self._doubts:
            if at_us <= self.now:
                self.scopes[place].unknown = True
        self._doubts = [doubt for doubt in self._doubts if doubt[0] > self.now]
        for at_us, place in self._sights:
            if at_us <= self.now:
                self.scopes[place].unseen = True
        self._sights = [sight for sight in self._sights if sight[0] > self.now]

    def _look(self, run: Run, name: str) -> None:
        key = (run, name, self.incarnation[name])
        self._shown.append((self.now + 30, *key, self.applied[name]))
        executed = self.applied[name].text
        self._times(run.probe(name, executed, incarnation=key[2]), self.now, self.now + 30)

    def _ask(self, run: Run) -> GtidSet:
        self.terms[run] = self.term
        record = run.probe(self.primary, self.committed.text, role="primary")
        self._times(record, self.now + 1, self.now + 30)
        self.looks[run].append((self.now + 1, self.committed))
        del self.looks[run][:-20]
        self.owed.probed(record, self.committed)
        self.now += 31
        self._take_evidence()
        return self.committed

    def _record(self, session: Session, server: str, **fields: object) -> dict[str, object]:
        """Enter a statement that takes a while from now on."""
        run = session.run
        begun = max(session.free_us + 1, self.now - self.random.randrange(400))
        plain: dict[str, object] = {"level": session.level, "scope": session.scope}
        plain |= {"user": session.user, "application": session.application}
        plain |= {"arrived_us": begun, **on(server), "incarnation": self.incarnation[server]}
        if server == self.primary:
            plain["role"] = "primary"
        elif session.tracks_all:
            plain["observed"] = self.applied[server].text
        if server == self.primary and fields["class"] == "read" and session.tracks_all:
            plain["observed"] = self.committed.text
        record = run.statement(session.number, **plain | fields)
        self._times(record, self.now + 10, self.now + 150 + self.random.randrange(1500))
        session.free_us = int(str(record["ended_us"]))
        observed = GtidSet.parse(str(record["observed"]))
        for place in session.places():
            self.scopes[place].observed |= observed
            if fields["class"] == "read" and not observed:
                self._sights.append((session.free_us, place))
        if observed and server != self.primary:
            key = (run, server, self.incarnation[server])
            self._shown.append((session.free_us, *key, observed))
        self.owed.ended(record, session.places())
        return record

    def _times(self, record: dict[str, object], dispatched_us: int, ended_us: int) -> None:
        record["dispatched_us"], record["ended_us"] = dispatched_us, ended_us
        record["arrived_us"] = (
            record["arrived_us"] if record["kind"] == "statement" else dispatched_us
        )

    # The log

    def run(self, steps: int, *, failover: bool) -> None:
        """Take so many steps; with one promotion of a replica in peace, and one after a crash."""
        for name, crash in (("r1", False), ("r2", True), (None, False)):
            for _ in range(steps // 3):
                self.step()
            if failover and name:
                self.promote(name, crash=crash)

    def finish(self) -> Sequence[Run]:
        """Number the records in the order of their ends."""
        for run in self.runs:
            run.number_by_end()
        return self.runs

    def records(self) -> list[dict[str, object]]:
        """The log, after `finish`."""
        return [record for run in self.runs for record in run.records]

    # Clocks

    def skew(self, proxy: int, ahead_us: int) -> None:
        """A proxy's clock was ahead all the time. After `finish` and `spoil`."""
        self._shift(proxy, 0, ahead_us)

    def set_back(self, proxy: int, share: float, by_us: int) -> None:
        """A proxy's clock was set back when this share of its records had been written."""
        records = self.runs[0].records
        self._shift(proxy, int(str(records[int(len(records) * share)]["ended_us"])), -by_us)

    def drift(self, proxy: int, us_per_s: int) -> None:
        """A proxy's clock was too fast, or too slow. After `finish` and `spoil`."""
        name = sorted({run.proxy for run in self.runs})[proxy]
        its = [it for run in self.runs if run.proxy == name for it in run.records]
        begun_us = min(int(str(it["arrived_us"])) for it in its)
        for record in its:
            for time in ("arrived_us", "dispatched_us", "ended_us"):
                now_us = int(str(record[time]))
                record[time] = now_us + (now_us - begun_us) * us_per_s // 1_000_000

    def _shift(self, proxy: int, since_us: int, by_us: int) -> None:
        name = sorted({run.proxy for run in self.runs})[proxy]
        for record in (it for run in self.runs if run.proxy == name for it in run.records):
            for time in ("arrived_us", "dispatched_us", "ended_us"):
                now_us = int(str(record[time]))
                record[time] = now_us + (by_us if now_us >= since_us else 0)

    def spoil(self, each: int) -> dict[tuple[object, object], str]:
        """Take one GTID from what some reads of each level and scope relied on, after `finish`.

        Returns:
            (run, seq) to the GTID.
        """
        spoilt = {}
        for promise in PROMISES:
            for record, gtids in self.owed.sample(promise, each, self.lost, self.random):
                claim = GtidSet.parse(str(record["proof_set"]))
                tsid = self.random.choice(gtids.tsids)
                low, end = gtids.intervals(tsid)[-1]
                uuid, _, tag = tsid.partition(":")
                number = self.random.choice((end - 1, low))
                text = f"{uuid}:{tag}:{number}" if tag else f"{uuid}:{number}"
                record["proof_set"] = (claim - GtidSet.parse(text)).text
                spoilt[record["run"], record["seq"]] = text
        return spoilt


_READ: dict[str, object] = {"class": "read", "reason": "read"}
_WRITE: dict[str, object] = {
    "class": "write",
    "may_write": True,
    "reason": "write",
    "proof": "primary",
}

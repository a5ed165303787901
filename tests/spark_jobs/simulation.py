"""A small cluster and a proxy that does what it should, so that its log is clean by construction.

The same seed gives the same log. `spoil` then takes back what some reads relied on, and says which.
"""

from dataclasses import dataclass, field
from random import Random

from tests.spark_jobs.routing_log import UUID, Run

P = UUID["primary"]
TAG = f"{P}:blue"
REPLICAS = ("r1", "r2")

Applied = dict[str, int]
"""TSID to the number up to which it is applied."""


def text(applied: Applied, without: tuple[str, int] | None = None) -> str:
    """Canonical text of everything up to `applied`, but for one GTID."""
    parts = []
    for tsid, last in sorted(applied.items()):
        spans = [(1, last)]
        if without is not None and without[0] == tsid:
            spans = [(1, without[1] - 1), (without[1] + 1, last)]
        shown = [f"{low}-{high}" if low < high else f"{low}" for low, high in spans if low <= high]
        if shown:
            parts += ["blue", *shown] if tsid == TAG else shown
    return ":".join([P, *parts]) if parts else ""


@dataclass
class Session:
    number: int
    wrote: Applied = field(default_factory=dict)
    newest: tuple[str, int] | None = None
    unknown: bool = False


class Simulation:
    """Workers share a primary and two replicas that follow it late."""

    def __init__(self, seed: int, workers: int = 2, sessions: int = 50) -> None:
        self.random = Random(seed)
        self.runs = [Run(f"{seed:x}{worker}", worker) for worker in range(workers)]
        self.sessions = [Session(number) for number in range(1, sessions + 1)]
        self.committed: Applied = {P: 100}
        self.applied: dict[str, Applied] = {name: {P: 90} for name in REPLICAS}
        self.incarnation = dict.fromkeys(REPLICAS, 1)
        self.known: dict[tuple[int, str, int], Applied] = {}
        self.relied: list[tuple[dict[str, object], Applied, tuple[str, int]]] = []

    def step(self) -> None:
        """One statement, and whatever the servers do meanwhile."""
        chance = self.random.random()
        session = self.random.choice(self.sessions)
        worker = session.number % len(self.runs)
        run = self.runs[worker]
        for replica in REPLICAS:
            if self.random.random() < 0.4:
                self.applied[replica] = dict(self.committed)
        if chance < 0.30:
            self._write(run, session)
        elif chance < 0.32:
            self._fail(run, session)
        elif chance < 0.34:
            replica = self.random.choice(REPLICAS)
            self._probe(run, worker, replica)
        elif chance < 0.341:
            self.incarnation[self.random.choice(REPLICAS)] += 1
        elif chance < 0.36:
            run.read(session.number, self.random.choice(REPLICAS), "none", level="BEST_EFFORT")
        else:
            self._read(run, worker, session)

    def _write(self, run: Run, session: Session) -> None:
        tsid = TAG if self.random.random() < 0.1 else P
        low = self.committed.get(tsid, 0) + 1
        high = low + (self.random.randrange(3) if self.random.random() < 0.2 else 0)
        self.committed[tsid] = high
        session.wrote[tsid] = high
        session.newest = tsid, high
        number = f"{low}" if low == high else f"{low}-{high}"
        run.write(session.number, f"{tsid}:{number}")

    def _fail(self, run: Run, session: Session) -> None:
        self.committed[P] += 1
        run.unnamed(session.number)
        session.unknown = True

    def _probe(self, run: Run, worker: int, replica: str) -> None:
        key = (worker, replica, self.incarnation[replica])
        self.known[key] = dict(self.applied[replica])
        run.probe(replica, text(self.known[key]), incarnation=key[2])

    def _read(self, run: Run, worker: int, session: Session) -> None:
        if session.unknown:
            # The probe goes out with the read, in front of it.
            asked = run.now + 10
            run.probe("primary", text(self.committed), dispatched_us=asked)
            session.wrote = dict(self.committed)
            session.unknown = False
        replica = self.random.choice(REPLICAS)
        incarnation = self.incarnation[replica]
        key = (worker, replica, incarnation)
        known = self.known.get(key, {})
        if all(known.get(tsid, 0) >= last for tsid, last in session.wrote.items()):
            claims = {"incarnation": incarnation, "required": text(session.wrote)}
            read = run.known(session.number, replica, text(known), **claims)
            self._note(read, session, known)
            return
        applied = self.applied[replica]
        if all(applied.get(tsid, 0) >= last for tsid, last in session.wrote.items()):
            wait = text(session.wrote)
            run.waited(session.number, replica, wait, required=wait, incarnation=incarnation)
            self.known[key] = {
                tsid: max(known.get(tsid, 0), session.wrote.get(tsid, 0))
                for tsid in known.keys() | session.wrote.keys()
            }
            return
        run.read(
            session.number,
            "primary",
            "primary",
            reason="wait_timeout",
            wait_us=50_000,
            fallbacks=f"{replica}:3306:wait_timeout",
        )

    def _note(self, read: dict[str, object], session: Session, relied: Applied) -> None:
        if session.newest is not None:
            self.relied.append((read, dict(relied), session.newest))

    def spoil(self, count: int) -> dict[tuple[object, object], str]:
        """Take one GTID from what some reads relied on; (run, seq) to the GTID."""
        spoilt = {}
        for read, relied, (tsid, number) in self.random.sample(self.relied, count):
            read["proof_set"] = text(relied, without=(tsid, number))
            spoilt[read["run"], read["seq"]] = f"{tsid}:{number}"
        return spoilt

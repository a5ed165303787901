"""Small histories: a few statements of two sessions, and what servers say meanwhile.

Transactions are plain numbers, in the order in which they were written. Which GTID one has depends
on who was the primary.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from hypothesis import strategies as st

from protocol.gtid import GtidSet
from tests.spark_jobs.oracle import Record
from tests.spark_jobs.routing_log import UUID, Run, on

Numbers = frozenset[int]
NOTHING: Numbers = frozenset()
SEEN = ("MONOTONIC_READS", "READ_ALL_WRITES")
LEVELS = ("READ_OWN_WRITES", *SEEN, "STRONG", "BOUNDED_STALENESS")
SCOPES = ("connection", "user", "application", "proxy")
CALM = ("write", "write", "known", "known", "waited", "none", "primary", "look", "ask")
SOUND = ("known: seen", "known: seen", "waited: all", "look: all", "look: all")
"""A claim is all that the replica has shown, a wait or an answer all that the primary has."""

ROUGH = (*CALM, *SOUND, *SOUND, "ask", "fail over", "fail", "write, and lose the record")
MOST = 6
"""Writes of a history, about."""


def _seen() -> defaultdict[tuple[str, str], Numbers]:
    return defaultdict(lambda: NOTHING)


@dataclass
class Servers:
    """A primary and two replicas.

    Attributes:
        primary: its name.
        executed: the transactions that it has.
        written: the newest of all.
        seen: what replicas have shown to runs, by both names.
    """

    primary: str = "primary"
    executed: Numbers = NOTHING
    written: int = 0
    seen: defaultdict[tuple[str, str], Numbers] = field(default_factory=_seen)
    _incarnation: dict[str, int] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)

    def write(self) -> Numbers:
        """Commit a transaction."""
        self.written += 1
        self._names.append(UUID[self.primary])
        self.executed |= {self.written}
        return frozenset({self.written})

    def fail_over(self, name: str, survive: Numbers, *, anew: bool) -> None:
        """Promote a replica that has so much; the others go on, or are made anew."""
        self.primary = self.replica(name)
        self.executed &= survive
        if anew:
            self.seen.clear()
            for server in UUID:
                self._incarnation[server] = self._incarnation.get(server, 1) + 1

    def replica(self, name: str) -> str:
        """Whom this name stands for: the first primary takes the place of who became one."""
        return "primary" if name == self.primary else name

    def on(self, name: str) -> Record:
        """The fields that name a server."""
        role = "primary" if name == self.primary else "replica"
        return on(name, self._incarnation.get(name, 1)) | {"role": role}

    def text(self, its: Iterable[int]) -> str:
        """A GTID set; what is not written yet is named as if it were by this primary."""
        names = self._names + [UUID[self.primary]] * MOST * 3
        named = sorted((names[it - 1], names[:it].count(names[it - 1])) for it in set(its))
        sources = groupby(named, key=lambda it: it[0])
        texts = (f"{uuid}:{':'.join(str(it) for _, it in own)}" for uuid, own in sources)
        return GtidSet.parse(",".join(texts)).text


@dataclass
class Step:
    """What happens in a history, so many µs after the step before has begun."""

    what: str
    session: int
    server: str
    level: str
    scope: str
    after_us: int
    takes_us: int
    bound_us: int
    shown: Numbers
    observed: Numbers

    def record(self, run: Run, arrived_us: int, servers: Servers) -> Record:
        """Enter it."""
        times = {"arrived_us": arrived_us, "dispatched_us": arrived_us + 1}
        whose = {"user": "ann", "application": ("cart", "till")[self.session % 2]}
        fields = {**times, "ended_us": arrived_us + 1 + self.takes_us}
        primary, replica = servers.on(servers.primary), servers.replica(self.server)
        what, _, how = self.what.partition(": ")
        seen = servers.seen[run.name, replica]
        its = {"all": servers.executed, "seen": seen}.get(how, self.shown)
        shown = servers.text(its)
        if what == "ask":
            return run.probe("primary", servers.text(servers.executed), **fields, **primary)
        if what == "look":
            servers.seen[run.name, replica] = its
            return run.probe(replica, shown, **fields, **servers.on(replica))
        fields |= {**whose, "level": self.level, "scope": self.scope}
        fields["bound_us"] = self.bound_us if self.level == "BOUNDED_STALENESS" else None
        tracks_all = self.level in SEEN
        if what == "fail":
            servers.write()
            return run.unnamed(self.session, **fields, **primary)
        if what.startswith("write"):
            own, whole = servers.text(servers.write()), servers.text(servers.executed)
            told = {"observed": whole, "own_known": False} if tracks_all else {}
            fields |= primary
            return run.write(self.session, "" if tracks_all else own, **fields, **told)
        if what == "primary":
            told = {"observed": servers.text(servers.executed)} if tracks_all else {}
            return run.read(self.session, "primary", "primary", **fields, **primary, **told)
        told = {"observed": servers.text(self.observed)} if tracks_all else {}
        told |= {"wait_us": 1, "required": shown} if what == "waited" else {}
        claim = None if what == "none" else shown
        fields |= servers.on(replica)
        return run.read(self.session, replica, what, claim, **fields, **told)


def steps(kinds: Sequence[str]) -> st.SearchStrategy[Step]:
    """Steps of these kinds."""
    numbers = st.frozensets(st.integers(1, MOST))
    fronts = st.integers(0, MOST).map(lambda last: frozenset(range(1, last + 1)))
    return st.builds(
        Step,
        what=st.sampled_from(kinds),
        session=st.integers(1, 2),
        server=st.sampled_from(("r1", "r2")),
        level=st.sampled_from(LEVELS),
        scope=st.sampled_from(SCOPES),
        after_us=st.integers(0, 4),
        takes_us=st.integers(1, 6),
        bound_us=st.integers(1, 12),
        shown=st.one_of(fronts, numbers),
        observed=st.one_of(st.just(NOTHING), fronts, numbers),
    )


def play(plan: Iterable[Step], *runs: Run) -> None:
    """Let two sessions, which wait for their own answers, and the monitors do all this.

    With two runs each session is one's, and so is a monitor.
    """
    servers, lose = Servers(), []
    now_us = runs[0].clock.now
    free_us = {1: now_us, 2: now_us}
    for step in plan:
        now_us += step.after_us
        if step.what == "fail over":
            servers.fail_over(step.server, step.shown, anew=step.takes_us > 4)
            continue
        is_statement = step.what != "ask" and not step.what.startswith("look")
        if is_statement:
            now_us = max(now_us, free_us[step.session])
        run = runs[step.session % len(runs)]
        record = step.record(run, now_us, servers)
        if is_statement:
            free_us[step.session] = int(str(record["ended_us"]))
        if step.what == "write, and lose the record":
            lose.append((run, record))
    for run in runs:
        run.number_by_end()
    for run, record in lose:
        run.lose(record)

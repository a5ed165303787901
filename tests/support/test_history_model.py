"""The checker before histories of a model that keeps its promises, as they are and spoilt."""

import random
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from routing.consistency.decision import Level, Scope
from tests.support.history import Read, Register, ScopeKey, Write
from tests.support.history_checker import Rule, check

History = list[Write | Read]
SCOPES = list(Scope)
STALENESS = 40


@dataclass
class PendingWrite:
    """What a client waits for: a write that may be committed by now, or a read."""

    invoked: int
    register: Register
    value: int = 0
    order: int | None = None
    scope: ScopeKey = (Scope.CONNECTION, "")
    level: Level = Level.BEST_EFFORT
    at_least: int = 0


class Model:
    """One log of commits; every read is of a prefix of it that is long enough for its level.

    Attributes:
        history: what clients did and saw.
    """

    def __init__(self, chance: random.Random, clients: int, *, orders: float, shared: bool) -> None:
        self.history: History = []
        self._chance = chance
        self._orders = orders  # share of the writes whose order is known
        self._shared = shared  # whether a register has several writers
        self._now = 0
        self._values = 0
        self._log: list[tuple[int, Register, int]] = []  # when committed, which register, value
        self._versions: defaultdict[Register, list[tuple[int, int]]] = defaultdict(list)
        self._pending: list[PendingWrite | None] = [None] * clients
        self._prefixes: Counter[tuple[ScopeKey, str]] = Counter()  # own and seen, of each scope

    def step(self) -> None:
        """One client begins or ends something."""
        self._now += self._chance.randint(1, 3)
        client = self._chance.randrange(len(self._pending))
        pending = self._pending[client]
        if pending is None:
            self._pending[client] = self._begin(client)
        elif not pending.value:
            self._return(client, pending)
        elif pending.order is None and self._chance.random() < 0.9:
            self._log.append((self._now, pending.register, pending.value))
            pending.order = len(self._log)
            self._versions[pending.register].append((pending.order, pending.value))
        else:
            self._end_write(client, pending)

    def scopes(self, client: int) -> dict[Scope, ScopeKey]:
        """Two users, four applications, one proxy; a connection for each client."""
        names = {Scope.CONNECTION: client, Scope.USER: client % 2, Scope.APPLICATION: client % 4}
        return {scope: (scope, f"{names.get(scope, 'tide')}") for scope in SCOPES}

    def _begin(self, client: int) -> PendingWrite:
        chance = self._chance
        if chance.random() < 0.4:
            self._values += 1
            register = chance.randrange(2) if self._shared else client
            return PendingWrite(self._now, register, self._values)
        scope = self.scopes(client)[chance.choice(SCOPES)]
        level = chance.choice(list(Level))
        read = PendingWrite(
            self._now, chance.randrange(len(self._pending)), scope=scope, level=level
        )
        own, seen = self._prefixes[scope, "own"], self._prefixes[scope, "seen"]
        if level is Level.STRONG:
            read.at_least = len(self._log)
        elif level is Level.BOUNDED_STALENESS:
            moment = self._now - STALENESS
            read.at_least = bisect_right(self._log, moment, key=lambda entry: entry[0])
        elif level is Level.READ_OWN_WRITES:
            read.at_least = own
        elif level is not Level.BEST_EFFORT:
            read.at_least = max(own, seen)
        return read

    def _return(self, client: int, read: PendingWrite) -> None:
        late = self._chance.random() < 0.7
        prefix = read.at_least if late else self._chance.randint(read.at_least, len(self._log))
        scopes = self.scopes(client).values()
        for scope in scopes:
            self._see(scope, "seen", prefix)
        versions = self._versions[read.register]
        newest = bisect_right(versions, prefix, key=lambda version: version[0])
        value = versions[newest - 1][1] if newest else self._chance.choice([None, 0])
        self.history.append(
            Read(
                *(f"client {client}", read.scope, read.level, read.register, value),
                *(read.invoked, self._now, STALENESS, frozenset(scopes)),
            )
        )
        self._pending[client] = None

    def _end_write(self, client: int, write: PendingWrite) -> None:
        is_named = write.order is not None and self._chance.random() < 0.9
        scopes = self.scopes(client).values()
        if is_named and write.order is not None:
            for scope in scopes:
                self._see(scope, "own", write.order)
        known = self._chance.random() < self._orders
        self.history.append(
            Write(
                *(f"client {client}", frozenset(scopes), write.register, write.value),
                *(write.invoked, self._now if is_named else None, write.order if known else None),
                aborted=write.order is None and self._chance.random() < 0.5,
            )
        )
        self._pending[client] = None

    def _see(self, scope: ScopeKey, how: str, prefix: int) -> None:
        self._prefixes[scope, how] = max(self._prefixes[scope, how], prefix)

    def finish(self) -> History:
        """Let all writes end, so that every value that was read has its write."""
        for client, pending in enumerate(self._pending):
            if pending is not None and pending.value:
                self._now += 1
                self._end_write(client, pending)
        return self.history


def sound_history(chance: random.Random, steps: int, clients: int = 5) -> History:
    shared = chance.random() < 0.5
    model = Model(chance, clients, orders=chance.choice([0, 0.5, 1]), shared=shared)
    for _ in range(steps):
        model.step()
    return model.finish()


# --- the definitions, written out ---------------------------------------------------------------


class Definitions:
    """The levels as they are defined, for any history, in no hurry."""

    def __init__(self, history: History) -> None:
        self._writes = [operation for operation in history if isinstance(operation, Write)]
        self._reads = [operation for operation in history if isinstance(operation, Read)]

    def broken(self) -> list[tuple[Read, Rule]]:
        """The reads that broke one, and the first that each broke."""
        judged = ((read, self._first_broken(read)) for read in self._reads)
        return [(read, rule) for read, rule in judged if rule is not None]

    def _of(self, read: Read) -> Write | None:
        wanted = (read.register, read.value)
        return next((w for w in self._writes if (w.register, w.value) == wanted), None)

    def _first_broken(self, read: Read) -> Rule | None:
        got = self._of(read)
        if read.value:
            if got is None:
                return Rule.NEVER_WRITTEN
            if got.aborted:
                return Rule.ABORTED
            if read.returned < got.invoked:
                return Rule.FUTURE
        for rule, required in self._required(read):
            if any(w.register == read.register and self._older(got, w) for w in required):
                return rule
        return None

    def _required(self, read: Read) -> list[tuple[Rule, list[Write]]]:
        acknowledged = [w for w in self._writes if w.acknowledged is not None and not w.aborted]
        strong = [w for w in acknowledged if (w.acknowledged or 0) < read.invoked]
        recent = [w for w in acknowledged if (w.acknowledged or 0) < read.invoked - read.staleness]
        own = [w for w in strong if read.scope in w.scopes]
        earlier = [r for r in self._reads if r.returned < read.invoked]
        sights = [r for r in earlier if read.scope == r.scope or read.scope in r.scopes]
        pairs = [(r, self._of(r)) for r in sights]
        seen = [w for r, w in pairs if w and not w.aborted and w.invoked <= r.returned]
        before = [
            w
            for w in self._writes
            if not w.aborted and any(self._preceded(w, known) for known in (*own, *seen))
        ]
        levels: dict[Level, list[tuple[Rule, list[Write]]]] = {
            Level.STRONG: [(Rule.STRONG, strong)],
            Level.BOUNDED_STALENESS: [(Rule.STALENESS, recent)],
            Level.READ_OWN_WRITES: [(Rule.OWN_WRITES, own)],
            Level.MONOTONIC_READS: [(Rule.OWN_WRITES, own), (Rule.MONOTONIC, seen)],
            Level.READ_ALL_WRITES: [
                *((Rule.OWN_WRITES, own), (Rule.MONOTONIC, seen), (Rule.ALL_WRITES, before))
            ],
        }
        return levels.get(read.level, [])

    def _preceded(self, write: Write, other: Write) -> bool:
        if write.order is not None and other.order is not None:
            return write.order <= other.order
        return write.acknowledged is not None and write.acknowledged < other.invoked

    def _older(self, got: Write | None, other: Write) -> bool:
        if got is None:
            return True
        if got.order is not None and other.order is not None:
            return got.order < other.order
        reads = [r for r in self._reads if self._of(r) is got and r.returned >= got.invoked]
        known = [r.returned for r in reads]
        known += [] if got.acknowledged is None else [got.acknowledged]
        return any(moment < other.invoked for moment in known)


def found(history: History) -> list[tuple[Read, Rule]]:
    return [(violation.read, violation.rule) for violation in check(history)]


def by_beginning(broken: list[tuple[Read, Rule]]) -> list[tuple[Read, Rule]]:
    return sorted(broken, key=lambda pair: pair[0].invoked)


# --- tests --------------------------------------------------------------------------------------


@given(st.integers(0, 2**64), st.integers(0, 200))
def test_a_model_that_keeps_its_promises_has_no_violation(seed: int, steps: int) -> None:
    history = sound_history(random.Random(seed), steps)
    assert check(history) == []
    assert Definitions(history).broken() == []


@given(st.integers(0, 2**64), st.integers(1, 5))
def test_what_is_found_is_what_the_definitions_say(seed: int, spoilt: int) -> None:
    chance = random.Random(seed)
    history = spoil(sound_history(chance, 150), chance, spoilt)
    assert found(history) == by_beginning(Definitions(history).broken())


def spoil(history: History, chance: random.Random, reads: int) -> History:
    """The history with some reads' values replaced: by older ones, or what cannot have been."""
    spoilt = list(history)
    newer = [
        at
        for at, operation in enumerate(history)
        if isinstance(operation, Read) and operation.value
    ]
    for at in chance.sample(newer, min(reads, len(newer))):
        read = spoilt[at]
        assert isinstance(read, Read)
        writes = [w for w in history if isinstance(w, Write) and w.register == read.register]
        older = [write.value for write in writes if write.value < (read.value or 0)]
        future = [write.value for write in writes if write.invoked > read.returned][:1]
        choices = [*older, *older, *future, None, 10**9]
        spoilt[at] = replace(read, value=chance.choice(choices))
    return spoilt


def test_spoiling_breaks_every_rule() -> None:
    rules: Counter[Rule] = Counter()
    for seed in range(60):
        chance = random.Random(seed)
        rules.update(rule for _, rule in found(spoil(sound_history(chance, 300), chance, 20)))
    assert set(rules) == set(Rule), rules


def test_a_long_history() -> None:
    history = sound_history(random.Random(7), 250_000, clients=40)
    assert len(history) > 100_000
    assert check(history) == []
    strong = [
        operation
        for operation in history
        if isinstance(operation, Read) and operation.level is Level.STRONG
    ]
    last = [read for read in strong if read.value][-1]
    history[history.index(last)] = spoilt = replace(last, value=None)
    assert found(history) == [(spoilt, Rule.STRONG)]

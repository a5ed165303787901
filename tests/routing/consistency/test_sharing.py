"""Several workers serve a scope: what one was told, all require, or all know of a doubt."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from protocol.gtid import EMPTY, GtidSet
from routing.consistency import scope_board, sharing
from routing.consistency.decision import Level, Scope
from routing.consistency.rules import Rules
from routing.consistency.scope import Scopes, ScopeState
from routing.consistency.scope_board import ROOM, Mark, ScopeBoard, Slot, is_written, size
from routing.consistency.sharing import Contribution, Sharing
from routing.request.pending_probe import PendingProbe
from routing.servers.topology import Role, Server
from routing.session.session import Session
from tests.routing.consistency.test_scope import rules_at
from tests.support.gtid_sets import gtids

OLD = "11111111-1111-1111-1111-111111111111"
NEW = "22222222-2222-2222-2222-222222222222"
USERS = ("ann", "bob")
WORKERS = 3
LEVELS = (Level.READ_OWN_WRITES, Level.MONOTONIC_READS)
STEPS = {
    "write": 6.0,
    "doubt": 1.0,
    "read": 8.0,
    "ask": 3.0,
    "answer": 3.0,
    "restart": 0.3,
    "tear": 0.2,
    "forget": 0.5,
    "fail over": 0.2,
    "follow": 2.0,
}


def board_memory(workers: int = WORKERS) -> memoryview:
    memory = memoryview(bytearray(size(workers)))
    scope_board.prepare(memory)
    return memory


def primary_of(uuid: str, started: float) -> Server:
    server = Server("primary", Role.PRIMARY)
    server.observe(uuid, (started, started + 1.0), EMPTY, EMPTY)
    return server


def has_written(board: ScopeBoard, worker: int, row: int) -> bool:
    """Whether another worker's present generation has written a row."""
    never = [(-1, -1)] * len(board.others)
    return is_written(dict(board.news(row, never))[board.others.index(worker)])


class Worker:
    """One start of one worker, with a session of each user."""

    def __init__(self, memory: memoryview, number: int, workers: int, primary: Server) -> None:
        self.primary = primary
        self.term = 1
        self.sharing = Sharing(ScopeBoard(memory, workers, number))
        self.sharing.on_compared(primary)
        self.scopes = Scopes()
        self.scopes.share(self.sharing)
        self.sessions = {
            user: Session(rules_at(scope=Scope.USER), 0, self.scopes, user, self.term)
            for user in USERS
        }

    def reading(self, user: str, rules: Rules) -> ScopeState:
        return self.sessions[user].reading(rules, self.term, 0.0)

    def follow(self, primary: Server, executed: GtidSet) -> GtidSet:
        """Begin another primary's term, as `proxy.shared.primary_epoch` does: what is lost."""
        self.primary, self.term = primary, self.term + 1
        lost = EMPTY
        for scope in self.scopes.states():
            lost |= scope.compare_with_primary(executed, scope.everything, self.term)
        for contribution, required in self.sharing.required():
            lost |= contribution.compare_with_primary(executed, required)
        self.sharing.on_compared(primary)
        return lost


@dataclass
class Cluster:
    """The truth about a cluster, and the workers in front of it.

    Attributes:
        executed: what the primary has.
        acknowledged: by user, what clients were told of in the user's scope, unless it is lost.
        shown: by user, what clients were shown in the user's scope.
    """

    rng: random.Random
    executed: GtidSet = EMPTY
    acknowledged: dict[str, GtidSet] = field(default_factory=lambda: dict.fromkeys(USERS, EMPTY))
    shown: dict[str, GtidSet] = field(default_factory=lambda: dict.fromkeys(USERS, EMPTY))
    lost: dict[str, GtidSet] = field(default_factory=lambda: dict.fromkeys(USERS, EMPTY))
    memory: memoryview = field(default_factory=board_memory)
    asked: list[tuple[Worker, str, PendingProbe, GtidSet]] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    uuid: str = OLD

    def __post_init__(self) -> None:
        self.primary = primary_of(OLD, 1000.0)
        self.workers = [
            Worker(self.memory, number, WORKERS, self.primary) for number in range(WORKERS)
        ]
        self.number = 0
        self.terms = 1

    def commit(self) -> GtidSet:
        self.number += 1
        new = gtids(f"{self.uuid}:{self.number}")
        self.executed |= new
        return new

    def step(self) -> None:
        worker = self.rng.choice(self.workers)
        user = self.rng.choice(USERS)
        rules = rules_at(self.rng.choice(LEVELS), Scope.USER)
        action = self.rng.choices(list(STEPS), list(STEPS.values()))[0]
        if action == "write" and worker.primary is self.primary:
            new = self.commit()
            worker.sessions[user].record_write(new, worker.primary)
            self.acknowledged[user] |= new
        elif action == "doubt" and worker.primary is self.primary:
            new = self.commit()  # and nobody is told its GTID
            worker.sessions[user].may_have_written()
            self.acknowledged[user] |= new
        elif action == "read":
            self.read(worker, user, rules)
        elif action == "ask":
            scope = worker.reading(user, rules)
            if worker.primary is self.primary:
                self.asked.append((worker, user, PendingProbe(scope, worker.term), self.executed))
        elif action == "answer" and self.asked:
            asker, asked_user, pending, has = self.asked.pop(self.rng.randrange(len(self.asked)))
            if asker in self.workers and pending.term == asker.term:
                pending.on_answer(asker.reading(asked_user, rules), has, EMPTY)
        elif action == "restart":
            number = self.workers.index(worker)
            self.workers[number] = Worker(self.memory, number, WORKERS, self.primary)
        elif action == "tear" and worker.primary is self.primary:
            self.tear(worker, user)
        elif action == "forget":
            worker.scopes._make_room(1e9)  # all scopes are too old
        elif action == "fail over" and self.terms < 4 and self.all_follow():
            self.fail_over()
        elif action == "follow" and worker.primary is not self.primary:
            worker.follow(self.primary, self.executed)

    def tear(self, worker: Worker, user: str) -> None:
        """A worker dies while it writes a slot; a read comes before the next worker starts."""
        board = worker.sharing.board
        row = board.row((Scope.USER, user))
        number = self.workers.index(worker)
        other = self.workers[(number + 1) % WORKERS]
        if not has_written(other.sharing.board, number, row):
            return  # the slot has not been written yet
        at = board._slot_at(number, row)
        self.memory[at] = (self.memory[at] + 1) % 256
        if other.primary is self.primary:
            assert not other.reading(user, rules_at(scope=Scope.USER)).is_known(LEVELS[0])
        self.workers[number] = Worker(self.memory, number, WORKERS, self.primary)

    def all_follow(self) -> bool:
        return all(worker.primary is self.primary for worker in self.workers)

    def fail_over(self) -> None:
        """A primary takes over that lacks the last few transactions, and gives GTIDs of its own."""
        self.terms += 1
        missing = EMPTY
        if self.number > 3:
            missing = gtids(f"{self.uuid}:{self.number - 1}-{self.number}") & self.executed
        self.executed -= missing
        for user in USERS:
            self.lost[user] |= self.acknowledged[user] & missing
            self.acknowledged[user] -= missing
            self.shown[user] -= missing
        self.uuid = NEW if self.uuid == OLD else OLD
        self.number += 1000
        self.primary = primary_of(self.uuid, 1000.0 + 100.0 * self.terms)
        self.asked.clear()

    def read(self, worker: Worker, user: str, rules: Rules) -> None:
        scope = worker.reading(user, rules)
        current = worker.primary is self.primary
        if current and scope.term == worker.term and scope.is_known(rules.level):
            required = scope.required(rules.level)
            missing = self.acknowledged[user] - required
            assert not missing, f"{user} is not shown {missing} at {rules.level}"
            if rules.level is Level.MONOTONIC_READS and not scope.is_unbounded:
                missing = self.shown[user] - required
                assert not missing, f"{user} was shown {missing}"
            assert not (self.lost[user] & required - self.executed), "waits for what is lost"
            self.shown[user] |= self.executed  # the primary answers the read
            worker.sessions[user].record_answer(worker.primary, 1)


def simulate(seed: int, steps: int = 400) -> None:
    cluster = Cluster(random.Random(seed))
    for _ in range(steps):
        cluster.step()


def simulate_all(seeds: int) -> None:
    for seed in range(seeds):
        simulate(seed)


def test_no_worker_forgets_what_another_was_told() -> None:
    simulate_all(60)


def _no_flag(patch: pytest.MonkeyPatch) -> None:
    """Writers believe that no scope is read."""
    patch.setattr(ScopeBoard, "is_read", lambda self, row: False)


def _quiet_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Contribution, "record_write", lambda self, gtids, applied: None)


def _quiet_doubts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Contribution, "may_have_written", lambda self: None)


def _quiet_shows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Contribution, "record_answer", lambda self: None)


def _late_flag(patch: pytest.MonkeyPatch) -> None:
    """Reads at levels that remember do not set their flag."""
    patch.setattr(ScopeBoard, "begin_remembering", lambda self, row: None)


def _generations_count_nothing(patch: pytest.MonkeyPatch) -> None:
    """Nobody notices that a worker was restarted."""
    news = ScopeBoard.news

    def as_before(self: ScopeBoard, row: int, seen: Sequence[Mark]) -> list[tuple[int, Mark]]:
        found = news(self, row, seen)
        return [(number, (seen[number][0] or mark[0], mark[1])) for number, mark in found]

    patch.setattr(ScopeBoard, "news", as_before)


def _taken_once(patch: pytest.MonkeyPatch) -> None:
    take = Sharing._take

    def once(self: Sharing, *arguments: object) -> None:
        if arguments[3].is_new:  # type: ignore[attr-defined]
            take(self, *arguments)  # type: ignore[arg-type]

    patch.setattr(Sharing, "_take", once)


def _old_terms_count(patch: pytest.MonkeyPatch) -> None:
    """What an old primary acknowledged is taken for the new one's."""
    patch.setattr(sharing.Incarnation, "may_be", lambda self, other: True)


def _losses_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Contribution, "compare_with_primary", lambda self, executed, required: EMPTY)
    patch.setattr(sharing.Incarnation, "may_be", lambda self, other: True)


def _torn_slots_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scope_board, "_checksum", lambda head, texts: 0)


MUTANTS: tuple[Callable[[pytest.MonkeyPatch], None], ...] = (
    _no_flag,
    _quiet_writes,
    _quiet_doubts,
    _quiet_shows,
    _late_flag,
    _generations_count_nothing,
    _taken_once,
    _old_terms_count,
    _losses_stay,
    _torn_slots_count,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__.strip("_"))
def test_the_simulation_sees_each_mutant(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        simulate_all(200)


# The board itself.


def test_what_is_written_is_read_by_the_others() -> None:
    memory = board_memory(2)
    first, second = ScopeBoard(memory, 2, 0), ScopeBoard(memory, 2, 1)
    row = first.row((Scope.USER, "ann"))
    slot = Slot(0, 3, 4, scope_board.Incarnation(5, 6.5, 7.5), gtids(f"{OLD}:1-5:9"), EMPTY)
    assert not has_written(second, 0, row)
    first.write(row, slot)
    found = second.slot(0, row)
    assert found is not None
    assert found._replace(version=0) == slot
    assert second.news(row, [(second.generation(0), found.version)]) == []


def test_a_generation_leaves_nothing_of_the_last_one() -> None:
    memory = board_memory(2)
    other = ScopeBoard(memory, 2, 1)
    first = ScopeBoard(memory, 2, 0)
    row = first.row((Scope.USER, "ann"))
    first.write(row, Slot(0, 1, 0, scope_board.UNKNOWN, gtids(f"{OLD}:1"), EMPTY))
    generation = other.generation(0)
    ScopeBoard(memory, 2, 0)
    assert other.generation(0) == generation + 1
    assert not has_written(other, 0, row)


def test_a_board_of_other_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="no board for 3 workers"):
        ScopeBoard(board_memory(2), 3, 0)
    with pytest.raises(ValueError, match="no board"):
        ScopeBoard(memoryview(bytearray(size(2))), 2, 0)


def test_what_has_no_room_is_a_doubt() -> None:
    worker = Worker(board_memory(), 0, WORKERS, primary_of(OLD, 1.0))
    other = Worker(worker.sharing.board._memory, 1, WORKERS, worker.primary)
    scope = other.reading("ann", rules_at(scope=Scope.USER))
    scope.on_probe(EMPTY, scope.doubts)
    assert scope.is_known(LEVELS[0])
    for number in range(1, 60, 2):
        uuid = f"{number:08}-1111-1111-1111-111111111111"
        worker.sessions["ann"].record_write(gtids(f"{uuid}:{10**15 + number}"), worker.primary)
    assert worker.sharing.overflowed > 0
    assert not other.reading("ann", rules_at(scope=Scope.USER)).is_known(LEVELS[0])


def test_losses_are_told_in_the_room_there_is() -> None:
    long = GtidSet({OLD: [(n, n + 1) for n in range(10**12, 10**12 + 200, 2)]})
    kept = sharing._shortened(long)
    assert kept
    assert kept <= long
    assert len(kept.text) <= ROOM // 2


def test_other_workers_readers_are_told_of_a_loss_once() -> None:
    worker = Worker(board_memory(), 0, WORKERS, primary_of(OLD, 1000.0))
    other = Worker(worker.sharing.board._memory, 1, WORKERS, worker.primary)
    other.reading("ann", rules_at(scope=Scope.USER))
    gone = gtids(f"{OLD}:7")
    worker.sessions["ann"].record_write(gone, worker.primary)
    assert worker.follow(primary_of(NEW, 2000.0), EMPTY) == gone
    scope = other.reading("ann", rules_at(scope=Scope.USER))
    assert scope.lost == gone
    assert scope.lost_untold
    scope.on_loss_reported()
    assert not other.reading("ann", rules_at(scope=Scope.USER)).lost_untold


def test_writes_without_a_name_are_known_to_all_and_to_the_next_start() -> None:
    worker = Worker(board_memory(), 0, WORKERS, primary_of(OLD, 1.0))
    memory = worker.sharing.board._memory
    other = Worker(memory, 1, WORKERS, worker.primary)
    assert not other.reading("ann", rules_at(scope=Scope.USER)).unlogged
    worker.sessions["ann"].record_unlogged_write()
    assert other.reading("ann", rules_at(scope=Scope.USER)).unlogged
    assert not other.reading("bob", rules_at(scope=Scope.USER)).unlogged
    flags = scope_board.unlogged_flags(memory)
    assert scope_board.is_flagged(flags, (Scope.USER, "ann"))
    assert not scope_board.is_flagged(flags, (Scope.USER, "bob"))
    assert not scope_board.is_flagged(b"", (Scope.USER, "ann"))

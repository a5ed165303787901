"""A proxy and its successor serve a scope at once: what either was told, both require."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from routing.consistency.decision import Scope
from routing.consistency.scope_board import READER, ScopeBoard, flag_of
from routing.consistency.sharing import Sharing
from tests.routing.consistency.test_sharing import STEPS, USERS, Cluster, Worker, board_memory


@dataclass
class Proxy:
    """The workers of one proxy, which serve scopes alone at first.

    Attributes:
        count: how many workers it has; a single one shares only during a hand-over.
    """

    count: int
    memory: memoryview
    workers: list[Worker] = field(default_factory=list)

    def begin(self, cluster: Cluster, other: Proxy | None) -> None:
        self.workers = [
            Worker(self.memory, number, self.count, cluster.primary) for number in range(self.count)
        ]
        if self.count == 1 and other is None:
            self.workers[0].scopes.share(None)
        for worker in self.workers:
            self.link(worker, other)

    def share(self) -> None:
        """A single worker begins to share its scopes."""
        if self.count == 1:
            worker = self.workers[0]
            self.memory = board_memory(1)
            worker.sharing = Sharing(ScopeBoard(self.memory, 1, 0))
            worker.sharing.on_compared(worker.primary)
            worker.scopes.share(worker.sharing)

    def link(self, worker: Worker, other: Proxy | None) -> None:
        if other is not None:
            worker.sharing.link(ScopeBoard(other.memory, other.count, READER))

    def unlink(self) -> None:
        for worker in self.workers:
            worker.sharing.unlink(worker.scopes.states(), 0.0)
            if self.count == 1:
                worker.scopes.share(None)

    def restart(self, worker: Worker, cluster: Cluster, other: Proxy | None) -> None:
        number = self.workers.index(worker)
        self.workers[number] = Worker(self.memory, number, self.count, cluster.primary)
        self.link(self.workers[number], other)


class HandOvers(Cluster):
    """Proxies that follow each other, two at once for a while."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.old = self.proxy()
        self.old.begin(self, None)
        self.new: Proxy | None = None
        self.linked = True
        self.workers = list(self.old.workers)

    def proxy(self) -> Proxy:
        count = self.rng.choice([1, 2])
        return Proxy(count, board_memory(count))

    def step(self) -> None:
        if self.rng.random() < 0.02:
            self.hand_over()
        elif self.rng.random() < 0.01:
            self.restart()
        else:
            super().step()

    def hand_over(self) -> None:
        """One step of it: the successor begins, the old one knows, the old one goes."""
        if not self.all_follow():
            return
        if self.new is None:
            self.old.share()
            self.new = self.proxy()
            self.new.begin(self, self.old)
            self.linked = False  # so the successor serves nobody yet
        elif not self.linked:
            for worker in self.old.workers:
                self.old.link(worker, self.new)
            self.linked = True
            self.workers += self.new.workers
        else:
            self.new.unlink()
            self.old, self.new = self.new, None
            self.workers = list(self.old.workers)

    def restart(self) -> None:
        worker = self.rng.choice(self.workers)
        if worker in self.old.workers:
            if self.old.count > 1:
                self.old.restart(worker, self, self.new if self.linked else None)
        elif self.new is not None:
            self.new.restart(worker, self, self.old)
        self.workers = list(self.old.workers)
        if self.new is not None and self.linked:
            self.workers += self.new.workers

    def tear(self, worker: Worker, user: str) -> None:
        """Not here: `test_sharing` does it."""


def simulate(seeds: int) -> None:
    for seed in range(seeds):
        cluster = HandOvers(random.Random(seed))
        for _ in range(400):
            cluster.step()


@pytest.fixture(autouse=True)
def _no_plain_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, "restart", 0.0)  # they are done here


@pytest.mark.not_plain
def test_neither_proxy_forgets_what_the_other_was_told() -> None:
    simulate(60)


def _old_reads_alone(patch: pytest.MonkeyPatch) -> None:
    """Nobody reads another proxy's board."""
    patch.setattr(Sharing, "link", lambda self, board: None)


def _unlinked_at_once(patch: pytest.MonkeyPatch) -> None:
    """What was added last is not taken."""
    patch.setattr(Sharing, "unlink", lambda self, scopes, now: self.linked.clear())


def _single_shares_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Proxy, "share", lambda self: None)


@pytest.mark.parametrize(
    "mutant",
    [_old_reads_alone, _unlinked_at_once, _single_shares_nothing],
    ids=lambda mutant: mutant.__name__.strip("_"),
)
def test_the_simulation_sees_each_mutant(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        simulate(200)


def test_a_write_without_a_gtid_is_known_to_the_successor_and_by_its_board() -> None:
    old = Proxy(1, board_memory(1))
    cluster = Cluster(random.Random(0))
    old.begin(cluster, None)
    old.share()
    new = Proxy(2, board_memory(2))
    new.begin(cluster, old)
    old.link(old.workers[0], new)
    old.workers[0].sessions[USERS[0]].record_unlogged_write()
    for worker in new.workers:
        board = worker.sharing.board
        assert board.is_unlogged(flag_of((Scope.USER, USERS[0])))
        assert not board.is_unlogged(flag_of((Scope.USER, USERS[1])))

"""The options of a simulation, and how choices are derived from a number."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeVar

from routing.consistency.decision import Level, Scope
from tests.model.servers import Physics

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
    "direct": 1.5,
    "hint": 2,
    "hang_up": 0.25,
    "restart_replica": 0.12,
    "restart_primary": 0.05,
    "restore_primary": 0.04,
    "repair": 1,
    "promote": 0.04,
    "notice": 1,
    # These happen only if a test asks for them: `REBUILDS`.
    "rebuild_replica": 0,
    "change_order": 0,
    # And these: `WATCHED`.
    "look": 0,
    "await_acknowledgement": 0,
    # And these: `RESTARTED`.
    "keep": 0,
    "restart_proxy": 0,
    # And this: `PLACED`.
    "place": 0,
}

REBUILDS: Final = {**WEIGHTS, "rebuild_replica": 0.6, "change_order": 0.6, "apply": 30}
"""Weights of a simulation in which running replicas are replaced under their open connections."""

WATCHED: Final = {
    **REBUILDS,
    "rebuild_replica": 0.3,
    "change_order": 0.3,
    "restore_primary": 0.15,
    "repair": 0.1,
    "look": 6,
    "await_acknowledgement": 1,
}
"""Weights of a simulation with a monitor, in which replicas acknowledge late to the primary."""

RESTARTED: Final = {
    **WEIGHTS,
    "keep": 6,
    "restart_proxy": 0.5,
    "promote": 0.2,
    "restore_primary": 0.15,
    "repair": 0.1,
}
"""Weights of a simulation whose proxy is stopped or killed, and finds what was kept."""

LAGGING: Final = {**WATCHED, "lag": 3}
"""Weights of a simulation in which replicas are left out since they lag, and taken back."""

PLACED: Final = {**LAGGING, "place": 6}
"""Weights of a simulation that moves servers between zones, and changes their weights."""

FOLLOWED: Final = {
    **WEIGHTS,
    "follow": 30,
    "ask_names": 3,
    "look": 6,
    "look_at_primary": 5,
    "direct": 1.2,
    "apply": 4,
    "receive": 20,
    "hang_up": 0.1,
    "restart_replica": 0.05,
    "restart_primary": 0.02,
    "restore_primary": 0.02,
    "promote": 0.02,
}
"""Weights of a simulation whose proxy reads the primary's log, before late replicas."""

_STEADY: Final = ("client", "server", "answer", "notice")
"""Kinds of steps without which nothing happens."""

_Any = TypeVar("_Any")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a simulation.

    Attributes:
        clients: how many clients there are.
        replicas: for each replica, whether it preserves commit order.
        registers: how many registers there are; with few there are more conflicts.
        errors: of 24 statements, how many commit a write and then fail.
        levels: the levels that clients ask for.
        scopes: the scopes that clients ask for.
        scope_limit: how many wide scopes the proxy keeps.
        scope_age: how long the proxy keeps a scope that nobody uses, s.
        fallback_rate: reads per second that may leave late replicas.
        proof_max_age: after how long a replica is asked whether it still has what it proved, s.
        physics: which steps of a commit are separate.
        weights: how often each kind of step is taken.
        views: there is a view, which others define anew, and which clients read.
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
    proof_max_age: float = inf
    physics: Physics = Physics.REAL
    weights: dict[str, float] = field(default_factory=lambda: dict(WEIGHTS))
    views: bool = False


def some_options(seed: int) -> Options:
    """Choose options at random: with few clients, scopes and faults, a run goes deeper."""
    chance = random.Random(seed)

    def some(all_of: Sequence[_Any], most: int) -> tuple[_Any, ...]:
        return tuple(chance.sample(all_of, chance.randint(1, most)))

    weights = {
        kind: weight * (1 if kind in _STEADY else chance.choice((0.1, 0.3, 1, 1, 1, 3)))
        for kind, weight in WEIGHTS.items()
    }
    weights["place"] = chance.choice((0, 0, 1, 3))
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
        proof_max_age=chance.choice((0.0, 0.3, inf)),
        physics=chance.choice((Physics.REAL, Physics.REAL, *Physics, Physics.SIMPLE)),
        weights=weights,
    )


class Chooser:
    """Derives one choice after the other from a number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def below(self, count: int) -> int:
        """Choose one of 0..count-1."""
        self._number, found = divmod(self._number, count)
        return found

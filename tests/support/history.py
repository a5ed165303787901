"""What clients did and saw: the operations of a history, and how one is recorded.

A history is a list of `Write` and `Read`, in any order. It says nothing of servers: only what
clients sent and got, and when, by one clock. `tests.support.history_checker.check(history)` tells
which reads broke the promise of their level.

* **Times** are integers of one clock for all clients: nanoseconds of `time.monotonic_ns`, or ticks
  of a simulation. Something came before another only if its time is smaller; equal times count as
  at the same time. Take them from one `Stamps`, and no two are equal.
* **Registers** are named by an integer or a text. They begin with the initial value, which is read
  as None or 0. No value is written twice to one register.
* **Scopes** are pairs of a kind and a key, such as ``(Scope.USER, "app")``. An operation names all
  to which it belongs: what it wrote or saw there is then what their reads must see.
* **Order of versions.** Which of two writes to a register is newer follows from times, where one
  was acknowledged (or read by anybody) before the other was invoked; with one writer at a time that
  orders all. Where writers overlap, `Write.order` tells; without it such writes are not compared,
  and no violation is found that would depend on it. An order must not contradict the times.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from routing.consistency.decision import Level, Scope

Register = int | str
ScopeKey = tuple[Scope, str]


@dataclass(frozen=True, slots=True)
class Write:
    """One write to one register.

    Attributes:
        client: who wrote; for counter-examples only.
        scopes: in which it counts as own; empty for one that came past the proxy.
        register: which register.
        value: what was written; not 0.
        invoked: when it was sent.
        acknowledged: when its success was reported; None if that never happened, so that it may
            have been committed or not.
        order: position in the primary's commit order; None if that is not known.
        aborted: certainly not committed, such as after an error that says so: nobody may read it.
        lost: committed, and gone with a primary that was replaced: nobody needs to see it.
    """

    client: str
    scopes: frozenset[ScopeKey]
    register: Register
    value: int
    invoked: int
    acknowledged: int | None
    order: int | None = None
    aborted: bool = False
    lost: bool = False

    def __str__(self) -> str:
        end = "never acknowledged" if self.acknowledged is None else f"{self.acknowledged}"
        order = "" if self.order is None else f", number {self.order}"
        return f"{self.value} (written by {self.client} in {self.invoked}..{end}{order})"


@dataclass(frozen=True, slots=True)
class Read:
    """One read of one register that was answered.

    Attributes:
        client: who read; for counter-examples only.
        scope: whose writes and sights it must respect.
        level: what was promised.
        register: which register.
        value: what was read; None or 0 is the initial value.
        invoked: when it was sent.
        returned: when the answer was there.
        staleness: of BOUNDED_STALENESS: the bound, in units of the clock.
        scopes: in which, beside `scope`, it counts as seen.
    """

    client: str
    scope: ScopeKey
    level: Level
    register: Register
    value: int | None
    invoked: int
    returned: int
    staleness: int = 0
    scopes: frozenset[ScopeKey] = frozenset()

    def __str__(self) -> str:
        kind, key = self.scope
        bound = f"({self.staleness})" if self.level is Level.BOUNDED_STALENESS else ""
        return (
            f"{self.client} read register {self.register!r} in {self.invoked}..{self.returned} at"
            f" {self.level}{bound}, scope {kind} {key!r}"
        )


class Stamps:
    """A clock that never says the same time twice; threads may share it."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        """The time now, or a bit more: larger than whatever it said before."""
        with self._lock:
            self._last = max(self._last + 1, self._clock())
            return self._last

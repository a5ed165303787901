"""Numbers of scopes, which identify their rows and marks in the files."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from routing.consistency.scope import ScopeKey


class ScopeNumbers:
    """Which scope has which number.

    Args:
        count: the numbers are 1..count.

    Attributes:
        count: likewise.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._numbers: dict[ScopeKey, int] = {}
        self._free: deque[int] = deque()
        self._fresh = 1  # no number from here on was ever given

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, key: ScopeKey) -> int | None:
        """A scope's number; None if it has none."""
        return self._numbers.get(key)

    def give(self, key: ScopeKey) -> int | None:
        """Give a number to a scope that has none, and return it; None while none is free."""
        if self._free:
            number = self._free.popleft()
        elif self._fresh <= self.count:
            number = self._fresh
            self._fresh += 1
        else:
            return None
        self._numbers[key] = number
        return number

    def take_away(self, key: ScopeKey) -> int | None:
        """A scope is gone: return its number, which no other scope gets before it is `free`."""
        return self._numbers.pop(key, None)

    def free(self, numbers: Iterable[int]) -> None:
        """Let other scopes get these numbers: the files have nothing of theirs any more."""
        self._free.extend(numbers)

    def restore(self, numbers: Mapping[ScopeKey, int]) -> None:
        """Begin with the scopes that have these numbers."""
        self._numbers = dict(numbers)
        used = set(self._numbers.values())
        self._fresh = max(used, default=0) + 1
        self._free = deque(number for number in range(1, self._fresh) if number not in used)

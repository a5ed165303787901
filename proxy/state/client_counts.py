"""How many clients there are of each kind that is counted: all, those of a user, of an address."""

from __future__ import annotations


class ClientCounts:
    """The counts of one worker. A kind is named by any bytes."""

    def __init__(self) -> None:
        self._own: dict[bytes, int] = {}

    def __len__(self) -> int:
        """Of how many kinds this worker counts any."""
        return len(self._own)

    def of(self, kind: bytes) -> int:
        """How many there are, at all workers together."""
        return self._own.get(kind, 0)

    def add(self, kind: bytes) -> None:
        """Count one more at this worker."""
        self._set(kind, self._own.get(kind, 0) + 1)

    def remove(self, kind: bytes) -> None:
        """Count one less at this worker."""
        self._set(kind, self._own[kind] - 1)

    def _set(self, kind: bytes, count: int) -> None:
        if count:
            self._own[kind] = count
        else:
            del self._own[kind]

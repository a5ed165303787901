"""Counts of clients that workers share: a mapped file, in which each worker writes its own part.

A part is a table of kinds with a count each. Nobody else writes there, so nothing needs a lock, and
what a worker had counted is gone with its process. Two workers that let clients in at the same
moment do not see each other yet: a limit may be exceeded by one for each worker but one.

A kind is written as a digest. A worker that has no room for more kinds counts the others for itself
alone: a full table refuses nobody.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from proxy.state import shared_file
from proxy.state.client_counts import ClientCounts
from proxy.state.shared_names import PLAIN

if TYPE_CHECKING:
    from pathlib import Path

_WORD: Final = 8
_HEADER: Final = 2
"""Words of a part before its entries: the process id of its worker, and the entries in use."""
_ENTRY: Final = 2
"""Words of an entry: a digest and a count."""
ENTRIES: Final = 16_383
"""Kinds of clients that a worker shares its counts of; a part is 256 KiB."""
_PART: Final = _HEADER + _ENTRY * ENTRIES


def make(folder: Path, workers: int, name: str = PLAIN.clients) -> None:
    """Make the file anew, before any worker starts; an earlier proxy's workers keep theirs.

    Raises:
        StateError: it cannot be made.
    """
    with shared_file.made(folder / name, workers * _PART * _WORD):
        pass  # it is all zeros: nobody is counted


class SharedClientCounts(ClientCounts):
    """One worker's view of the file, which stays mapped until the process ends.

    Args:
        folder: the state directory; `make` was called for it.
        workers: how many there are.
        worker: the number of this one, from 0.
        name: of the file.

    Raises:
        StateError: there is no such file.
    """

    def __init__(self, folder: Path, workers: int, worker: int, name: str = PLAIN.clients) -> None:
        super().__init__()
        self._map = shared_file.mapped(folder / name)
        self._words = memoryview(self._map).cast("Q")
        self._base = worker * _PART
        self._others = [other * _PART for other in range(workers) if other != worker]
        self._places: dict[bytes, int] = {}  # where a kind's entry is, in words
        self._free: list[int] = []
        self._used = 0
        # What a process under the same number left behind counts no more.
        self._words[self._base + 1] = 0
        self._words[self._base] = os.getpid()

    def of(self, kind: bytes) -> int:
        """How many there are, at all workers together."""
        digest = _digest(kind)
        return super().of(kind) + sum(self._at(base, digest) for base in self._others)

    def _set(self, kind: bytes, count: int) -> None:
        super()._set(kind, count)
        place = self._places.get(kind)
        if place is None:
            place = self._take_place(kind)
            if place is None:
                return
        self._words[place + 1] = count
        if not count:
            del self._places[kind]
            self._free.append(place)

    def _take_place(self, kind: bytes) -> int | None:
        """An entry for one more kind; None if there is no room, or nothing to be counted."""
        if kind not in self._own:
            return None
        if self._free:
            place = self._free.pop()
        elif self._used < ENTRIES:
            place = self._base + _HEADER + _ENTRY * self._used
            self._used += 1
            self._words[place + 1] = 0
        else:
            return None
        self._places[kind] = place
        self._words[place] = int.from_bytes(_digest(kind), "little")
        self._words[self._base + 1] = self._used
        return place

    def _at(self, base: int, digest: bytes) -> int:
        """What another worker counts."""
        pid, used = self._words[base], self._words[base + 1]
        if not used or not _is_alive(pid):
            return 0
        begin = (base + _HEADER) * _WORD
        end = begin + min(used, ENTRIES) * _ENTRY * _WORD
        found = self._map.find(digest, begin, end)
        while found != -1 and (found - begin) % (_ENTRY * _WORD):
            found = self._map.find(digest, found + 1, end)
        return 0 if found == -1 else self._words[found // _WORD + 1]


def _digest(kind: bytes) -> bytes:
    """What an entry is found by: never 0, as an entry is that was not used yet."""
    number = int.from_bytes(blake2b(kind, digest_size=_WORD).digest(), "little")
    return (number | 1).to_bytes(_WORD, "little")


def _is_alive(pid: int) -> bool:
    """Whether a worker's process is there: the counts of one that was killed are no clients."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid != 0

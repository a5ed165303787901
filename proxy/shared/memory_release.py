"""Gives memory back to the operating system after many connections have ended.

glibc returns only the end of its heap by itself, and connections that end leave free pages behind
everywhere in it: 700 clients that had come and gone left a worker with twice its memory, for good.
`malloc_trim` returns them. It holds up every allocation meanwhile, 50 ms after 2,000 TLS
connections have ended, so it is called only where many have ended, and a while after that: by then
the last of them have, and kept ones have mostly expired (`kept-connection-age`). Other allocators,
such as that of musl or macOS, have no such function, and nothing is done.

Python's free lists hold up to 2,000 objects that ended with the sessions, each in a page of its
own. A full collection empties them. It costs 1 ms where no session is left, but half a second of a
busy machine beside 3,000, so it is left out where many are.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import time
from typing import TYPE_CHECKING, Final

from proxy import tasks

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY_S = 1.0  # not Final: tests shorten it
"""How often connections are counted."""
_WAIT: Final = 10
"""Counts between the one that shows that many have ended and the release."""
_MANY: Final = 128
"""How many connections must have ended, and at least a quarter of those that there were."""

_log = logging.getLogger(__name__)


def malloc_trim() -> Callable[[], None] | None:
    """What gives back whatever is free; None where the allocator has no such function."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    trim.restype = ctypes.c_int
    return lambda: trim(0)


class MemoryRelease:
    """Counts the connections of one worker now and then, so that no connection needs a timer."""

    def __init__(self, count: Callable[[], int], release: Callable[[], None] | None) -> None:
        """Begin with no connections.

        Args:
            count: how many connections there are, to clients and to servers.
            release: gives memory back, as `malloc_trim`; None if that cannot be done.
        """
        self._count = count
        self._release = release
        self._most = 0  # since memory was given back
        self._wait = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start counting, if memory can be given back."""
        if self._release is not None:
            self._task = tasks.start(self._watch(self._release), "memory release")

    async def stop(self) -> None:
        """Stop counting."""
        if self._task is not None:
            await tasks.stop(self._task)

    async def _watch(self, release: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            if self.is_due():
                began = time.monotonic()
                if self._most < _MANY:  # as many as there are now
                    gc.collect()
                release()
                _log.debug("gave memory back, in %.1f ms", (time.monotonic() - began) * 1000)

    def is_due(self) -> bool:
        """Count; whether many connections had ended a while ago."""
        count = self._count()
        self._most = max(self._most, count)
        if self._wait:
            self._wait -= 1
            if not self._wait:
                self._most = count
                return True
        elif self._most - count >= max(_MANY, self._most // 4):
            self._wait = _WAIT
        return False

"""An event loop in a thread of its own, for programs that do not run one."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Runs an event loop in a thread, from `start` to `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="mysql_mocker", daemon=True
        )

    def start(self) -> None:
        """Begins; once only."""
        self._thread.start()

    def stop(self) -> None:
        """Ends for good."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[None, None, _T]) -> _T:
        """Runs a coroutine in the loop and returns its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

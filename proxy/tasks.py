"""Background tasks: named, kept alive, and logged when they fail."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Protocol, TypeVar

_T = TypeVar("_T")

Start = Callable[[Coroutine[object, object, None], str], asyncio.Task[None]]
"""The type of `start` where the tasks return nothing."""


class CallLater(Protocol):
    """`asyncio.AbstractEventLoop.call_later`."""

    def __call__(
        self, delay: float, callback: Callable[..., object], *args: object
    ) -> asyncio.TimerHandle:
        """Call `callback` after `delay`, s."""
        ...


_log = logging.getLogger(__name__)

# The event loop keeps only weak references to its tasks.
_running: set[asyncio.Task[object]] = set()


def start(coroutine: Coroutine[object, object, _T], name: str) -> asyncio.Task[_T]:
    """Run a coroutine in the background; a caller that does not await the task may drop it.

    Args:
        coroutine: what to run.
        name: says in the log and in a debugger what the task is for.

    """
    task = asyncio.get_running_loop().create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_ended)
    return task


async def stop(*tasks: asyncio.Task[object]) -> None:
    """Cancel tasks and wait until they have ended, however they end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _ended(task: asyncio.Task[object]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("task %s failed", task.get_name(), exc_info=error)

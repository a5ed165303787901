"""The terms in the state file, for the event loop: blocking calls run in a thread of their own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from proxy.state.sqlite_file import StateError
from proxy.state.state_file import PrimaryTerm, StateFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_T = TypeVar("_T")

_LIMIT_S: Final = 5.0


class PrimaryEpochFile:
    """Those of one state file, which is opened by the first call.

    Each call raises `StateError` if the file cannot be used, or does not answer in time.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file: StateFile | None = None
        self._thread = ThreadPoolExecutor(1, "state file")
        self._is_late: Callable[[], bool] = lambda: False

    async def read(self) -> list[PrimaryTerm]:
        """All terms, the last one last."""
        return await self._run(lambda file: file.terms())

    async def add(self, term: PrimaryTerm) -> PrimaryTerm:
        """Add a term if its number is the next one; return the last one, whoever added it."""
        return await self._run(lambda file: file.add(term))

    def close(self) -> None:
        """Let go of the file when the last call has ended."""
        with suppress(RuntimeError):  # it was closed before
            self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    async def _run(self, call: Callable[[StateFile], _T]) -> _T:
        def run() -> _T:
            if self._file is None:
                self._file = StateFile(self._folder)
            return call(self._file)

        if self._is_late():
            raise self._late()
        running = asyncio.get_running_loop().run_in_executor(self._thread, run)
        running.add_done_callback(_take)
        self._is_late = lambda: not running.done()
        try:
            async with asyncio.timeout(_LIMIT_S):
                return await asyncio.shield(running)
        except TimeoutError as error:
            raise self._late() from error

    def _late(self) -> StateError:
        return StateError(
            f"the state file in {self._folder} does not answer within {_LIMIT_S:g} s: see what"
            " keeps its disk; no promotion is followed before"
        )


def _take(call: asyncio.Future[_T]) -> None:
    """Retrieve the result of a call for which nobody waits any more."""
    if not call.cancelled():
        call.exception()

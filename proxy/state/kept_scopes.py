"""Keeps the wide scopes of a worker for its next start: the event loop's side of the scope file.

It also keeps which servers have diverged: no comparison of GTID sets finds that any more once the
primary has given the same GTIDs to other transactions.

The event loop sets marks, at a system call for each scope that begins to have something unwritten,
and hands what has changed to a thread, some scopes at a time. A fault of the file disturbs no
client: scopes go on in memory, the fault is counted and logged, and what cannot be kept is unknown
at the next start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from proxy import tasks
from proxy.state.scope_file import ScopeFile, read_diverged
from proxy.state.scope_numbers import ScopeNumbers
from proxy.state.scope_rows import Change
from proxy.state.sqlite_file import StateError
from proxy.wall_clock import utc_us

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from protocol.gtid import GtidSet
    from proxy.observe.metrics import Metrics
    from routing.consistency.scope import ScopeKey, Scopes, ScopeState
    from routing.servers.topology import Topology

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

EVERY_S: Final = 0.2
"""How long changes are collected before they are written."""
_AT_ONCE: Final = 256
"""Most scopes that are handed over in one turn of the event loop."""
_START_S: Final = 30.0
"""How long a start waits for the disk; 10,000 scopes take a second or two."""
_STOP_S: Final = 5.0
"""How long a stop waits for the disk to take the rest, and then for the file to be closed."""
_FIRST_PAUSE_S: Final = 1.0
_LAST_PAUSE_S: Final = 30.0
"""Between two attempts after a fault."""


class KeptScopes:
    """The keeper of one worker's scopes (`routing.consistency.scope.Keeper`).

    Args:
        folder: the state directory.
        scopes: those to keep.
        topology: servers that may have diverged.
        limit: how many scopes there may be.
        metrics: counts.
        now: the clock of `ScopeState.used_at`, s.
    """

    def __init__(
        self,
        folder: Path,
        scopes: Scopes,
        topology: Topology,
        limit: int,
        metrics: Metrics,
        now: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._scopes = scopes
        self._topology = topology
        self._diverged_gtids: dict[str, GtidSet] | None = {}  # as the file has it; None: not known
        self._metrics = metrics
        self._now = now
        self._thread = ThreadPoolExecutor(1, "scope file")
        self._opening: asyncio.Future[ScopeFile] | None = None
        self._file: ScopeFile | None = None
        self._alone = True  # no other process keeps scopes there that is known of
        self._inherits = False  # the file was another process's
        self._numbers = ScopeNumbers(2 * limit + _AT_ONCE)  # dropped scopes have one for a while
        self._changed: dict[ScopeKey, ScopeState] = {}
        self._gone: list[int] = []  # numbers of dropped scopes that the file still has
        self._something = asyncio.Event()
        self._stopping = asyncio.Event()
        self._fault = ""
        self._pause_s = _FIRST_PAUSE_S
        self._task: asyncio.Task[None] | None = None

    async def start(self, *, beside_another: bool = False) -> None:
        """Restore what was kept, before any client is served.

        Beside another process, which keeps its scopes in the file until it has gone, all scopes
        begin as unknown, and are kept from `on_alone` on.
        """
        self._alone, self._inherits = not beside_another, beside_another
        try:
            if beside_another:
                self._topology.remember_diverged(read_diverged(self._folder))
            else:
                self._restore(await self._open())
        except StateError as error:
            self._failed(error)
        self._task = tasks.start(self._run(), "kept scopes")

    def on_alone(self) -> None:
        """The other process has gone."""
        self._alone = True

    async def stop(self) -> None:
        """Write what is not written yet, and close the file; no session is left."""
        self._stopping.set()
        self._something.set()
        try:
            async with asyncio.timeout(_STOP_S):
                if self._task is not None:
                    await self._task
                if self._file is not None and not self._changed and not self._gone:
                    used = [
                        (self._wall_us(scope.used_at), number)
                        for scope in self._scopes.states()
                        if (number := self._numbers.of((scope.kind, scope.key))) is not None
                    ]
                    await self._call(lambda file: file.end(used))
        except TimeoutError:
            self._failed(StateError(f"the scope file could not be written within {_STOP_S:g} s"))
        except StateError as error:
            self._failed(error)
        if self._task is not None:
            await tasks.stop(self._task)
        self._scopes.begin_keeping(None)
        file, self._file = self._file, None
        if file is not None:
            closing = self._thread.submit(file.close)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(closing), _STOP_S)
        self._thread.shutdown(wait=False)

    # What scopes call

    def ahead(self, scope: ScopeState) -> None:
        """Mark the scope, if the file has anything of it."""
        number = self._numbers.of((scope.kind, scope.key))
        if number is not None:
            self._mark(number)

    def on_change(self, scope: ScopeState) -> None:
        """Have the scope written soon, with others."""
        self._changed[scope.kind, scope.key] = scope
        self._something.set()

    def on_drop(self, scope: ScopeState) -> None:
        """Have the scope deleted from the file; until then it is marked."""
        key = scope.kind, scope.key
        self._changed.pop(key, None)
        number = self._numbers.take_away(key)
        if number is not None:
            self._mark(number)
            self._gone.append(number)
            self._something.set()

    def on_unlogged_write(self, keys: tuple[ScopeKey, ...]) -> None:
        """Record a scope's first write without a GTID at once: no probe would find it later."""
        if self._file is None:
            return
        try:
            self._file.add_unlogged(keys)
        except StateError as error:
            self._give_up(error)

    def on_compared(self) -> None:
        """Servers were compared: keep which of them have diverged, before anything relies on it."""
        file, diverged_gtids = self._file, self._topology.diverged_gtids
        if file is None or diverged_gtids == self._diverged_gtids:
            return
        try:
            file.keep_strayed(diverged_gtids)
        except StateError as error:
            self._failed(error)  # the next comparison comes soon
        else:
            self._diverged_gtids = diverged_gtids

    def _mark(self, number: int) -> None:
        if self._file is None:
            return
        try:
            self._file.marks.set(number)
        except OSError as error:
            self._give_up(
                StateError(f"scopes in {self._folder} cannot be marked: {error.strerror}")
            )

    # Writing

    async def _run(self) -> None:
        while not self._stopping.is_set() or self._changed or self._gone:
            if self._file is None:
                if self._stopping.is_set():
                    return
                await self._pause(self._backoff() if self._alone else EVERY_S)
                if self._alone:
                    await self._open_again()
                continue
            await self._something.wait()
            self._something.clear()
            await self._pause(EVERY_S)
            while (self._changed or self._gone) and self._file is not None:
                try:
                    await self._write()
                except StateError as error:
                    self._failed(error)
                    if self._stopping.is_set():
                        return
                    await self._pause(self._backoff())
            self._tell()

    async def _write(self) -> None:
        """Write some of what has changed.

        Raises:
            StateError: it could not be written; the next call tries again.
        """
        scopes, changes = self._take()
        removed, self._gone = self._gone, []
        began = time.monotonic()
        try:
            written = await self._call(lambda file: file.write(changes, removed))
        except StateError:
            self._gone = removed + self._gone
            for scope in scopes:
                scope.on_keep_failed()
            raise
        file = self._file
        if file is None:
            return  # given up meanwhile
        for scope, change in zip(scopes, changes, strict=True):
            # A scope that was dropped meanwhile keeps its mark; only `_gone` has its number.
            if scope.keeper is self and scope.on_kept(change.kept):
                try:
                    file.marks.clear(change.number)
                except OSError as error:
                    raise StateError(f"{self._folder}: {error.strerror}") from error
        self._numbers.free(removed)
        self._metrics.scopes_written(time.monotonic() - began, written.inserted, written.compressed)
        self._works()

    def _take(self) -> tuple[list[ScopeState], list[Change]]:
        scopes: list[ScopeState] = []
        changes: list[Change] = []
        for key in list(self._changed)[:_AT_ONCE]:
            number = self._numbers.of(key)
            if number is None:
                number = self._numbers.give(key)
                if number is None:
                    break  # until dropped scopes are deleted from the file
                self._mark(number)
            scope = self._changed.pop(key)
            kept = scope.to_keep()
            scopes.append(scope)
            changes.append(Change(number, kept, self._wall_us(kept.used_at)))
        return scopes, changes

    async def _call(self, call: Callable[[ScopeFile], _T]) -> _T:
        file = self._file
        if file is None:
            raise StateError("the scope file is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, file)

    # Opening, and faults

    async def _open(self) -> ScopeFile:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().run_in_executor(
                self._thread, ScopeFile, self._folder, self._numbers.count
            )
        opening = self._opening
        try:
            async with asyncio.timeout(_START_S):
                file = await asyncio.shield(opening)
        except TimeoutError as error:
            raise StateError(
                f"the scope file in {self._folder} could not be opened within {_START_S:g} s: see"
                " what delays its disk; until the file is open no scopes are kept"
            ) from error
        except StateError:
            self._opening = None
            raise
        finally:
            del opening  # it refers to the error, and the error refers to this frame
        self._opening = None
        return file

    def _restore(self, file: ScopeFile) -> None:
        """Take over the scopes that a file has."""
        self._file = file
        self._numbers.restore(
            {(stored.kept.kind, stored.kept.key): stored.number for stored in file.scopes}
        )
        now, wall_us = self._now(), utc_us()
        self._scopes.restore(
            [
                stored.kept._replace(used_at=now - max(0, wall_us - stored.used_us) / 1e6)
                for stored in file.scopes
            ],
            self,
            now,
        )
        self._share_unlogged(file)
        self._diverged_gtids = dict(file.diverged_gtids)
        self._topology.remember_diverged(file.diverged_gtids)
        unknown = sum(stored.kept.unknown for stored in file.scopes)
        self._metrics.scopes_restored(len(file.scopes) - unknown, unknown)
        _log.info(
            "%d scopes are restored from %s as they were, %d as unknown%s",
            len(file.scopes) - unknown,
            file.path,
            unknown,
            f", since {file.doubt}" if unknown and file.doubt else "",
        )
        file.scopes = []
        self._tell()

    async def _open_again(self) -> None:
        """Open the file again, and begin to keep the present scopes."""
        try:
            file = await self._open()
            self._file = file
            await self._call(lambda file: file.discard())
        except StateError as error:
            self._failed(error)
            file_or_none, self._file = self._file, None
            if file_or_none is not None:
                self._thread.submit(file_or_none.close)
            return
        self._forget_numbers()
        if self._inherits:
            self._inherits = False
            self._topology.remember_diverged(file.diverged_gtids)  # it may have seen more
        self._diverged_gtids = None
        self.on_compared()
        self._share_unlogged(file)
        self._scopes.begin_keeping(self)
        self._works()

    def _share_unlogged(self, file: ScopeFile) -> None:
        """Let scopes and file agree on which scopes have writes without a GTID."""
        if file.unlogged is None:
            self._scopes.all_unlogged()
        elif file.unlogged:
            self._scopes.restore_unlogged(file.unlogged)
        keys = self._scopes.unlogged_keys
        if keys is None:
            if file.unlogged is not None:
                self.on_unlogged_write(())
        elif file.unlogged is not None and keys - file.unlogged:
            self.on_unlogged_write(tuple(keys - file.unlogged))
        if keys is None or keys:
            _log.warning(
                "in %s scopes something was written without a GTID, and no replica can be shown to"
                " have it: their reads run on the primary. After the replicas have been rebuilt,"
                " stop Tidegate and remove %s",
                "all" if keys is None else len(keys),
                file.path,
            )

    def _forget_numbers(self) -> None:
        self._numbers.restore({})
        self._changed.clear()
        self._gone.clear()

    def _give_up(self, error: StateError) -> None:
        """The file may lack something, and marks cannot say so: no start may rely on it."""
        file, self._file = self._file, None
        if file is not None:
            file.abandon()
            self._thread.submit(file.close)
        self._forget_numbers()
        self._scopes.begin_keeping(None)
        self._failed(error)
        self._something.set()

    def _failed(self, error: StateError) -> None:
        self._metrics.scope_file_failed()
        if str(error) != self._fault:
            _log.error("scopes are not kept for the next start: %s", error)
        self._fault = str(error)

    def _works(self) -> None:
        if self._fault:
            _log.info("scopes are kept for the next start again")
            self._metrics.scope_file_works()
        self._fault = ""
        self._pause_s = _FIRST_PAUSE_S

    def _tell(self) -> None:
        self._metrics.scopes_kept(len(self._numbers), len(self._changed))

    def _backoff(self) -> float:
        pause = self._pause_s
        self._pause_s = min(2 * pause, _LAST_PAUSE_S)
        return pause

    async def _pause(self, seconds: float) -> None:
        """Wait, but only until a stop begins."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _wall_us(self, at: float) -> int:
        return utc_us() - int((self._now() - at) * 1e6)

"""A worker's part of a hand-over, before and after: all is done on its event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy import tasks
from proxy.error_text import error_text
from proxy.handover.step import Board, Step, StepDone, StepKind
from proxy.state.scope_memory import ScopeMemory, kept_flags
from proxy.state.sqlite_file import StateError
from routing.consistency.scope_board import READER, is_flagged
from routing.consistency.sharing import Sharing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy.client.listeners import Listeners
    from proxy.listening_sockets import OpenSocket
    from proxy.shared.shared import Shared


class WorkerPart:
    """What one worker does in a hand-over.

    Attributes:
        accepting: it has begun to accept clients.
        ports: where, from then on; that of `listen` first.
        left: a successor accepts the clients, and this worker is to let its sessions go.
    """

    def __init__(
        self,
        shared: Shared,
        listeners: Listeners,
        sockets: Sequence[OpenSocket],
        stop: asyncio.Event,
    ) -> None:
        """Begin without accepting.

        Args:
            shared: what the worker's sessions share.
            listeners: those of all addresses.
            sockets: where they accept.
            stop: ends the worker.
        """
        self.accepting = asyncio.Event()
        self.ports: list[int] = []
        self.left = False
        self._shared = shared
        self._listeners = listeners
        self._sockets = sockets
        self._stop = stop
        self._sharing = shared.sharing  # for as long as scopes are shared

    def begin(self, steps: Sequence[Step]) -> None:
        """Do the first steps, before clients are served.

        Raises:
            StateError: one cannot be done.
        """
        for step in steps:
            if error := self.act(step).error:
                raise StateError(error)

    async def wait_for_turn(self) -> None:
        """Return when the worker is to accept clients, or to stop."""
        waiting = [tasks.start(event.wait(), "turn") for event in (self.accepting, self._stop)]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await tasks.stop(*waiting)

    def accept(self) -> None:
        """Accept clients, at first or again.

        Raises:
            OSError: a socket cannot listen.
        """
        if self.accepting.is_set():
            self._listeners.resume()
        else:
            self.ports = self._listeners.start_at(self._sockets)
            self.accepting.set()

    def act(self, step: Step) -> StepDone:
        """Do a step."""
        try:
            self._act(step)
        except (OSError, StateError) as error:
            return StepDone(step.kind, error_text(error))
        return StepDone(step.kind)

    def _act(self, step: Step) -> None:
        match step:
            case Step(StepKind.SHARE, Board() as board):
                self._share(board)
            case Step(StepKind.LINK, Board() as board):
                self._link(board)
            case Step(StepKind.UNLINK):
                self._unlink()
            case Step(StepKind.PAUSE):
                self._listeners.pause()
            case Step(StepKind.RESUME):
                self.accept()
            case Step(StepKind.LEAVE):
                self.left = True
                self._listeners.stop(with_admins=True)
                self._stop.set()

    def _share(self, board: Board) -> None:
        """A single worker shares its scopes from now on, with nobody so far."""
        sharing = Sharing(ScopeMemory(self._folder(), 1, 0, board.name))
        self._sharing = sharing
        self._shared.scopes.share(sharing)
        self._shared.primary_epoch.share(sharing)
        keys = self._shared.scopes.unlogged_keys
        if keys is None or keys:  # what was written before
            sharing.board.add_unlogged(keys or ())

    def _link(self, board: Board) -> None:
        if self._sharing is None:
            raise StateError("scopes are not shared")
        try:
            view = ScopeMemory(self._folder(), board.workers, READER, board.name)
        except StateError:
            if not (self._folder() / board.name).exists():
                return  # a worker that was started again, and the other proxy has gone meanwhile
            raise
        self._sharing.link(view)

    def _unlink(self) -> None:
        shared, sharing = self._shared, self._sharing
        if sharing is None:
            return
        sharing.unlink(shared.scopes.states(), shared.now())
        if shared.sharing is None:  # a single worker
            self._sharing = None
            shared.primary_epoch.share(None)
            flags = kept_flags(self._folder())
            shared.scopes.remember_unlogged(lambda key: is_flagged(flags, key))
            shared.scopes.share(None)
        if shared.kept_scopes is not None:
            shared.kept_scopes.on_alone()

    def _folder(self) -> Path:
        folder = self._shared.config.state_dir
        if folder is None:
            raise StateError("a hand-over needs state-dir")
        return folder

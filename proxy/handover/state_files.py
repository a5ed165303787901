"""What a proxy has in its state directory for as long as it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.handover.worker_start import WorkerStart
from proxy.state.shared_names import PLAIN, SharedNames

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from proxy.handover.step import Board
    from proxy.handover.successor import TakeOver
    from proxy.listening_sockets import OpenSocket
    from proxy.state.scope_memory import FolderLock


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The files of a proxy in its state directory, and how it came to use it.

    Attributes:
        folder: the directory; None if there is none.
        take_over: the take-over by which this process starts; None: no other process ran.
        names: of what its workers share there.
        board: by which they share wide scopes; None: there is one worker, which shares none.
        lock: of the directory, if several workers use it.
    """

    folder: Path | None = None
    take_over: TakeOver | None = None
    names: SharedNames = PLAIN
    board: Board | None = None
    lock: FolderLock | None = None

    @property
    def inherited_sockets(self) -> list[OpenSocket]:
        """The sockets that came from the predecessor."""
        return [] if self.take_over is None else self.take_over.sockets

    @property
    def inherited_environment(self) -> Mapping[str, str]:
        """The variables that came from the predecessor."""
        return {} if self.take_over is None else self.take_over.environment

    @property
    def worker_start(self) -> WorkerStart:
        """What each worker begins with, but for its sockets."""
        if self.take_over is None:
            return WorkerStart(names=self.names)
        return WorkerStart((), self.names, self.board, self.take_over.board, waits=True)

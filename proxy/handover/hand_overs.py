"""What the first process of a proxy does about its predecessor and its successor."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.control.connection import ControlError
from proxy.handover.predecessor import Estate, Predecessor
from proxy.handover.step import Board, Step, StepError, StepKind
from proxy.handover.worker_start import WorkerStart
from proxy.state import scope_memory
from proxy.state.shared_names import PLAIN, SharedNames, remove_others
from proxy.state.sqlite_file import StateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.control.connection import ControlConnection, Message
    from proxy.handover.crew import Crew
    from proxy.handover.successor import TakeOver
    from proxy.listening_sockets import OpenSocket
    from proxy.state.scope_memory import FolderLock

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Heritage:
    """What a proxy has in its state directory.

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
    def inherited(self) -> list[OpenSocket]:
        """The sockets that came from the predecessor."""
        return [] if self.take_over is None else self.take_over.sockets

    @property
    def worker_start(self) -> WorkerStart:
        """What each worker begins with, but for its sockets."""
        if self.take_over is None:
            return WorkerStart(names=self.names)
        return WorkerStart((), self.names, self.board, self.take_over.board, waits=True)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a hand-over does beside the workers.

    Attributes:
        sockets: gives the listening sockets.
        accepts: called when this process accepts the clients in its predecessor's place.
        left: called with the process that does so in this one's place.
        stopping: says whether this process stops.
    """

    sockets: Callable[[], list[OpenSocket]]
    accepts: Callable[[], None]
    left: Callable[[int], None]
    stopping: Callable[[], bool]


class HandOvers:
    """Those of one proxy: the one by which it starts, and the one by which it ends."""

    def __init__(
        self, heritage: Heritage, workers: int, crew: Crew, surroundings: Surroundings
    ) -> None:
        self._heritage = heritage
        self._workers = workers
        self._crew = crew
        self._surroundings = surroundings
        self._predecessor = Predecessor(
            crew,
            Estate(
                heritage.folder,
                heritage.names,
                workers,
                surroundings.sockets,
                surroundings.stopping,
                surroundings.left,
            ),
        )

    @property
    def successor(self) -> int:
        """The process that takes over just now; 0 if none does."""
        return self._predecessor.successor

    def hand_over(self, connection: ControlConnection, message: Message) -> None:
        """Serve a successor (`proxy.control.server`)."""
        self._predecessor.hand_over(connection, message)

    def prepared(self) -> None:
        """The workers could accept clients: take over, in a thread."""
        take_over, board = self._heritage.take_over, self._heritage.board
        if take_over is not None and board is not None:
            threading.Thread(
                target=self._take_over, args=(take_over, board), name="take-over", daemon=True
            ).start()

    def ready(self) -> None:
        """The workers accept clients: from now on a successor may ask for them."""
        if self._heritage.take_over is None:
            self._predecessor.ready = True

    def _take_over(self, take_over: TakeOver, board: Board) -> None:
        try:
            take_over.finish(self._crew, board)
        except (ControlError, StepError) as error:
            _log.error("process %d is not taken over, and goes on: %s", take_over.pid, error)
            self._crew.fail()
            return
        _log.info("took over from process %d", take_over.pid)
        self._predecessor.own_predecessor = take_over.pid
        self._predecessor.ready = True
        self._surroundings.accepts()
        take_over.wait()
        _log.info("process %d, from which this one took over, has ended", take_over.pid)
        try:
            self._crew.act(Step(StepKind.UNLINK))
            if self._heritage.lock is not None:
                self._heritage.lock.take(wait=True)
            if self._heritage.folder is not None:
                scope_memory.keep_only(self._heritage.folder, board.name)
                remove_others(self._heritage.folder, self._heritage.names, self._workers)
        except (StepError, StateError) as error:
            _log.error("after the take-over: %s", error)
        self._predecessor.own_predecessor = 0

"""What the first process of a proxy does about its predecessor and its successor."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from proxy.control.connection import ControlError
from proxy.handover.predecessor import Predecessor
from proxy.handover.step import Board, Step, StepError, StepKind
from proxy.state import scope_memory
from proxy.state.shared_names import remove_others
from proxy.state.sqlite_file import StateError

if TYPE_CHECKING:
    from proxy.control.connection import ControlConnection, Message
    from proxy.handover.callbacks import HandOverCallbacks
    from proxy.handover.state_files import StateFiles
    from proxy.handover.successor import TakeOver
    from proxy.handover.worker_group import WorkerGroup

_log = logging.getLogger(__name__)


class HandOvers:
    """Those of one proxy: the one by which it starts, and the one by which it ends."""

    def __init__(
        self, files: StateFiles, workers: int, group: WorkerGroup, callbacks: HandOverCallbacks
    ) -> None:
        self._files = files
        self._workers = workers
        self._group = group
        self._callbacks = callbacks
        self._predecessor = Predecessor(files, workers, group, callbacks)

    @property
    def successor(self) -> int:
        """The process that takes over just now; 0 if none does."""
        return self._predecessor.successor

    def hand_over(self, connection: ControlConnection, message: Message) -> None:
        """Serve a successor (`proxy.control.server`)."""
        self._predecessor.hand_over(connection, message)

    def prepared(self) -> None:
        """The workers could accept clients: take over, in a thread."""
        take_over, board = self._files.take_over, self._files.board
        if take_over is not None and board is not None:
            threading.Thread(
                target=self._take_over, args=(take_over, board), name="take-over", daemon=True
            ).start()

    def ready(self) -> None:
        """The workers accept clients: from now on a successor may ask for them."""
        if self._files.take_over is None:
            self._predecessor.ready = True

    def _take_over(self, take_over: TakeOver, board: Board) -> None:
        try:
            take_over.finish(self._group, board)
        except (ControlError, StepError) as error:
            _log.error("process %d is not taken over, and goes on: %s", take_over.pid, error)
            self._group.fail()
            return
        _log.info("took over from process %d", take_over.pid)
        self._predecessor.own_predecessor = take_over.pid
        self._predecessor.ready = True
        self._callbacks.on_accept()
        take_over.wait()
        _log.info("process %d, from which this one took over, has ended", take_over.pid)
        try:
            self._group.act(Step(StepKind.UNLINK))
            if self._files.lock is not None:
                self._files.lock.take(wait=True)
            if self._files.folder is not None:
                scope_memory.keep_only(self._files.folder, board.name)
                remove_others(self._files.folder, self._files.names, self._workers)
        except (StepError, StateError) as error:
            _log.error("after the take-over: %s", error)
        self._predecessor.own_predecessor = 0

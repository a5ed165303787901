"""What a worker begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.handover.step import Board, Step, StepKind
from proxy.state.shared_names import PLAIN

if TYPE_CHECKING:
    from proxy.listening_sockets import OpenSocket
    from proxy.state.shared_names import SharedNames


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """What a worker begins with; it can be sent to a new process.

    Attributes:
        sockets: at which it accepts clients and operators.
        names: of what it shares with other workers of its proxy.
        board: by which a single worker shares wide scopes; None: it shares none. Several workers
            share theirs in any case.
        other: the board of another proxy, which hands over to this one, or takes over from it.
        waits: it accepts no clients until it is told to.
    """

    sockets: tuple[OpenSocket, ...] = ()
    names: SharedNames = PLAIN
    board: Board | None = None
    other: Board | None = None
    waits: bool = False

    def steps(self, workers: int) -> list[Step]:
        """What is to be done before clients are served."""
        steps = []
        if self.board is not None and workers == 1:
            steps.append(Step(StepKind.SHARE, self.board))
        if self.other is not None:
            steps.append(Step(StepKind.LINK, self.other))
        return steps

"""What a worker is told to do in the course of a hand-over; it can be sent to another process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class StepKind(Enum):
    """What is to be done."""

    SHARE = "share"
    """Share wide scopes by this board; only a single worker is told so."""
    LINK = "link"
    """Read this board of the other proxy, too."""
    UNLINK = "unlink"
    """The other proxy has gone, or never came: read and share no more than before."""
    PAUSE = "pause"
    """Accept no clients for now; they wait in the queues of the sockets."""
    RESUME = "resume"
    """Accept clients, again or at last."""
    LEAVE = "leave"
    """A successor accepts the clients: let the sessions go, without a delay."""


@dataclass(frozen=True, slots=True)
class Board:
    """A board of wide scopes (`proxy.state.scope_memory`): its file and how many workers it has."""

    name: str
    workers: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `board` is the one that SHARE and LINK are about."""

    kind: StepKind
    board: Board | None = None


@dataclass(frozen=True, slots=True)
class StepDone:
    """A worker has done a step; if it could not, `error` says why."""

    kind: StepKind
    error: str = ""


class StepError(Exception):
    """A worker could not do a step."""

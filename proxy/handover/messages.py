"""What both sides of a hand-over say to each other (`predecessor` has the steps)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.control.connection import ControlError
from proxy.handover.step import Board

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.control.connection import Message

COMMAND: Final = "take-over"
"""The command at the control socket."""


def identity(folder: Path) -> list[int]:
    """What tells a directory from others.

    Raises:
        ControlError: it is gone.
    """
    try:
        status = folder.stat()
    except OSError as error:
        raise ControlError(f"state-dir {folder}: {error.strerror}") from error
    return [status.st_dev, status.st_ino]


def read_board(message: Message) -> Board:
    """The board that a message names.

    Raises:
        ControlError: it names none.
    """
    name, workers = message.get("board"), message.get("workers")
    if not isinstance(name, str) or "/" in name or not isinstance(workers, int) or workers < 1:
        raise ControlError(str(message.get("error", f"a message without a board: {message}")))
    return Board(name, workers)

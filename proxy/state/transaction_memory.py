"""The memory in which one worker tells the others what the primary's log says: a mapped file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.state import shared_file
from proxy.state.shared_names import PLAIN
from routing.servers import transaction_ring

if TYPE_CHECKING:
    from pathlib import Path


def make(folder: Path, name: str = PLAIN.tables) -> None:
    """Make the file anew, before any worker starts; an earlier proxy's workers keep theirs.

    Raises:
        StateError: it cannot be made.
    """
    with shared_file.made(folder / name, transaction_ring.SIZE):
        pass  # a ring that is all zeros is empty


def mapped(folder: Path, name: str = PLAIN.tables) -> memoryview:
    """The memory, which stays mapped until the process ends; `make` was called for it.

    Raises:
        StateError: there is no such file.
    """
    return memoryview(shared_file.mapped(folder / name))

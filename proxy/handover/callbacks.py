"""What the first process of a proxy does in a hand-over, beside its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.listening_sockets import OpenSocket


@dataclass(frozen=True, slots=True)
class HandOverCallbacks:
    """The functions of the first process that a hand-over calls.

    Attributes:
        sockets: gives the listening sockets, those for metrics included.
        on_accept: called when this process accepts the clients in its predecessor's place.
        on_leave: called with the process that does so in this one's place.
        stopping: says whether this process stops.
        environment_of: gives the variables, as NAME=VALUE, by which that process can talk to the
            service manager in this one's place.
    """

    sockets: Callable[[], list[OpenSocket]]
    on_accept: Callable[[], None]
    on_leave: Callable[[int], None]
    stopping: Callable[[], bool]
    environment_of: Callable[[int], Sequence[str]]

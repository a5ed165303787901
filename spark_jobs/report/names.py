"""Shortens long names of servers so that they stay different."""

import re
from collections.abc import Iterable
from typing import Final

ROOM: Final = 24
_PORT: Final = re.compile(r"(:[0-9]{1,5})?\Z")


def shorten(names: Iterable[str], room: int = ROOM) -> dict[str, str]:
    """Cut long names in the middle: of the host's own name both ends stay, and the port.

    Where this would make two names equal, all are cut less.

    Args:
        names: what stands beside each other.
        room: how many characters a name may have, if they are enough.

    Returns:
        For each name what to show.
    """
    different = set(names)
    longest = max(map(len, different), default=0)
    for most in range(room, longest):
        short = {name: _cut(name, most) for name in different}
        if len(set(short.values())) == len(different):
            return short
    return {name: name for name in different}


def _cut(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    port = _PORT.search(name)
    end = port[0] if port else ""
    label, dot, domain = name.removesuffix(end).partition(".")
    room -= len(end) + 1
    if dot and len(label) <= room:
        return f"{label}…{domain[len(domain) - room + len(label) :]}{end}"
    if dot:
        end, room = f"…{end}", room - 1
    head = max(1, room // 2)
    tail = max(1, room - head)
    return f"{label[:head]}…{label[-tail:]}{end}"

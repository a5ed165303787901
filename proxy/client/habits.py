"""What the clients of a host negotiate, so that one can be greeted for a connection that fits.

The primary's connection must have its client's capabilities, which the client tells only behind the
greeting, and the greeting tells the connection's id. Applications of one host mostly log in alike.
Where they do not, a guess leaves some with an id that is not their connection's: so nothing is
expected before several have come one after the other that were alike.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from protocol.constants import Capability

ALIKE: Final = 4
"""Clients in a row of which the next one is expected to be another."""
_MOST: Final = 1024


class Habits:
    """Those of the hosts that clients of one worker came from; the least recent go first."""

    def __init__(self, most: int = _MOST) -> None:
        """Remember at most so many."""
        self._most = most
        self._hosts: OrderedDict[str, tuple[Capability, int, str]] = OrderedDict()

    def expected(self, where: str) -> tuple[Capability, str] | None:
        """What the next client will most likely negotiate, and perhaps its user's name.

        None if nobody can tell. `where` names the host, and the address that it comes to.
        """
        found = self._hosts.get(where)
        return (found[0], found[2]) if found is not None and found[1] >= ALIKE else None

    def saw(self, where: str, capabilities: Capability, username: str) -> None:
        """A client of that host has negotiated these, and logs in by this name."""
        found = self._hosts.get(where)
        alike = found[1] + 1 if found is not None and found[0] == capabilities else 1
        self._hosts[where] = capabilities, alike, username
        self._hosts.move_to_end(where)
        if len(self._hosts) > self._most:
            self._hosts.popitem(last=False)

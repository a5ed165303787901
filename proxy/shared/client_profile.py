"""What the clients of a host negotiate, so that one can be greeted for a connection that fits.

The primary's connection must have its client's capabilities, which the client tells only after the
greeting, but the greeting already has the connection's id. Applications on one host mostly log in
alike. Where they do not, a wrong guess leaves a client with an id that is not its connection's. So
nothing is expected before several clients in a row were alike.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from protocol.constants import Capability

ALIKE: Final = 4
"""After so many like clients in a row the next one is expected to be like them."""
_MOST: Final = 1024
_LONGEST_USER: Final = 96
"""Of a name, characters; a longer one, which no server lets in, is not remembered."""


class ClientProfile:
    """The habits of the hosts of one worker's clients; the oldest are forgotten first."""

    def __init__(self, most: int = _MOST) -> None:
        """Remember at most so many."""
        self._most = most
        self._hosts: OrderedDict[str, tuple[Capability, int, str]] = OrderedDict()

    def prediction(self, where: str) -> tuple[Capability, str] | None:
        """What the next client will most likely negotiate, and perhaps its user's name.

        None if nobody can tell. `where` names the host, and the address that it comes to.
        """
        found = self._hosts.get(where)
        return (found[0], found[2]) if found is not None and found[1] >= ALIKE else None

    def saw(self, where: str, capabilities: Capability, username: str) -> None:
        """A client of that host has negotiated these, and logs in by this name."""
        found = self._hosts.get(where)
        alike = found[1] + 1 if found is not None and found[0] == capabilities else 1
        self._hosts[where] = capabilities, alike, username[:_LONGEST_USER]
        self._hosts.move_to_end(where)
        if len(self._hosts) > self._most:
            self._hosts.popitem(last=False)

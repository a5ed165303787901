"""What a server's host name leads to, by the resolver's answers; pure.

Theory of operation
===================

A name can lead to several addresses, in every order, and an answer may leave some of them out:
round robin DNS, IPv4 beside IPv6, the reader endpoint of a managed service. A server is one of
them: so the address that took the first connection is `current`, and stays so for as long as
connections can be made to it and the name leads to it.

That an answer leaves the current address out says little where answers rotate. So an address is
gone when several answers in a row have left it out. Where answers change again and again, that
takes more of them: as many as suffice for what was left out before and came back. A name that
moved, and moved back, has changed twice, and is no such name.
"""

from collections import deque
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

_FEWEST: Final = 3
"""So many answers in a row leave out an address that is gone."""
_MOST: Final = 30
"""So many are enough in any case."""
_LONGER: Final = 3
"""How many times as long as an address was left out before, one has to be left out."""
_WINDOW: Final = 60
_CHANGES: Final = 4
"""So many of the last `_WINDOW` answers differ from the one before where answers rotate."""
_MOST_ADDRESSES: Final = 32


class HostAddresses:
    """The addresses of one host.

    Attributes:
        host: its name, or its address.
        fixed: it is an address, and is never looked up.
        answer: the newest answer, in its order.
        current: the address that connections lead to; empty before the first connection, and when
            that address is gone.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.fixed = _is_address(host)
        self.answer: tuple[str, ...] = (host,) if self.fixed else ()
        self.current = host if self.fixed else ""
        self._left_out: dict[str, int] = {}  # by how many answers in a row, up to now
        self._longest = 0  # how many left out an address that came back
        self._answers = 0
        self._changes: deque[int] = deque()  # the numbers of answers unlike the one before

    @property
    def rotates(self) -> bool:
        """Whether answers change again and again."""
        return len(self._changes) >= _CHANGES

    @property
    def patience(self) -> int:
        """How many answers in a row leave out an address that is gone."""
        return min(_MOST, max(_FEWEST, _LONGER * self._longest)) if self.rotates else _FEWEST

    @property
    def candidates(self) -> list[str]:
        """The addresses to connect to, in the order in which they are to be tried."""
        others = [address for address in self.answer if address != self.current]
        return [self.current, *others] if self.current else others

    def leads_to(self, address: str) -> bool:
        """Whether a connection to this address leads to the server."""
        return address == self.current if self.current else address in self.answer

    def use(self, address: str, former: str) -> None:
        """A connection was made to this one; those before it could not be reached.

        Args:
            address: where it leads.
            former: what was current when it began. If another one is by now, that one stays: of two
                connections that end elsewhere, one only can lead to the server.
        """
        if self.current == former:
            self.current = address

    def add(self, answer: Iterable[str]) -> str:
        """Take an answer of the resolver, which is not empty.

        Returns:
            The address that was current, if it is gone; else an empty text.
        """
        before = frozenset(self.answer)
        self.answer = tuple(dict.fromkeys(answer))[:_MOST_ADDRESSES]
        self._count(before, frozenset(self.answer))
        current = self.current
        if not current or self._left_out[current] < self.patience:
            return ""
        self.current = ""
        return current

    def _count(self, before: frozenset[str], present: frozenset[str]) -> None:
        """Count the changes, and for each address met lately the answers that left it out."""
        self._answers += 1
        if before and before != present:
            self._changes.append(self._answers)
        while self._changes and self._changes[0] <= self._answers - _WINDOW:
            self._changes.popleft()
        if not self._changes:
            self._longest = 0
        left_out = self._left_out
        if self.current:
            left_out.setdefault(self.current, 0)
        for address, times in list(left_out.items()):
            if address in present:
                self._longest = max(self._longest, times)
            elif times < _MOST:
                left_out[address] = times + 1
            else:
                del left_out[address]
        left_out.update(dict.fromkeys(present, 0))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True

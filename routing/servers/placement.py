"""Which servers a session's reads ask first: near ones before others, and by weight among equals.

Servers are in tiers: those of the proxy's own zone, then the others, and last those of weight 0,
the near ones first. Where the proxy has no zone, all are near. Sessions are numbered. In a tier the
number's place in a cycle says who is asked first; there each server occurs as often as its weight
says, evenly spread (as in nginx's smooth weighted round robin). Who is asked next is chosen by the
rest of the number, again by weight: so what a server that is down leaves is spread by weight, too.

A session keeps to its order. It says nothing about what a read must see: that is for the policy
(`routing.policy`), which takes the first server that is fit.
"""

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final, Generic, NamedTuple, Protocol, TypeVar


class Place(NamedTuple):
    """Where a server is, and its share.

    Attributes:
        weight: its share of reads beside the others' weights; 0: only if there is no other.
        zone: its zone; empty if it has none.
    """

    weight: int = 1
    zone: str = ""


ANYWHERE: Final = Place()
MOST_WEIGHT: Final = 1000

_MOST_ORDERS: Final = 1 << 16
"""Sessions share so many orders, unless there are more servers' shares to be told apart."""


class Placed(Protocol):
    """A server that has a place."""

    name: str
    tier: int


S = TypeVar("S", bound=Placed)
T = TypeVar("T")


class Placement(Generic[S]):
    """The orders in which sessions ask the servers.

    Attributes:
        zone: the proxy's own; empty if it has none.
    """

    def __init__(self, zone: str, places: Mapping[str, Place], *, with_primary: bool) -> None:
        """Begin without servers.

        Args:
            zone: the proxy's own.
            places: those of the servers that have one, by ``host:port``.
            with_primary: the primary takes its share of reads.
        """
        self.zone = zone
        self._places = places
        self._with_primary = with_primary
        self._tiers: list[_Tier[S]] = []
        self._period = 1
        self._primary: S | None = None
        self._orders: dict[int, list[S]] = {}

    def arrange(self, primary: S, replicas: Sequence[S]) -> None:
        """These are the servers now."""
        tiers: dict[int, list[S]] = {}
        for server in (*replicas, primary) if self._with_primary else replicas:
            server.tier = self._tier_of(server.name)
            tiers.setdefault(server.tier, []).append(server)
        self._primary = primary
        self._tiers = [
            _Tier(tiers[tier], [self._place_of(server.name).weight for server in tiers[tier]])
            for tier in sorted(tiers)
        ]
        most = len(self._tiers[0].cycle) if self._tiers else 1
        self._period = most * max(1, _MOST_ORDERS // most)
        self._orders = {}

    def order(self, number: int) -> list[S]:
        """The replicas in the order in which the session of this number asks them."""
        order = self._order(number)
        primary = self._primary
        if order and order[0] is primary:
            return order[1:]
        return order

    def prefers_primary(self, number: int) -> bool:
        """Whether the reads of the session of this number are the primary's share."""
        if not self._with_primary:
            return False
        order = self._order(number)
        return bool(order) and order[0] is self._primary

    def _order(self, number: int) -> list[S]:
        """That of `order`, with the primary in front if it is the first of all."""
        number %= self._period
        found = self._orders.get(number)
        if found is None:
            order = [server for tier in self._tiers for server in tier.order(number)]
            primary = self._primary
            found = [server for k, server in enumerate(order) if not k or server is not primary]
            self._orders[number] = found
        return found

    def _tier_of(self, name: str) -> int:
        place = self._place_of(name)
        far = bool(self.zone) and place.zone != self.zone
        return far + (0 if place.weight else 2)

    def _place_of(self, name: str) -> Place:
        return self._places.get(name, ANYWHERE)


class _Tier(Generic[T]):
    """Servers that are as good as each other, but for their weights."""

    def __init__(self, servers: Sequence[T], weights: Sequence[int]) -> None:
        self.cycle = cycle(servers, weights)
        self._shares = list(zip(servers, shares(weights), strict=True))

    def order(self, number: int) -> list[T]:
        """All of them, as the number says."""
        number, at = divmod(number, len(self.cycle))
        order = [self.cycle[at]]
        left = [entry for entry in self._shares if entry[0] is not order[0]]
        while left:
            number, at = divmod(number, sum(share for _, share in left))
            chosen = 0
            while at >= left[chosen][1]:
                at -= left[chosen][1]
                chosen += 1
            order.append(left.pop(chosen)[0])
        return order


def cycle(servers: Sequence[T], weights: Sequence[int]) -> list[T]:
    """Each server as often as its weight says, evenly spread; those of weight 0 once each."""
    parts = shares(weights)
    total = sum(parts)
    credit = [0] * len(servers)
    found: list[T] = []
    for _ in range(total):
        credit = [have + part for have, part in zip(credit, parts, strict=True)]
        best = credit.index(max(credit))
        credit[best] -= total
        found.append(servers[best])
    return found


def shares(weights: Sequence[int]) -> list[int]:
    """The same proportions in the smallest numbers; 1 for a weight of 0."""
    return [weight // (gcd(*weights) or 1) or 1 for weight in weights]

"""Whether a read waits on a replica, or runs on the primary: the rule of ``wait-budget = auto``."""

from typing import Final

_GAIN: Final = 1 / 64
_HALF: Final = 0.5
LEAST_SHARE: Final = 1 / 512
"""So much of the running share each way keeps: about one of 150 reads goes where it seems dearer,
so that the figures are renewed. It is less than one of 100, so the p99 is not made by these."""


SHORT_S: Final = 0.002
"""Replicas that answer within this time keep half of the reads, however fast the primary is."""


def is_worth_waiting(on_replica: float, on_primary: float, share: float) -> bool:
    """Whether to wait on a replica: if that ends no later than on the primary, load included.

    A read on the primary costs the time that its answer takes, and what it takes from others there,
    who have no other server. That is counted in answer times, by the odds that such a read goes to
    the primary: nothing while none does, one more answer time where it has half of them, and
    without a bound where it has nearly all. So the read waits if ::

        on_replica <= on_primary * (1 + share / (1 - share))

    Where the same reads come again and again, both sides then come to cost the same, and replicas
    are given reads in proportion to how fast they answer: all if a replica answers as soon as the
    primary, half if it takes twice as long, one of a hundred if it takes a hundred times as long.
    But while a replica answers within `SHORT_S`, no more than half of the reads leave it: so small
    a gain is not worth all of the load.

    A share below `LEAST_SHARE`, of either, is raised whatever it costs: what nobody tries, nobody
    measures. How many reads the primary is given in all, `Topology.primary_rate_limit` limits.

    Args:
        on_replica: how long the answer would take there with its WAIT, s.
        on_primary: how long it would take there, s.
        share: the primary's part of the reads that could wait, of late, from 0 to 1.
    """
    if share < LEAST_SHARE or share > 1 - LEAST_SHARE:
        return share > LEAST_SHARE
    if share >= _HALF and on_replica <= SHORT_S:
        return True
    return on_replica <= on_primary * (1 + share / (1 - share))


class PrimaryShare:
    """The primary's part, of late, of the reads that could wait on a replica.

    Attributes:
        share: from 0 to 1.
    """

    def __init__(self) -> None:
        """None was there: as if it had had half of them."""
        self.share = _HALF

    def add(self, on_primary: bool) -> None:
        """A read went to the primary, or waits on a replica."""
        self.share += ((1.0 if on_primary else 0.0) - self.share) * _GAIN

"""Levels and scopes by name, as the routing log writes them."""

from typing import Final

OWN_LEVELS: Final = ("READ_OWN_WRITES",)
"""Levels whose reads must see what was written in their scope."""

SEEN_LEVELS: Final = ("MONOTONIC_READS", "READ_ALL_WRITES")
"""Levels whose reads must see what was written or seen in their scope."""

CLUSTER_LEVELS: Final = ("STRONG", "BOUNDED_STALENESS")
"""Levels whose reads must see what anybody committed, whatever their scope is."""

PROMISES: Final = (*OWN_LEVELS, *SEEN_LEVELS, *CLUSTER_LEVELS)
LEVELS: Final = ("BEST_EFFORT", *PROMISES)
SCOPES: Final = ("connection", "user", "application", "proxy")

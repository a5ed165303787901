"""What one read must see, and by which rules."""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Level
from routing.consistency.rules import REMEMBERING, Rules
from routing.consistency.scope import ScopeState
from routing.servers.topology import Server

# Members of enums, looked up once.
_BOUNDED: Final = Level.BOUNDED_STALENESS
_STRONG: Final = Level.STRONG


class Requirement:
    """What a read must see, as far as that is known.

    Attributes:
        rules: what the read asks for.
        scope: the one that it reads in; None at BEST_EFFORT, or while that was not looked up.
        gtids: what it must see; None while only the primary can tell.
        probed: what the primary had, asked after the read had arrived; at STRONG, and at a level
            that remembers what was seen, with what it was committing.
    """

    def __init__(
        self,
        rules: Rules,
        scope: ScopeState | None = None,
        gtids: GtidSet | None = EMPTY,
        probed: GtidSet | None = None,
    ) -> None:
        self.rules = rules
        self.scope = scope
        self.gtids = gtids
        self.probed = probed

    @property
    def seen_on(self) -> Server | None:
        """The replica whose later states are no older than what was seen; None if any may answer.

        What another one shows may be older, and nothing tells by how much.
        """
        scope = self.scope
        if scope is None or self.probed is not None or self.rules.level not in REMEMBERING:
            return None
        return scope.seen_on

    @property
    def relies(self) -> bool:
        """Whether the read relies on what its replica has proved.

        Any state will do for one that need not see anything and follows no other.
        """
        return bool(self.gtids) or self.rules.level in REMEMBERING

    def since(self, now: float) -> float:
        """When the newest of what it must see was acknowledged, monotonic, s."""
        rules, scope = self.rules, self.scope
        if rules.level is _BOUNDED:
            return now - rules.staleness
        return now if rules.level is _STRONG or scope is None else scope.changed_at

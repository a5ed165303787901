"""What a read's scope required when the primary was asked what it has: the answer is about that."""

from typing import Final

from protocol.gtid import GtidSet
from routing.consistency.scope import ScopeState


class PendingProbe:
    """One question to the primary.

    Attributes:
        term: the primary's term when it was asked.
    """

    def __init__(self, scope: ScopeState, term: int) -> None:
        self.term: Final = term
        self._gtids: Final = scope.everything
        self._doubts: Final = scope.doubts
        self._doubted: Final = scope.doubted

    def on_answer(self, scope: ScopeState, executed: GtidSet, owned: GtidSet) -> GtidSet | None:
        """Let the scope know what the primary has and is committing.

        Returns:
            Acknowledged GTIDs that are gone, where the scope was not compared in this term yet.
        """
        lost: GtidSet | None = None
        if scope.term != self.term:
            lost = scope.compare_with_primary(
                executed | owned, self._gtids, self.term, self._doubted
            )
        scope.on_probe(executed, self._doubts, owned)
        return lost

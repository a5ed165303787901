"""What reads ask for."""

from typing import Final, Literal

from routing.consistency.decision import (
    ConflictPolicy,
    Level,
    Scope,
    TimeoutPolicy,
    TransactionReads,
)

REMEMBERING: Final = (Level.MONOTONIC_READS, Level.READ_ALL_WRITES)
"""Levels at which a read must not be older than what was seen before."""

CURRENT: Final = (Level.STRONG, Level.BOUNDED_STALENESS)
"""Levels at which a read asks for what was committed up to now, or up to a moment ago."""

OF_SCOPE: Final = (Level.READ_OWN_WRITES, *REMEMBERING)
"""Levels at which the scope says what a read must see."""


WaitBudget = float | Literal["auto"]
"""How long a read may wait for a replica: seconds, or as long as that is worth."""

AUTO: Final = "auto"
LONGEST_AUTO_S: Final = 0.25
"""How long a read may wait at ``wait-budget = auto``: what was worth waiting for may not come."""


def longest_wait(budget: WaitBudget) -> float:
    """How long a read with this budget may wait at most, s."""
    return LONGEST_AUTO_S if isinstance(budget, str) else budget


def written_budget(budget: WaitBudget) -> str:
    """Write a budget as it is set: ``250ms`` or ``auto``."""
    return AUTO if isinstance(budget, str) else f"{budget * 1000:g}ms"


class TransactionRules:
    """How transactions read that may still write; never changed.

    Attributes:
        reads: where.
        on_split_conflict: what a read gets after the first write, if it may show another state than
            those before.
    """

    def __init__(
        self,
        reads: TransactionReads = TransactionReads.SPLIT,
        on_split_conflict: ConflictPolicy = ConflictPolicy.ERROR,
    ) -> None:
        self.reads: Final = reads
        self.on_split_conflict: Final = on_split_conflict


_SPLIT: Final = TransactionRules()


class Rules:
    """Level, scope, budget and policies; never changed. Equal where all of them are.

    Attributes:
        level: the consistency level of its reads.
        scope: whose writes count as its own.
        budget: how long a read may wait for a replica, as it was set.
        wait_budget: the same in seconds; at `auto` the longest time.
        is_auto: a read waits only where that is worth it (`primary_share.is_worth_waiting`).
        on_timeout: what a read gets whose budget ran out.
        staleness: of BOUNDED_STALENESS: how old a state may be, seconds.
        application: key of the scope `application`; empty if none was given.
        transactions: how a transaction reads that may still write.
        transaction_reads: where it does, likewise `on_split_conflict`.
        on_split_conflict: see `TransactionRules`.
    """

    def __init__(
        self,
        level: Level,
        scope: Scope,
        wait_budget: WaitBudget,
        on_timeout: TimeoutPolicy,
        staleness: float = 0.0,
        application: str = "",
        transactions: TransactionRules = _SPLIT,
    ) -> None:
        self.level: Final = level
        self.scope: Final = scope
        self.budget: Final = wait_budget
        self.wait_budget: Final = longest_wait(wait_budget)
        self.is_auto: Final = wait_budget == AUTO
        self.on_timeout: Final = on_timeout
        self.staleness: Final = staleness
        self.application: Final = application
        self.transactions: Final = transactions
        self.transaction_reads: Final = transactions.reads
        self.on_split_conflict: Final = transactions.on_split_conflict

    def __eq__(self, other: object) -> bool:
        """Whether both ask for the same."""
        return isinstance(other, Rules) and self._all == other._all

    def __hash__(self) -> int:
        """Agrees with equality."""
        return hash(self._all)

    def __repr__(self) -> str:
        """All of it."""
        return f"Rules{self._all}"

    @property
    def _all(self) -> tuple[object, ...]:
        return (
            *(self.level, self.scope, self.budget, self.on_timeout, self.staleness),
            *(self.application, self.transaction_reads, self.on_split_conflict),
        )

    @property
    def consistency(self) -> str:
        """The level as it is written, with its bound."""
        if self.level is Level.BOUNDED_STALENESS:
            milliseconds = f"{self.staleness * 1000:.6f}".rstrip("0").rstrip(".")
            return f"{self.level}({milliseconds}ms)"
        return str(self.level)

    @property
    def tracking(self) -> str:
        """The value of session_track_gtids that reads under these rules need (WL#6972).

        In a shared scope all sessions must know what each wrote, whatever level that session has.
        """
        if self.level in REMEMBERING:
            return "ALL_GTIDS"
        if self.level in (Level.READ_OWN_WRITES, Level.STRONG):
            return "OWN_GTID"
        return "OFF" if self.scope is Scope.CONNECTION else "OWN_GTID"


class StatementRules(Rules):
    """Rules that one statement asks for itself, whatever its session does."""

    def __init__(self, rules: Rules) -> None:
        """These rules, for one statement."""
        super().__init__(
            rules.level,
            rules.scope,
            rules.budget,
            rules.on_timeout,
            rules.staleness,
            rules.application,
            rules.transactions,
        )

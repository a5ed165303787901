"""What a read of certain tables need not wait for, of what it must see."""

from typing import Final

from protocol.gtid import GtidSet
from routing.servers.transaction_tables import TableName


class Independence:
    """A read does not depend on some of what it must see; `TransactionTables` has the rule.

    Attributes:
        required: what the read must see.
        remaining: what of that its answer depends on; that is what its server has to have.
        known: what its server was known to have when that was found.
        tables: the base tables that its answer may depend on.
    """

    def __init__(
        self,
        required: GtidSet,
        remaining: GtidSet,
        known: GtidSet,
        tables: frozenset[TableName],
    ) -> None:
        self.required: Final = required
        self.remaining: Final = remaining
        self.known: Final = known
        self.tables: Final = tables

    @property
    def left_out(self) -> GtidSet:
        """The transactions that changed none of the tables."""
        return self.required - self.remaining

"""Mutants of the rule for independent reads: in each of them a premise is not looked at."""

from collections.abc import Iterable, Mapping
from typing import Final

from protocol.gtid import EMPTY, Gtid, GtidSet
from routing.servers.topology import Server, Topology
from routing.servers.transaction_tables import TableName, TransactionTables
from routing.session.known_tables import KnownTables
from routing.sql import table_meanings
from routing.sql.table_meanings import BaseTables
from routing.sql.table_references import Name

_still_required: Final = TransactionTables.still_required
_add_rows: Final = TransactionTables.add_rows
_under: Final = table_meanings._under


def _not_read(
    self: TransactionTables, required: GtidSet, applied: GtidSet, tables: frozenset[TableName]
) -> GtidSet:
    """Premise 1: what the log has not shown yet changes nothing."""
    if not self.begun:
        return required
    return _still_required(self, required & self.read_through, applied, tables)


def _any_tables(
    self: TransactionTables, required: GtidSet, applied: GtidSet, tables: frozenset[TableName]
) -> GtidSet:
    """Premise 2: which tables a transaction changed does not matter."""
    return _still_required(self, required, applied, frozenset())


def _rows_alone(self: TransactionTables, gtid: Gtid) -> None:
    """Premise 2: whatever is no change of rows changes nothing."""
    _add_rows(self, gtid, frozenset())


def _in_any_order(self: Topology, server: Server) -> bool:
    """Premise 3: the replica commits in any order."""
    return not self.group


def _without_definitions(
    self: TransactionTables, required: GtidSet, applied: GtidSet, tables: frozenset[TableName]
) -> GtidSet:
    """Premise 4: replicas need not have the definitions that the log shows."""
    base, self._base = self._base, EMPTY
    try:
        return _still_required(self, required, applied, tables)
    finally:
        self._base = base


def _forever(self: KnownTables, log: TransactionTables, topology: Topology) -> bool:
    """Names keep the meaning that they had when they were asked for."""
    return self._executed is not None


def _ahead(self: KnownTables, log: TransactionTables, topology: Topology) -> bool:
    """The answer about names may show definitions that the log does not show yet."""
    return self._executed is not None and log.definitions_stand(self._executed)


def _without_parents(
    name: Name, further: Mapping[Name, Iterable[Name]], found: Mapping[Name, BaseTables | None]
) -> BaseTables | None:
    """Premise 2: a change of a parent does not change its children."""
    return _under(name, {view: further[view] for view in further.keys() - found.keys()}, found)


MUTANTS: Final[dict[str, tuple[object, str, object]]] = {
    "not read": (TransactionTables, "still_required", _not_read),
    "any tables": (TransactionTables, "still_required", _any_tables),
    "rows alone": (TransactionTables, "add_opaque", _rows_alone),
    "without parents": (table_meanings, "_under", _without_parents),
    "in any order": (Topology, "follows_in_order", _in_any_order),
    "without definitions": (TransactionTables, "still_required", _without_definitions),
    "names for ever": (KnownTables, "_counts", _forever),
    "names ahead of the log": (KnownTables, "_counts", _ahead),
}
"""By name: what is replaced, and by what."""

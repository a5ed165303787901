"""What the names of tables mean to the account of a session, and as of when that is known."""

from protocol.gtid import GtidSet
from routing.servers.topology import Topology
from routing.sql.table_meanings import NOTHING_KNOWN, BaseTables, TableMeanings
from routing.sql.table_references import TableNames


class KnownTables:
    """What the primary said of the tables and views that an account sees.

    It is asked by sessions, and used while the primary's log, read through all that the primary had
    then, shows no transaction since that may have defined anything.

    Attributes:
        outdated: it is not, and would be if the primary were asked now.
    """

    def __init__(self) -> None:
        """Nothing is known."""
        self.outdated = False
        self._meanings = NOTHING_KNOWN
        self._executed: GtidSet | None = None  # what the primary had before it was asked, or more
        self._term = 0
        self._version: int | None = None  # of the log, in which it stands
        # The last names that were looked up, and what they mean.
        self._names: TableNames | None = None
        self._schema = ""
        self._tables: BaseTables | None = None

    def take(self, meanings: TableMeanings, executed: GtidSet | None, term: int) -> None:
        """Take what the primary said.

        Args:
            meanings: of all names.
            executed: transactions whose effects the answer shows, whatever else it shows; None if
                nobody can tell.
            term: the primary's (`Topology.term`).
        """
        self._meanings = meanings
        self._executed = executed
        self._term = term
        self._version = self._names = None
        self.outdated = False

    def base_tables(self, names: TableNames, schema: str, topology: Topology) -> BaseTables | None:
        """The base tables that a query may read; None if they are not certain.

        Args:
            names: those in the query.
            schema: the default schema.
            topology: the servers.
        """
        if not self._stands(topology):
            return None
        if names is not self._names or schema != self._schema:
            self._tables = self._meanings.base_tables(names, schema)
            self._names, self._schema = names, schema
        return self._tables

    def _stands(self, topology: Topology) -> bool:
        """Whether no name has another meaning since, as far as the primary's log is read."""
        log, executed = topology.current_tables, self._executed
        if log is None:
            return False
        same = executed is not None and self._term == topology.term
        if same and self._version == log.version:
            return True
        if same and executed is not None and log.definitions_stand(executed):
            self._version = log.version
            return True
        self.outdated = log.definitions_stand(topology.primary.applied)
        return False

"""What the names of tables mean to the account of a session, and as of when that is known."""

from protocol.gtid import GtidSet
from routing.servers.topology import Topology
from routing.servers.transaction_tables import TransactionTables
from routing.sql.table_meanings import NOTHING_KNOWN, BaseTables, TableMeanings
from routing.sql.table_references import TableNames


class KnownTables:
    """What the primary said of the tables and views that an account sees.

    It is asked by sessions. Its answer shows all definitions that it was known to have before, and
    may show newer ones. It is used while the primary's log

    - is read through whatever the answer may show: else a replica may lack a definition that the
      answer has and the log does not show, and read by an older one;
    - shows no transaction since that may have defined anything.

    What the answer may show is bounded by a later look at the primary (`Observations.bound`). Where
    it is the same as the answer before, that one goes on being used, as long as the log allows.

    Attributes:
        outdated: something may have been defined since, which an answer of now would show.
    """

    def __init__(self) -> None:
        """Nothing is known."""
        self.outdated = False
        self._meanings = NOTHING_KNOWN
        self._executed: GtidSet | None = None  # what the primary had before it was asked, or more
        self._look = 0  # at the primary, the last that had begun when it had answered
        self._term = 0
        self._version: int | None = None  # of the log, in which it counts, or an equal one before
        # The last names that were looked up, and what they mean.
        self._names: TableNames | None = None
        self._schema = ""
        self._tables: BaseTables | None = None

    def take(self, meanings: TableMeanings, executed: GtidSet | None, look: int, term: int) -> None:
        """Take what the primary said.

        Args:
            meanings: of all names.
            executed: transactions whose effects the answer shows, whatever else it shows; None if
                nobody can tell.
            look: how many looks at the primary had begun by then (`Observations.looks`).
            term: the primary's (`Topology.term`).
        """
        if meanings is not self._meanings or term != self._term:
            self._version = self._names = None
        self._meanings = meanings
        self._executed = executed
        self._look = look
        self._term = term
        self.outdated = False

    def base_tables(self, names: TableNames, schema: str, topology: Topology) -> BaseTables | None:
        """The base tables that a query may read; None if they are not certain.

        Args:
            names: those in the query.
            schema: the default schema.
            topology: the servers.
        """
        log = topology.current_tables
        if log is None or not self._counts(log, topology):
            return None
        if names is not self._names or schema != self._schema:
            self._tables = self._meanings.base_tables(names, schema)
            self._names, self._schema = names, schema
        return self._tables

    def _counts(self, log: TransactionTables, topology: Topology) -> bool:
        """Whether no name has another meaning, as far as the primary's log is read."""
        executed, is_primary = self._executed, self._term == topology.term
        if is_primary and self._version == log.version:
            return True
        if executed is None or not is_primary or not log.definitions_stand(executed):
            self.outdated = log.definitions_stand(topology.primary.applied)
            return False
        bound = topology.observations.bound
        if bound is None or bound.look <= self._look or not log.read_through.covers(bound.gtids):
            return False
        self._version = log.version
        return True

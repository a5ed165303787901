"""The primary's binary log as it comes, entered into `TransactionTables`."""

from protocol.binlog.changed_tables import LONGEST, ChangeReader, Changes
from protocol.binlog.decode import decode
from protocol.binlog.event import Event, EventType
from protocol.binlog.event_stream import EventStream
from protocol.errors import MalformedBinlogError
from protocol.gtid import GtidSet
from routing.servers.transaction_tables import TableName, TransactionTables


class TransactionLog:
    """Takes the answer to COM_BINLOG_DUMP_GTID; `tables` begin when the log does.

    Args:
        tables: what is entered into.
        term: the primary and its incarnation.
        start: the transactions that were left out of the request.
        lower_case_table_names: the primary's.

    Attributes:
        events: the events of the answer.
    """

    def __init__(
        self, tables: TransactionTables, term: int, start: GtidSet, lower_case_table_names: int
    ) -> None:
        self.events = EventStream(LONGEST)
        self._tables = tables
        self._term = term
        self._start = start
        self._lower_case_table_names = lower_case_table_names
        self._changes = ChangeReader()
        self._begun = False

    def receive_data(self, data: bytes) -> None:
        """Takes the server's next bytes.

        Raises:
            MalformedBinlogError: they are malformed, or not what follows what came before.
            MalformedPacketError: an ERR packet is malformed.
        """
        found = self.events.receive_data(data)
        if not self._begun and self.events.begun:
            self._begun = True
            self._tables.begin(self._term, self._start, self._lower_case_table_names)
        for event in found:
            if event.type == EventType.PREVIOUS_GTIDS and isinstance(event, Event):
                self._take_previous(event)
            changes = self._changes.take(event)
            if changes is not None:
                self._enter(changes)

    def _take_previous(self, event: Event) -> None:
        """A file begins, and says which transactions come before it."""
        previous = decode(event)
        if not isinstance(previous, GtidSet) or not self._tables.read_through.covers(previous):
            raise MalformedBinlogError(event.position, "transactions before it were not read")

    def _enter(self, changes: Changes) -> None:
        try:
            if changes.tables is None:
                self._tables.add_opaque(changes.gtid)
            else:
                names = frozenset([TableName(schema, table) for schema, table in changes.tables])
                self._tables.add_rows(changes.gtid, names)
        except ValueError as error:
            raise MalformedBinlogError(0, str(error)) from error

"""Which tables each recent transaction of the primary changed, as its binary log says.

The log is no proof of what a server has (facts 2.5): it says what a transaction touched, and so
which transactions cannot change the answer of a read. `TransactionTables.still_required` has the
rule; `proxy.monitor.transaction_follower` reads the log.

Numbers are kept as flat boundaries, as in `protocol.gtid_intervals`, but in lists, which grow at
their end: by TSID those of transactions that only changed rows, and by table those that changed it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from protocol.gtid import EMPTY, Gtid, GtidSet
from protocol.gtid_intervals import END_OF_NUMBERS, FIRST_NUMBER

_INTERVAL_BYTES: Final = 80  # two numbers, and the references to them
_TABLE_BYTES: Final = 400  # a list in a dict, and the table's name
_MOST_INTERVALS: Final = 256  # of sets that each read is compared with
_SERVER_SCHEMAS: Final = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
"""What is read there may change without an event that names a table."""


class TableName(NamedTuple):
    """A base table's schema and name, without quotes."""

    schema: str
    table: str


class _Source:
    """The transactions of one TSID.

    Attributes:
        rows: the numbers of those that only changed rows.
        tables: the numbers of those that changed a table.
    """

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.tables: dict[TableName, list[int]] = {}

    def memory(self) -> int:
        """The bytes that it takes, about."""
        size = len(self.rows) // 2 * _INTERVAL_BYTES
        for numbers in self.tables.values():
            size += _TABLE_BYTES + len(numbers) // 2 * _INTERVAL_BYTES
        return size

    def last_change(self, start: int, end: int, tables: list[TableName]) -> int:
        """The last number from `start` to before `end` that may have changed one of the tables.

        It is ``start - 1`` if there is none.
        """
        last = _last_outside(self.rows, start, end)
        for table in tables:
            numbers = self.tables.get(table)
            if numbers is not None:
                last = max(last, _last_inside(numbers, start, end))
        return last

    def cut(self, first: int) -> None:
        """Forget the numbers before `first`."""
        _cut(self.rows, first)
        for table in list(self.tables):
            numbers = self.tables[table]
            _cut(numbers, first)
            if not numbers:
                del self.tables[table]


class TransactionTables:
    """What the primary's log says of its transactions, from a set of them on to its end as read.

    Nobody else's state is in it: it is fed by who reads the log, and forgets everything where that
    is interrupted. Until it begins, and after that, every transaction is required of every read.

    Args:
        limit: bytes that it may take, about. Beyond it, the older half is dropped.

    Attributes:
        term: the primary and its incarnation (`Topology.term`) whose log that is; -1 before.
        version: is another whenever what names mean may have changed: a transaction came that is
            not known to have only changed rows, or the log is read from elsewhere.
        cause: why the log is not read, for people; empty while it is.
        lower_case_table_names: the primary's.
    """

    def __init__(self, limit: int) -> None:
        self.term = -1
        self.version = 0
        self.cause = "off"
        self.lower_case_table_names = 0
        self._limit = limit
        self._bytes = 0
        self._read = EMPTY
        self._base = EMPTY  # what a replica must have: what is not known, and what is no row change
        self._definitions = EMPTY  # what a definition's reader must have seen
        self._sources: dict[str, _Source] = {}

    @property
    def begun(self) -> bool:
        """Whether the log is read; if not, `still_required` leaves nothing out."""
        return self.term >= 0

    @property
    def read_through(self) -> GtidSet:
        """The transactions through which the log was read, with those where it began."""
        return self._read

    @property
    def memory(self) -> int:
        """The bytes that it takes, about."""
        return self._bytes

    def count(self) -> int:
        """How many transactions are kept with their tables."""
        total = 0
        for source in self._sources.values():
            total += sum(source.rows[1::2]) - sum(source.rows[::2])
        return total

    # What the log says

    def begin(self, term: int, read_from: GtidSet, lower_case_table_names: int) -> None:
        """The log is read from here on.

        Args:
            term: the primary and its incarnation.
            read_from: the transactions that are not read; all others will come.
            lower_case_table_names: the primary's; but for 0, names are the same in either case.
        """
        self.forget("")
        self.term = term
        self.lower_case_table_names = lower_case_table_names
        self._read = self._base = self._definitions = read_from

    def forget(self, cause: str) -> None:
        """The reading was interrupted, or what was read is not the primary's any more."""
        self.version += 1
        self.cause = cause
        self.term = -1
        self._bytes = 0
        self._read = self._base = self._definitions = EMPTY
        self._sources = {}

    def add_rows(self, gtid: Gtid, tables: frozenset[TableName]) -> None:
        """The next transaction only changed rows, of these tables.

        If one of them is the server's own, it is never left out: reads depend on these without
        naming them, such as on time zones.

        Raises:
            ValueError: this transaction had come before, or nothing has begun.
        """
        self._on_read(gtid)
        if any(name.schema.lower() in _SERVER_SCHEMAS for name in tables):
            return
        source = self._sources.get(gtid.tsid)
        if source is None:
            source = self._sources[gtid.tsid] = _Source()
        self._bytes += _add(source.rows, gtid.number)
        for name in tables:
            table = self._folded(name) if self.lower_case_table_names else name
            numbers = source.tables.get(table)
            if numbers is None:
                numbers = source.tables[table] = []
                self._bytes += _TABLE_BYTES
            self._bytes += _add(numbers, gtid.number)
        while self._bytes > self._limit:
            self._drop_older_half()

    def add_opaque(self, gtid: Gtid) -> None:
        """The next transaction may have changed anything: DDL, DCL, XA, statements, the unknown.

        Raises:
            ValueError: this transaction had come before, or nothing has begun.
        """
        self._on_read(gtid)
        self.version += 1
        added = GtidSet.of(gtid.tsid, gtid.number, gtid.number + 1)
        self._base = self._compact(self._base | added)
        self._definitions = self._compact(self._definitions | added)

    def drop(self, applied_everywhere: GtidSet) -> None:
        """Forget the tables of these transactions: every replica has them.

        A replica that comes later must have them, before anything is left out for it.
        """
        dropped = applied_everywhere & self._read
        if not self._base.covers(dropped):
            self._require_everywhere(dropped)

    # What follows

    def still_required(
        self, required: GtidSet, applied: GtidSet, tables: frozenset[TableName]
    ) -> GtidSet:
        """What a read need still wait for at a replica: `required` without what cannot matter.

        **The rule.** A read of the base tables T at a replica R need not wait for a transaction g,
        if

        1. the primary's binary log has been read through g,
        2. g only changed rows, and its events name no table of T, which has the parents of foreign
           keys that cascade to a table of T,
        3. R commits in the primary's order, and
        4. R has every transaction of that log, up to its end as read, that did more than change
           rows: DDL, DCL, XA, statements, anything unknown.

        Then R's answer is that of a state in which g's effects on T, none, are there. Row events
        name every table that changed, by triggers and views, too, or its parent (from 9.6 on mostly
        both, but for connections that were reset: docs/mysql-behaviour.md). What T means at R, and
        what cascaded when g was committed, is fixed by the DDL that R has: all that the log shows,
        by (4); DDL that the log does not show yet comes behind g in the primary's order, and if R
        has that, it has g, too, by (3).

        By (3), too, whoever has a transaction has those before it. So of each TSID only numbers
        behind the last that may matter are left out: the set stays short, and no wait gets longer.

        Args:
            required: the transactions whose effects the read must see.
            applied: what R has proved to have. That R commits in order is the caller's to know,
                and that all this is about the present primary.
            tables: T: all base tables that the answer depends on, known for certain.

        Returns:
            `required` itself if nothing is left out: each premise that does not hold has that
            effect, and so has a table of the server's own schemas.
        """
        if not self.begun:
            return required
        missing = required - applied
        compared = self._compared(tables)
        if not missing or compared is None or not applied.covers(self._base):
            return required
        left = required
        for tsid in missing.tsids:
            source = self._sources.get(tsid)
            if source is None:
                continue
            first = END_OF_NUMBERS  # from here on nothing matters
            for start, end in reversed(missing.intervals(tsid)):
                last = source.last_change(start, end, compared)
                if last == end - 1:
                    break
                first = last + 1
                if last >= start:
                    break
            if first < END_OF_NUMBERS:
                left = left - (missing & GtidSet.of(tsid, first, END_OF_NUMBERS))
        return left

    def definitions_stand(self, executed: GtidSet) -> bool:
        """Whether what names meant at the primary still holds as far as the log was read.

        Args:
            executed: its `gtid_executed`, asked before it was asked what the names mean.

        Returns:
            Whether the log was read through all of that, and has shown only changes of rows since.
            While `version` stays the same, so does a True.
        """
        return self.begun and self._read.covers(executed) and executed.covers(self._definitions)

    def _on_read(self, gtid: Gtid) -> None:
        if not self.begun or gtid in self._read:
            raise ValueError(f"transaction {gtid} was not expected here")
        self._read = self._read | GtidSet.of(gtid.tsid, gtid.number, gtid.number + 1)

    def _compared(self, tables: frozenset[TableName]) -> list[TableName] | None:
        """The names as they are compared; None if a table is one of the server's own."""
        compared: list[TableName] = []
        for name in tables:
            if name.schema.lower() in _SERVER_SCHEMAS:
                return None
            compared.append(self._folded(name) if self.lower_case_table_names else name)
        return compared

    def _folded(self, name: TableName) -> TableName:
        """A name as it is compared where letters of either case are the same.

        Servers fold letters outside ASCII by tables of their own: such names count as one.
        """
        schema, table = name
        return TableName(
            schema.lower() if schema.isascii() else "", table.lower() if table.isascii() else ""
        )

    def _compact(self, gtids: GtidSet) -> GtidSet:
        """These, or these and more of those that were read, if they have too many intervals."""
        return gtids if gtids.interval_count <= _MOST_INTERVALS else gtids.compact(self._read)

    def _drop_older_half(self) -> None:
        older = {}
        for tsid, source in self._sources.items():
            rows = source.rows
            middle = rows[0] + (rows[-1] - rows[0] + 1) // 2
            if len(rows) > 2:
                middle = rows[len(rows) // 4 * 2 - 1]
            older[tsid] = [(FIRST_NUMBER, middle)]
        self._require_everywhere(GtidSet(older) & self._read)

    def _require_everywhere(self, dropped: GtidSet) -> None:
        self._base = self._compact(self._base | dropped)
        self._bytes = 0
        for tsid in list(self._sources):
            source = self._sources[tsid]
            source.cut(_first_outside(source.rows, self._base.intervals(tsid)))
            if source.rows:
                self._bytes += source.memory()
            else:
                del self._sources[tsid]


def _add(numbers: list[int], number: int) -> int:
    """Add a number to boundaries; return how many bytes they take more, about."""
    if not numbers or number > numbers[-1]:
        numbers += (number, number + 1)
        return _INTERVAL_BYTES
    if number == numbers[-1]:
        numbers[-1] = number + 1
        return 0
    at = bisect_right(numbers, number)
    if at & 1:
        return 0  # it is there
    follows = at > 0 and numbers[at - 1] == number
    precedes = numbers[at] == number + 1
    if follows and precedes:
        del numbers[at - 1 : at + 1]
        return -_INTERVAL_BYTES
    if follows:
        numbers[at - 1] = number + 1
        return 0
    if precedes:
        numbers[at] = number
        return 0
    numbers[at:at] = (number, number + 1)
    return _INTERVAL_BYTES


def _cut(numbers: list[int], first: int) -> None:
    """Remove what is before `first` from boundaries."""
    at = bisect_right(numbers, first)
    if at & 1:
        numbers[at - 1] = first
        at -= 1
    del numbers[:at]


def _last_inside(numbers: list[int], start: int, end: int) -> int:
    """The last number from `start` to before `end` that is inside; ``start - 1`` if none is."""
    at = bisect_left(numbers, end)
    if at & 1:
        return end - 1
    return max(start, numbers[at - 1]) - 1 if at else start - 1


def _last_outside(numbers: list[int], start: int, end: int) -> int:
    """The last number from `start` to before `end` that is not inside; ``start - 1`` if all are."""
    at = bisect_left(numbers, end)
    if at & 1 == 0:
        return end - 1
    return max(start, numbers[at - 1]) - 1


def _first_outside(numbers: list[int], removed: tuple[tuple[int, int], ...]) -> int:
    """The first number inside that is in no removed interval; the end if each is in some."""
    first = numbers[0]
    for start, end in removed:
        if start > first:
            break
        if end > first:
            at = bisect_right(numbers, end)
            if at == len(numbers):
                return numbers[-1]
            first = end if at & 1 else numbers[at]
    return first

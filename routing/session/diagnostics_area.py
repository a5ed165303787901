"""A session's diagnostics area: what the next statement may ask about those before it.

Theory of operation
===================

A server has one diagnostics area for a session. Here a session has one for each of its connections,
since its statements run on several servers, and for each part only one of them is right:

* conditions: the warnings and errors that SHOW WARNINGS, GET DIAGNOSTICS, @@warning_count and
  @@error_count tell of;
* FOUND_ROWS();
* ROW_COUNT();
* the cost of the last query (SHOW STATUS LIKE 'Last_query_cost').

A server counts the rows of queries that FOUND_ROWS() does not show yet, as those of CREATE TABLE …
SELECT: a later statement without a query does (`sql.diagnostics.TAKES_COUNT`). It must then run on
that connection, which alone has the count (`counts_at`).

LAST_INSERT_ID() needs no part: only the primary ever sets it, and only the primary is asked for it.

`DiagnosticsArea` is the session's: where each part is true, and its value, as far as that is known.
A statement or command of the client's sets some parts where it runs, and keeps the others where
they are (`on_success`, `on_error`, `on_command`); the rules are those of the manual (*The
Diagnostics Area*, *Information Functions*), measured on 9.7.4 (docs/mysql-behaviour.md, *What is
left of the statement before*). `ConnectionArea` is a connection's. A statement of the proxy's own
changes parts there, which are then no longer the session's (`ConnectionArea.disturb`).

A question that does nothing else goes where the parts that it asks about are true (`target`). In
front of any other, the server that has to run it is brought into that state (`replay_for`).
"""

from typing import Final, NamedTuple

from protocol.constants import Command as Code
from protocol.packet import frame
from routing.servers.topology import Server
from routing.sql.diagnostics import (
    AFFECTS_NONE,
    CONDITIONS,
    COST,
    COUNTS_ROWS,
    FOUND_AS_SHOWN,
    FOUND_ROWS,
    MAY_COUNT_ROWS,
    MAY_FIND_ROWS,
    PARTS,
    ROW_COUNT,
    SHOWS_ROWS,
    TAKES_COUNT,
)

NOT_KNOWN: Final = -2
"""In place of FOUND_ROWS() or ROW_COUNT(): only the server knows it."""
_MOST_ROWS: Final = 100_000
"""A FOUND_ROWS() above this is not replayed: the statement itself is run again."""
_MOST_REPORTED: Final = 0xFFFF
_FEW_ROWS: Final = 1000
"""A FOUND_ROWS() up to this is replayed cheaply."""

KEEPING_CONDITIONS: Final = (
    *(Code.COM_PING, Code.COM_INIT_DB, Code.COM_SET_OPTION, Code.COM_STATISTICS, Code.COM_DEBUG),
    *(Code.COM_FIELD_LIST, Code.COM_STMT_FETCH, Code.COM_STMT_RESET),
)
"""Commands that leave the conditions as they are, and add their own error."""
TELLING_CONDITIONS: Final = (Code.COM_PING, Code.COM_INIT_DB, Code.COM_SET_OPTION)
"""Those of them whose OK tells how many the last statement raised."""
_TELLING_NONE: Final = (Code.COM_FIELD_LIST, Code.COM_STMT_FETCH, Code.COM_STMT_RESET)
"""Those after which it tells of none."""
_COUNTING_ANEW: Final = (*_TELLING_NONE, Code.COM_STMT_EXECUTE)
"""Those that tell of their own error alone, if they fail."""
_AFFECTING_NONE: Final = (Code.COM_PING, Code.COM_INIT_DB, Code.COM_STMT_RESET)
"""Those of them after which ROW_COUNT() is 0; after the others it is -1."""

CLEARING_SQL: Final = b"/* */"
"""Clears the conditions, keeps FOUND_ROWS(), and shows in no trace: ROW_COUNT() is 0."""
_CLEARING_PREPARE: Final = frame(b"\x16DO 0", 0)
"""A COM_STMT_PREPARE: it clears the conditions, and keeps all else."""
NO_ROW_COUNT_SQL: Final = b"SHOW WARNINGS LIMIT 0"
"""ROW_COUNT() is -1 after it, and all else is kept."""


def rows_sql(count: int) -> bytes:
    """A query that sets FOUND_ROWS() to this, and sends one row at most.

    FOUND_ROWS() counts the rows that an offset skips. LIMIT is stronger than the client's
    sql_select_limit, and the hints than what else a client may have set. None of these begins a
    transaction without autocommit. SHOW does not appear in information_schema.OPTIMIZER_TRACE, as a
    SELECT does.
    """
    if count == 0:
        return b"SHOW SESSION STATUS WHERE FALSE"
    if count == 1:
        return b"SELECT 1 LIMIT 1"
    return (
        b"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d)"
        b" SELECT /*+ SET_VAR(cte_max_recursion_depth=%d) SET_VAR(sql_big_selects=1)"
        b" MAX_EXECUTION_TIME(60000) */ 1 FROM n LIMIT %d,1" % (count, count, count - 1)
    )


class ConnectionArea:
    """The diagnostics area of one connection.

    Attributes:
        server: which server it leads to.
        holds: parts, and COUNTS_ROWS for the count that FOUND_ROWS() does not show yet, that no
            statement of the proxy's own has changed since the session's did.
        clean: it is known that there are no warnings and errors.
    """

    __slots__ = ("clean", "holds", "server")

    def __init__(self, server: Server) -> None:
        self.server: Final = server
        self.holds = 0
        self.clean = False

    def disturb(self, parts: int) -> None:
        """A statement of the proxy's own changes these parts."""
        if parts & FOUND_ROWS:
            parts |= COUNTS_ROWS
        self.holds &= ~parts
        if parts & CONDITIONS:
            self.clean = False


class DiagnosticsReplay(NamedTuple):
    """What brings a server's diagnostics area into the session's state, in this order.

    Attributes:
        finds: a query with so many rows; None for none.
        again: the packet of the statement that left this elsewhere, which runs again; or empty.
        clears: a statement that clears the conditions, and keeps FOUND_ROWS().
        counts: ROW_COUNT() becomes 0 or -1, and nothing else changes; None if it need not.
        lost: of what is asked, the parts that are different then.
    """

    finds: int | None = None
    again: bytes = b""
    clears: bool = False
    counts: int | None = None
    lost: int = 0


NOTHING_TO_REPLAY: Final = DiagnosticsReplay()


class DiagnosticsArea:
    """What may be asked about the last statement of one session, and which server knows it.

    Attributes:
        conditions: how many warnings and errors there are, at least.
        statement_conditions: how many the OK of a COM_PING tells of: those that the last statement
            raised.
        conditions_at: where they are; None if nowhere.
        raised_by: the packet of a statement that raises the same when it runs again; or empty.
        found_rows: FOUND_ROWS(), or NOT_KNOWN.
        found_at: where it is that; None if nowhere.
        found_by: if it is not known, the packet of a statement that sets it again; or empty.
        counts_at: where rows were counted that FOUND_ROWS() does not show yet; None if nowhere.
        row_count: ROW_COUNT() if it is -1 or 0, or else NOT_KNOWN.
        counted_at: where it is that; None if nowhere.
        cost_at: where the last query ran.
    """

    __slots__ = (
        "_finds_none",
        "_together",
        "conditions",
        "conditions_at",
        "cost_at",
        "counted_at",
        "counts_at",
        "found_at",
        "found_by",
        "found_rows",
        "raised_by",
        "row_count",
        "statement_conditions",
    )

    def __init__(self) -> None:
        """That of a session that has run nothing: all are 0, and no connection says so."""
        self.conditions = 0
        self.statement_conditions = 0
        self.conditions_at: ConnectionArea | None = None
        self.raised_by = b""
        self.found_rows = 0
        self.found_at: ConnectionArea | None = None
        self.found_by = b""
        self.counts_at: ConnectionArea | None = None
        self.row_count = 0
        self.counted_at: ConnectionArea | None = None
        self.cost_at: ConnectionArea | None = None
        self._finds_none = False  # what left the conditions has kept FOUND_ROWS()
        self._together = False  # one statement left the conditions and FOUND_ROWS()

    # What statements and commands leave

    def on_success(
        self, area: ConnectionArea, left: int, rows: int, warnings: int, packet: bytes = b""
    ) -> None:
        """A statement has ended well.

        Args:
            area: where.
            left: what it leaves (`Statement.leaves`).
            rows: how many its answer had.
            warnings: how many it raised.
            packet: its own, if it may run again.
        """
        self.statement_conditions = warnings
        if left & CONDITIONS:
            self._raise(area, warnings, packet)
        elif warnings:
            self._raise(area, self.conditions + warnings)
        kept = self.is_at(area, FOUND_ROWS)
        taken = left & TAKES_COUNT and (self.has_count(area) or (kept and left & MAY_COUNT_ROWS))
        if left & FOUND_ROWS:
            known = left & FOUND_AS_SHOWN != 0 and rows <= _MOST_ROWS
            self.found_at = area
            self.found_rows = rows if known else NOT_KNOWN
            self.found_by = b"" if known else packet
            self._together = left & CONDITIONS != 0
        elif taken or (left & MAY_FIND_ROWS and (rows or kept)):
            self._find(area)
        self._count_rows(area, left, kept)
        if left & ROW_COUNT:
            self.counted_at = area
            if left & SHOWS_ROWS:
                self.row_count = -1
            else:
                self.row_count = 0 if left & AFFECTS_NONE else NOT_KNOWN
        elif warnings:
            self._count(area, -1)
        if left & COST:
            self.cost_at = area
        area.holds |= left & PARTS

    def _count_rows(self, area: ConnectionArea, left: int, kept: bool) -> None:
        """Rows may have been counted that FOUND_ROWS() does not show yet.

        `kept`: FOUND_ROWS() was true on the connection before, and so the count was.
        """
        if left & (FOUND_ROWS | TAKES_COUNT):
            self.counts_at = None
            left &= ~MAY_COUNT_ROWS
        if left & COUNTS_ROWS or (left & MAY_COUNT_ROWS and kept):
            self.counts_at = area
            area.holds |= COUNTS_ROWS

    def on_error(
        self,
        area: ConnectionArea,
        warnings: int,
        packet: bytes = b"",
        *,
        found: bool = False,
        counts: bool = False,
    ) -> None:
        """A statement has failed.

        Args:
            area: where.
            warnings: how many it had raised before.
            packet: its own, if it may run again.
            found: something in it had set FOUND_ROWS() before, or may have where that was true.
            counts: something in it may have counted rows that FOUND_ROWS() does not show yet.
        """
        kept = self.is_at(area, FOUND_ROWS)
        self.statement_conditions = 1 + warnings
        self._raise(area, 1 + warnings, packet)
        self._finds_none = True
        self._count(area, -1)
        if found:
            self._find(area)
        if counts:
            self._count_rows(area, MAY_COUNT_ROWS, kept)

    def on_prepare(self, area: ConnectionArea, warnings: int, packet: bytes) -> None:
        """A COM_STMT_PREPARE has ended well, which leaves FOUND_ROWS() and ROW_COUNT()."""
        self.statement_conditions = warnings
        self._raise(area, warnings, packet)
        self._finds_none = True

    def on_command(self, area: ConnectionArea, code: Code, warnings: int) -> None:
        """One of `KEEPING_CONDITIONS` has ended well; its OK tells of so many conditions."""
        if code is Code.COM_STATISTICS:
            return
        if code in TELLING_CONDITIONS:
            self._count_conditions(area, warnings)
        self._count(area, 0 if code in _AFFECTING_NONE else -1)
        if code in _TELLING_NONE:
            self.statement_conditions = 0
        if code is Code.COM_FIELD_LIST:
            self._raise(area, self.conditions + 1)  # that it is deprecated

    def on_refusal(self, area: ConnectionArea, code: Code) -> None:
        """A command failed that keeps the conditions, and added an error."""
        if code in _COUNTING_ANEW:
            self.statement_conditions = 0
        self.statement_conditions += 1
        # COM_FIELD_LIST has told before that it is deprecated.
        self._raise(area, self.conditions + (2 if code is Code.COM_FIELD_LIST else 1))
        self._count(area, -1)

    def _count_conditions(self, area: ConnectionArea, warnings: int) -> None:
        """An OK tells how many the last statement raised: an error does not say that.

        It is the session's statement if none of the proxy's own came after it on that connection.
        """
        if self.is_at(area, CONDITIONS | ROW_COUNT):
            self.statement_conditions = warnings

    def _raise(self, area: ConnectionArea, conditions: int, packet: bytes = b"") -> None:
        """There are other conditions, or none."""
        self.conditions = conditions
        self.conditions_at = area
        self.raised_by = packet if conditions else b""
        self._finds_none = self._together = False
        area.clean = conditions == 0
        area.holds |= CONDITIONS

    def _find(self, area: ConnectionArea) -> None:
        """A server alone knows FOUND_ROWS()."""
        self.found_at = area
        self.found_rows = NOT_KNOWN
        self.found_by = b""
        self._together = False
        area.holds |= FOUND_ROWS

    def _count(self, area: ConnectionArea | None, row_count: int) -> None:
        self.row_count = row_count
        self.counted_at = area
        if area is not None:
            area.holds |= ROW_COUNT

    # What the proxy answers by itself

    def affects_none(self) -> None:
        """The proxy answered a command that keeps all but ROW_COUNT(), which is 0."""
        self._count(None, 0)

    def proxy_answered(self, row_count: int) -> None:
        """The proxy answered a statement: it leaves no conditions, and this ROW_COUNT()."""
        self.conditions = self.statement_conditions = 0
        self.conditions_at, self.raised_by = None, b""
        self._finds_none = self._together = False
        self._count(None, row_count)

    def on_ping(self, area: ConnectionArea, warnings: int) -> None:
        """A COM_PING came behind an answer with rows, or an error: ROW_COUNT() was -1 before it.

        Its OK tells of so many conditions.
        """
        self._count_conditions(area, warnings)
        self.row_count = -1
        area.disturb(ROW_COUNT)

    def reset(self) -> None:
        """The session was reset, or somebody else logged in: only FOUND_ROWS() stays."""
        self.proxy_answered(0)
        self.cost_at = None

    # What the proxy does to keep it

    def is_lost(self, area: ConnectionArea, left: int) -> bool:
        """Whether FOUND_ROWS() must be asked for before statements of the proxy's own there.

        `left` is what the client's command leaves, which comes behind these: it may keep it.
        """
        return (
            self.found_rows == NOT_KNOWN and not left & FOUND_ROWS and self.is_at(area, FOUND_ROWS)
        )

    def on_found_rows(self, area: ConnectionArea, rows: int) -> None:
        """A connection was asked for FOUND_ROWS(), as it would be lost."""
        if self.found_at is area and self.found_rows == NOT_KNOWN:
            self.found_rows = rows
            self.found_by = b""

    def forget(self) -> None:
        """The connection that alone knows FOUND_ROWS() does not say it."""
        if self.found_rows == NOT_KNOWN:
            self.found_at = None

    def on_replay(self, area: ConnectionArea, parts: int, by: DiagnosticsReplay) -> None:
        """A connection was brought into this state."""
        parts &= ~(by.lost | COST)
        if parts & CONDITIONS:
            self.conditions_at = area
            area.clean = self.conditions == 0
        if parts & FOUND_ROWS:
            self.found_at = area
        if parts & ROW_COUNT:
            self.counted_at = area
        area.holds |= parts

    # What is asked

    def has_count(self, area: ConnectionArea) -> bool:
        """Whether a connection has counted rows that FOUND_ROWS() does not show yet."""
        return self.counts_at is area and area.holds & COUNTS_ROWS != 0

    def is_at(self, area: ConnectionArea, parts: int) -> bool:
        """Whether all these parts are true on a connection."""
        return not self._missing(area, parts)

    def _missing(self, area: ConnectionArea, parts: int) -> int:
        """Those of these parts that are not true there."""
        held = area.holds
        if self.conditions == 0 and area.clean:
            held |= CONDITIONS
        elif self.conditions_at is not area:
            held &= ~CONDITIONS
        if self.found_at is not area:
            held &= ~FOUND_ROWS
        if self.counted_at is not area:
            held &= ~ROW_COUNT
        if self.cost_at is not area:
            held &= ~COST
        return parts & ~held

    def target(self, parts: int) -> ConnectionArea | None:
        """Where a question about these parts goes that does nothing else; None: the primary."""
        areas = []
        if parts & CONDITIONS:
            areas.append(self.conditions_at)
        if parts & FOUND_ROWS:
            areas.append(self.found_at)
        if parts & ROW_COUNT:
            areas.append(self.counted_at)
        if parts & COST:
            areas.append(self.cost_at)
        known = [area for area in areas if area is not None]
        for area in known:
            if self.is_at(area, parts):
                return area
        for area in known:
            by = self.replay_for(area, parts)
            if not (by.lost or by.again):  # what must run again runs on the primary
                return area
        return None

    def replay_for(self, area: ConnectionArea, parts: int) -> DiagnosticsReplay:  # noqa: C901, PLR0912 parts hang together
        """What makes these parts true on a connection, as far as that can be."""
        missing = self._missing(area, parts & ~COST)
        lost = 0
        if self.row_count == NOT_KNOWN and parts & ROW_COUNT & ~missing:
            # No statement sets FOUND_ROWS() and keeps ROW_COUNT(), which is a write's more often.
            lost = missing & FOUND_ROWS
            missing &= ~FOUND_ROWS
        if not missing:
            return DiagnosticsReplay(lost=lost) if lost else NOTHING_TO_REPLAY
        finds: int | None = None
        again = b""
        if missing & CONDITIONS and self.conditions:
            again = self.raised_by
            lost |= 0 if again else CONDITIONS
        brings = bool(again) and not self._finds_none  # its FOUND_ROWS(), too
        if brings and self._together:
            missing &= ~FOUND_ROWS
        elif brings or missing & FOUND_ROWS:
            if not parts & FOUND_ROWS:
                pass
            elif self.found_rows >= 0:
                finds = self.found_rows
                lost |= FOUND_ROWS if brings else 0
            elif self.found_by and not again:
                again = self.found_by
            else:
                lost |= FOUND_ROWS
        if (
            parts & CONDITIONS
            and self.conditions
            and not missing & CONDITIONS
            and (finds is not None or again)
        ):
            lost |= CONDITIONS
        clears = bool(missing & CONDITIONS) and not (self.conditions or again or finds is not None)
        if clears and parts & ROW_COUNT & ~missing and self.row_count == NOT_KNOWN:
            again, clears = _CLEARING_PREPARE, False
        counts: int | None = None
        if parts & ROW_COUNT:
            after = NOT_KNOWN if missing & ROW_COUNT else self.row_count
            if finds is not None or (again and again[4] != Code.COM_STMT_PREPARE):
                after = -1
            elif clears:
                after = 0
            if self.row_count == NOT_KNOWN:
                lost |= ROW_COUNT if missing & ROW_COUNT or after != NOT_KNOWN else 0
            elif after != self.row_count:
                counts = self.row_count
        return DiagnosticsReplay(finds, again, clears, counts, lost)

    def survives(self, parts: int) -> bool:
        """Whether these parts can be made true again where a statement of the proxy's ran."""
        if parts & CONDITIONS and self.conditions and not self.raised_by:
            return False
        if parts & FOUND_ROWS and self.found_rows == NOT_KNOWN and not self.found_by:
            return False
        return not (parts & ROW_COUNT and self.row_count == NOT_KNOWN)

    def can_leave(self, area: ConnectionArea) -> bool:
        """Whether a connection can be given away: what it holds is known, and cheap to make."""
        if self.has_count(area) or (self.conditions and self.conditions_at in (None, area)):
            return False
        if self.found_at in (None, area) and not 0 <= self.found_rows <= _FEW_ROWS:
            return False
        return self.counted_at not in (None, area) or self.row_count != NOT_KNOWN

    @property
    def warning_count(self) -> int:
        """What the OK of one of `TELLING_CONDITIONS` has."""
        return min(self.statement_conditions, _MOST_REPORTED)

    @property
    def bound(self) -> tuple[Server, ...]:
        """Servers whose connections hold what cannot be made elsewhere."""
        servers = []
        if self.conditions and self.conditions_at is not None:
            servers.append(self.conditions_at.server)
        if self.found_rows == NOT_KNOWN and self.found_at is not None:
            servers.append(self.found_at.server)
        return tuple(servers)

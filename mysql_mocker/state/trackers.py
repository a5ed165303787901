"""The session trackers: changes in a session that its next OK packet reports (fact 1.4)."""

from collections.abc import Mapping
from typing import Final

from mysql_mocker.state.gtids_context import GtidsContext
from mysql_mocker.state.variables import shown
from protocol.session_track import (
    TEXT_ENCODING,
    gtids_entry,
    schema_entry,
    state_change_entry,
    system_variable_entry,
    transaction_characteristics_entry,
    transaction_state_entry,
)

_IDLE: Final = "________"
_READ_OTHERS: Final = 1
_READ: Final = 2
_WRITE: Final = 4
_UNSAFE: Final = 5
_RESULT_SET: Final = 6
_LOCKED: Final = 7


class Trackers:
    """All trackers of one session.

    A change is reported once. What is reported depends on the trackers that are enabled when the OK
    packet is made. But there is a block whenever anything has changed that any tracker looks at,
    and so it can be empty (fact 1.1).

    Args:
        variables: the session's, which enable the trackers.

    Attributes:
        gtids: collects what the tracker of GTIDs reports.
        gtid_encoding: how it writes them: the number of a registered encoding (WL#6128, F3); 0,
            the text, is the only one of MySQL 9.7.
    """

    def __init__(self, variables: Mapping[str, bool | int | float | str]) -> None:
        self._variables = variables
        self.gtid_encoding = TEXT_ENCODING
        self._changed_variables: set[str] = set()
        self._variables_changed = False
        self._statement_id = 0
        self._schema_changed = False
        self._state_changed = False
        self.gtids = GtidsContext("OFF")
        self._gtids_changed = False
        self._track_gtids()
        self._state = _IDLE
        self._reported_state = _IDLE
        self._transaction_changed = False
        self._detailed = self._details
        self._isolation = self._access = ""
        self._snapshot = False
        self._characteristics_changed = False

    # What happens to the session.

    def variable_set(self, name: str) -> None:
        """A session variable was assigned."""
        if self._is_tracked(name):
            self._change(name)
        if name == "session_track_gtids" and self.gtids.mode == "OFF":
            # From OFF it works at once, else from the next command on (fact 2.1).
            self._track_gtids()
        if name == "session_track_system_variables":
            self._changed_variables = {n for n in self._changed_variables if self._is_tracked(n)}
        if name == "session_track_transaction_info":
            if self._details and not self._detailed:
                # A transaction that began before is not reported.
                self._state = self._reported_state = _IDLE
            self._detailed = self._details
            self._transaction_changed = self._info == "STATE"
            self._characteristics_changed = self._info == "CHARACTERISTICS"
        if name != "session_track_state_change":
            self.state_set()

    def statement_began(self, number: int) -> None:
        """A statement begins; the server counts statements in a variable that can be tracked."""
        if self._is_tracked("statement_id"):
            self._statement_id = number
            self._change("statement_id")

    def _change(self, name: str) -> None:
        self._changed_variables.add(name)
        # This is not forgotten if the variable is no longer tracked: then the block is empty.
        self._variables_changed = True

    def _is_tracked(self, name: str) -> bool:
        tracked = str(self._variables["session_track_system_variables"])
        return tracked == "*" or name in [word.strip() for word in tracked.lower().split(",")]

    def schema_set(self) -> None:
        """The current schema was chosen, even if it was the same before."""
        self._schema_changed |= bool(self._variables["session_track_schema"])

    def state_set(self) -> None:
        """Something that a new connection would not have was set (fact 1.7)."""
        if self._variables["session_track_state_change"]:
            self._state_changed = True

    def transaction_began(self, *, implicit: bool = False) -> None:
        """BEGIN, or the first table access under autocommit=0."""
        if not implicit or self._details:
            self._set_state(("I" if implicit else "T") + _IDLE[1:])
        if not implicit:
            self._snapshot = False
            self._tell_characteristics()

    def transaction_ended(self) -> None:
        """COMMIT, ROLLBACK, or what implies them."""
        if self._state[0] == "T":
            self._tell_characteristics()
        self._set_state(_IDLE)

    def note(
        self,
        *,
        read: bool = False,
        written: bool = False,
        rows: bool = False,
        unsafe: bool = False,
        performance_schema: bool = False,
    ) -> None:
        """What a statement inside a transaction did; unsafe ones can replicate only as rows."""
        unsafe |= performance_schema
        for happened, index, letter in (
            (performance_schema, _READ_OTHERS, "r"), (read, _READ, "R"), (written, _WRITE, "W"),
            (unsafe, _UNSAFE, "s"), (rows, _RESULT_SET, "S"),
        ):  # fmt: skip
            if happened and self._details and self._state[0] != "_":
                self._set_state(self._state[:index] + letter + self._state[index + 1 :])

    def snapshot_taken(self) -> None:
        """WITH CONSISTENT SNAPSHOT, which is reported even with the tracker off."""
        self._snapshot = True
        self._set_state(self._state[:_READ] + "R" + self._state[_READ + 1 :])

    def tables_locked(self) -> None:
        """LOCK TABLES."""
        if self._details:
            self._set_state(_IDLE[:_LOCKED] + "L")

    def characteristics_set(
        self, *, isolation: str | None = None, access: str | None = None, begins: bool = False
    ) -> None:
        """What SET TRANSACTION, or the beginning of a transaction, says about it.

        Args:
            isolation: READ COMMITTED and the like; empty to forget it, None to keep it.
            access: READ ONLY or READ WRITE; likewise.
            begins: START TRANSACTION says it, which counts even with the tracker off.
        """
        if not (self._details or begins) and (isolation or access):
            return
        before = self._isolation, self._access
        self._isolation = self._isolation if isolation is None else isolation
        self._access = self._access if access is None else access
        if before != (self._isolation, self._access):
            self._tell_characteristics()

    def _tell_characteristics(self) -> None:
        self._characteristics_changed |= self._details

    @property
    def _characteristics(self) -> str:
        """SQL that would start another transaction like the running or the next one."""
        parts = []
        if self._isolation:
            parts.append(f"SET TRANSACTION ISOLATION LEVEL {self._isolation};")
        if self._state[0] == "T":
            options = ["WITH CONSISTENT SNAPSHOT"] * self._snapshot
            options += [self._access] * bool(self._access)
            parts.append(f"START TRANSACTION {', '.join(options)}".rstrip() + ";")
        elif self._access:
            parts.append(f"SET TRANSACTION {self._access};")
        return " ".join(parts)

    @property
    def _info(self) -> str:
        return str(self._variables["session_track_transaction_info"])

    @property
    def _details(self) -> bool:
        # With the tracker off, 9.7 reports only the begin and the end of transactions (fact 1.5).
        return self._info != "OFF"

    def _set_state(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self._transaction_changed = True

    # What the client is told of it.

    def block(self, schema: str | None) -> bytes | None:
        """The ``session_state_info`` of an OK packet; None if it has none."""
        enabled = (
            self._variables["session_track_schema"]
            or self._variables["session_track_system_variables"]
            or self._variables["session_track_state_change"]
            or self.gtids.mode != "OFF"
            or self._details
        )
        changed = (
            self._variables_changed
            or self._schema_changed
            or self._state_changed
            or self._gtids_changed
            or self._transaction_changed
            or self._characteristics_changed
        )
        if not (enabled and changed):
            return None
        return b"".join(self._entries(schema))

    def _entries(self, schema: str | None) -> list[bytes]:
        """All entries in the server's order; nothing counts as changed afterwards."""
        found = []
        for name in sorted(self._changed_variables):
            value = self._statement_id if name == "statement_id" else self._variables[name]
            found.append(system_variable_entry(name, shown(value)))
        if self._schema_changed and self._variables["session_track_schema"]:
            found.append(schema_entry(schema or ""))
        if self._state_changed:
            found.append(state_change_entry(True))
        if self._gtids_changed and self.gtids.gtids:
            found.append(gtids_entry(self.gtids.gtids, self.gtid_encoding))
        if self._state != self._reported_state:
            found.append(transaction_state_entry(self._state))
        if self._characteristics_changed and self._info == "CHARACTERISTICS":
            found.append(transaction_characteristics_entry(self._characteristics))
        self._reported_state = self._state
        self._changed_variables.clear()
        self._variables_changed = False
        self._schema_changed = self._state_changed = self._gtids_changed = False
        self._transaction_changed = self._characteristics_changed = False
        return found

    def end_command(self) -> None:
        """Forgets the GTIDs: within one command they add up, then they are gone (fact 2.1).

        That some were collected is not forgotten: if an ERR or EOF packet could not carry them, the
        next OK packet has an empty block (fact 2.3).
        """
        self.gtids.answered()
        self._track_gtids()

    def _track_gtids(self) -> None:
        """Listens to the collector, or not, as session_track_gtids says now."""
        self.gtids.mode = str(self._variables["session_track_gtids"])
        if self.gtids.mode == "OFF":
            self.gtids.forget()
        else:
            self.gtids.listen(self._gtids_collected)

    def _gtids_collected(self) -> None:
        self._gtids_changed = True

"""The session trackers: what of a session changed, to be told in its next OK packet (fact 1.4)."""

from collections.abc import Mapping
from typing import Final

from mysql_mocker.variables import shown
from protocol.constants import SessionTrackType
from protocol.gtid import GtidSet
from protocol.wire import lenenc_bytes, lenenc_int

_IDLE: Final = "________"
_RESULT_SET: Final = 6
_READ: Final = 2
_WRITE: Final = 4
_LOCKED: Final = 7


def _entry(kind: SessionTrackType, entity: bytes) -> bytes:
    return lenenc_int(kind) + lenenc_bytes(entity)


class Trackers:
    """All trackers of one session.

    A change is told once. What is told depends on the trackers that are enabled when the OK
    packet is made, but whether there is a block at all on any change to any tracker: hence the
    empty blocks of fact 1.1.

    Args:
        variables: the session's, which enable the trackers.
    """

    def __init__(self, variables: Mapping[str, bool | int | float | str]) -> None:
        self._variables = variables
        self._changed_variables: set[str] = set()
        self._schema_changed = False
        self._state_changed = False
        self._gtids = GtidSet()
        self._gtids_changed = False
        self._gtid_mode = str(variables["session_track_gtids"])
        self._state = _IDLE
        self._reported_state = _IDLE
        self._transaction_changed = False
        self._characteristics = ""
        self._characteristics_changed = False

    # What happens to the session.

    def variable_set(self, name: str) -> None:
        """A session variable was assigned."""
        tracked = str(self._variables["session_track_system_variables"])
        if tracked == "*" or name in [word.strip() for word in tracked.lower().split(",")]:
            self._changed_variables.add(name)
        if name == "session_track_gtids" and self._gtid_mode == "OFF":
            # From OFF it works at once, else from the next command on (fact 2.1).
            self._gtid_mode = str(self._variables[name])
        if name == "session_track_transaction_info":
            self._transaction_changed = self._variables[name] == "STATE"
            self._characteristics_changed = self._variables[name] == "CHARACTERISTICS"
        if name != "session_track_state_change":
            self.state_set()

    def schema_set(self) -> None:
        """The current schema was chosen, even if it was the same before."""
        self._schema_changed = True

    def state_set(self) -> None:
        """Something that a new connection would not have was set (fact 1.7)."""
        if self._variables["session_track_state_change"]:
            self._state_changed = True

    def transaction_committed(self, gtid: GtidSet) -> None:
        """The session committed `gtid`."""
        if self._gtid_mode == "OWN_GTID":
            self._collect(gtid)

    def statement_committed(self, executed: GtidSet) -> None:
        """A statement ended outside a transaction; `executed` is the server's set."""
        if self._gtid_mode == "ALL_GTIDS":
            self._collect(executed)

    def _collect(self, gtids: GtidSet) -> None:
        self._gtids |= gtids
        self._gtids_changed = True

    def transaction_began(self, *, implicit: bool = False) -> None:
        """BEGIN, or the first table access under autocommit=0."""
        if not implicit or self._details:
            self._set_state(("I" if implicit else "T") + _IDLE[1:])

    def transaction_ended(self) -> None:
        """COMMIT, ROLLBACK, or what implies them."""
        self._set_state(_IDLE)

    def noted(self, *, read: bool = False, written: bool = False, rows: bool = False) -> None:
        """What a statement inside a transaction did."""
        for happened, place, letter in (
            (read, _READ, "R"), (written, _WRITE, "W"), (rows, _RESULT_SET, "S")
        ):  # fmt: skip
            if happened and self._details and self._state[0] != "_":
                self._set_state(self._state[:place] + letter + self._state[place + 1 :])

    def tables_locked(self) -> None:
        """LOCK TABLES."""
        if self._details:
            self._set_state(_IDLE[:_LOCKED] + "L")

    def characteristics_set(self, sql: str) -> None:
        """What would start the running or the next transaction anew."""
        if sql != self._characteristics:
            self._characteristics = sql
            self._characteristics_changed |= self._info == "CHARACTERISTICS"

    @property
    def _info(self) -> str:
        return str(self._variables["session_track_transaction_info"])

    @property
    def _details(self) -> bool:
        # With the tracker off, 9.7 tells of begin and end of a transaction only (fact 1.5).
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
            or self._gtid_mode != "OFF"
            or self._details
        )
        changed = (
            self._changed_variables
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
            pair = lenenc_bytes(name.encode()) + lenenc_bytes(shown(self._variables[name]).encode())
            found.append(_entry(SessionTrackType.SESSION_TRACK_SYSTEM_VARIABLES, pair))
        if self._schema_changed and self._variables["session_track_schema"]:
            entity = lenenc_bytes((schema or "").encode())
            found.append(_entry(SessionTrackType.SESSION_TRACK_SCHEMA, entity))
        if self._state_changed:
            found.append(_entry(SessionTrackType.SESSION_TRACK_STATE_CHANGE, b"1"))
        if self._gtids_changed and self._gtids:
            entity = lenenc_int(0) + lenenc_bytes(str(self._gtids).encode())
            found.append(_entry(SessionTrackType.SESSION_TRACK_GTIDS, entity))
        if self._state != self._reported_state:
            entity = lenenc_bytes(self._state.encode())
            found.append(_entry(SessionTrackType.SESSION_TRACK_TRANSACTION_STATE, entity))
        if self._characteristics_changed:
            entity = lenenc_bytes(self._characteristics.encode())
            kind = SessionTrackType.SESSION_TRACK_TRANSACTION_CHARACTERISTICS
            found.append(_entry(kind, entity))
        self._reported_state = self._state
        self._changed_variables.clear()
        self._schema_changed = self._state_changed = self._gtids_changed = False
        self._transaction_changed = self._characteristics_changed = False
        return found

    def end_command(self) -> None:
        """Forgets the GTIDs: within one command they add up, then they are gone (fact 2.1).

        That they were collected is not forgotten, hence an empty block in the next OK packet
        where an ERR or EOF packet could not carry them (fact 2.3).
        """
        self._gtids = GtidSet()
        self._gtid_mode = str(self._variables["session_track_gtids"])

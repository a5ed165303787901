"""What one session must see, where its state lives, and what another server must be told of it."""

from typing import Final

from protocol.gtid import EMPTY, GtidSet
from routing.consistency import Rules
from routing.lexer import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    MODE_UTF8,
    UTF8_COMPATIBLE,
)
from routing.topology import Server

COMPACT_ABOVE: Final = 8
"""Intervals beyond which a required set is closed by what the primary is known to have."""

PROBE_ABOVE: Final = 64
"""Intervals beyond which the primary is asked for its set, so that the required one gets short."""


def lexer_modes(sql_mode: str) -> int:
    """The modes of a sql_mode that change where a statement's tokens begin and end."""
    names = {name.strip().upper() for name in sql_mode.split(",")}
    flags = 0
    if names & {"ANSI_QUOTES", "ANSI"}:
        flags |= MODE_ANSI_QUOTES
    if "NO_BACKSLASH_ESCAPES" in names:
        flags |= MODE_NO_BACKSLASH_ESCAPES
    return flags


_SHOWN_BY_DEFAULT: Final = frozenset({0, 1, 4, 5})
"""Tracker types that a server with default settings shows; types 2 and 3 are the proxy's doing."""

_TRACKERS: Final = {
    "session_track_system_variables": 0,
    "session_track_schema": 1,
    "session_track_state_change": 2,
    "session_track_gtids": 3,
}


class Session:
    """Routing's view of one client connection; it does no I/O.

    Attributes:
        rules: level, scope, budget and policy in force.
        required: GTIDs that its reads must be able to see.
        unknown: it may have committed what no packet named (after an ERR of a command
            that may write). `required` is then too small until the primary was asked.
        in_transaction: SERVER_STATUS_IN_TRANS of the primary connection.
        autocommit: of the primary connection.
        status_tells: SERVER_STATUS_AUTOCOMMIT is true to it. Where autocommit is off by a server's
            default, the flag says on until the client sets the variable.
        pin: why all statements go to the primary; empty if they need not.
        schema: the default schema; empty if none is chosen.
        variables: session variables that the client set, name to SQL literal; NAMES is one of them.
        variables_version: changes whenever `variables` does.
        mode_flags: lexer modes by the session's sql_mode and character set.
        modes_known: False after a SET sql_mode whose value cannot be read off the statement.
        suspect: what failed may have changed the session, which the next OK packet tells.
        one_shot: a SET TRANSACTION waits for the next transaction.
        tracking: session_track_gtids of the primary connection (WL#6972 maps it from the level).
        shown_trackers: tracker types that the client is to see.
        avoided: replicas that do not let this user in.
        last: the server that ran the previous statement.
        preferred: index of the replica that the session asks first.
    """

    def __init__(self, rules: Rules, preferred: int) -> None:
        self.rules = rules
        self.required: GtidSet = EMPTY
        self.unknown = False
        self.in_transaction = False
        self.autocommit = True
        self.status_tells = True
        self._initial_autocommit = True
        self.pin = ""
        self.schema = ""
        self.variables: dict[str, str] = {}
        self.variables_version = 0
        self.mode_flags = 0
        self.modes_known = True
        self.suspect = False
        self.one_shot = False
        self.tracking = self._level_tracking = rules.tracking
        self.shown_trackers = _SHOWN_BY_DEFAULT
        self.avoided: frozenset[Server] = frozenset()
        self.last: Server | None = None
        self.preferred = preferred
        self._probe_above = PROBE_ABOVE
        self._initial_modes = 0

    def wrote(self, gtids: GtidSet, primary: Server) -> None:
        """The server acknowledged these transactions as the session's own."""
        required = self.required | gtids
        if required.interval_count > COMPACT_ABOVE:
            required = required.compact(primary.applied)
        self.required = required

    def may_have_written(self) -> None:
        """A command that may write ended without a word on what it committed (fact 2.3)."""
        self.unknown = True

    def probed(self, executed: GtidSet) -> None:
        """The primary's `gtid_executed`, read after everything that the session wrote had ended."""
        if self.unknown:
            self.required |= executed
            self.unknown = False
        else:
            self.required = self.required.compact(executed)
        # A set that stays long after a probe has real gaps; asking again would not shorten it.
        self._probe_above = max(PROBE_ABOVE, 2 * self.required.interval_count)

    @property
    def wants_probe(self) -> bool:
        """Whether the next statement on the primary should bring its `gtid_executed` along."""
        return self.unknown or self.required.interval_count > self._probe_above

    def set_variable(self, name: str, literal: str) -> None:
        """The client set a session variable to a literal."""
        self.variables.pop(name, None)  # the order of assignment matters: NAMES, then its parts
        self.variables[name] = literal
        self.variables_version += 1

    def connected(
        self, sql_mode: str, autocommit: bool = True, character_set: str = "utf8mb4"
    ) -> None:
        """The primary connection is open; a reset returns to what it has now.

        But not to its character set: a reset takes the server's own (fact 7.9).
        """
        self.autocommit = self.status_tells = self._initial_autocommit = autocommit
        self.mode_flags = self._initial_modes = lexer_modes(sql_mode)
        self.set_character_set(character_set)

    def set_character_set(self, literal: str | None) -> None:
        """The client chose its character set: a literal, perhaps with a COLLATE behind it."""
        words = (literal or "").lower().split()
        if words and words[0].strip("'\"") in UTF8_COMPATIBLE:
            self.mode_flags |= MODE_UTF8
        else:
            self.mode_flags &= ~MODE_UTF8

    def set_sql_mode(self, literal: str | None) -> None:
        """The client set sql_mode; None is a value that the statement does not show."""
        text = "" if literal is None else literal.strip("'\"")
        self.modes_known = literal is not None and (literal != text or text.isidentifier())
        if self.modes_known:
            default = literal == text and text.upper() == "DEFAULT"
            modes = self._initial_modes if default else lexer_modes(text)
            self.mode_flags = modes | self.mode_flags & MODE_UTF8

    def set_tracker(self, name: str, literal: str | None) -> None:
        """The client set a session_track_… variable: it sees that tracker, or no more.

        The proxy goes on to track what its level needs.
        """
        kind = _TRACKERS.get(name)
        value = (literal or "ON").strip("'\"").upper()
        if kind is not None:
            hidden = value in ("OFF", "0", "FALSE", "")
            hidden = hidden or (value == "DEFAULT" and kind not in _SHOWN_BY_DEFAULT)
            shown = self.shown_trackers - {kind}
            self.shown_trackers = shown if hidden else shown | {kind}
        if name == "session_track_gtids":
            self.tracking = value if value == "ALL_GTIDS" else self._level_tracking
            if value == "OWN_GTID":
                self.tracking = value

    def reset(self) -> None:
        """COM_RESET_CONNECTION or COM_CHANGE_USER: state goes, what was written stays written."""
        self.in_transaction = False
        self.autocommit = self.status_tells = self._initial_autocommit
        self.pin = ""
        self.variables.clear()
        self.variables_version += 1
        self.mode_flags = self._initial_modes
        self.modes_known = True
        self.suspect = False
        self.one_shot = False
        self.tracking = self._level_tracking
        self.shown_trackers = _SHOWN_BY_DEFAULT
        self.last = None

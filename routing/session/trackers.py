"""Session trackers: what the client is to see of them, and which GTIDs its primary tells.

The client turns trackers on and off by its session_track_… variables. The proxy goes on to track
what it needs itself, and takes out of the answers what the client did not ask for
(`protocol.tracker_view`).
"""

from typing import Final

from routing.session.variables import SHOWN_BY_DEFAULT

_SHOWN_BY_DEFAULT: Final = frozenset({0, 1, 4, 5})
"""Tracker types that a server with default settings shows; types 2 and 3 are the proxy's doing."""

_TYPES: Final = {
    "session_track_schema": 1,
    "session_track_state_change": 2,
    "session_track_gtids": 3,
}


class Trackers:
    """Those of one session.

    Attributes:
        gtids: session_track_gtids of the primary connection (WL#6972): the client's own if it wants
            GTIDs, else what the level needs.
        shown: tracker types that the client is to see.
        shown_variables: system variables whose tracker it is to see, as it set
            session_track_system_variables.
        of_transactions: it wants to be told of its transactions' state.
    """

    def __init__(self, needed: str) -> None:
        """Those of a session that has set nothing yet; `needed` as of `need`."""
        self.gtids = self._needed = needed
        self._own_gtids = ""  # what the client set, if that is more than OFF
        self.shown = _SHOWN_BY_DEFAULT
        self.shown_variables = SHOWN_BY_DEFAULT
        self._shows_null = False
        self.of_transactions = False

    def need(self, gtids: str) -> None:
        """The session's level needs this session_track_gtids from now on."""
        self._needed = gtids
        self.gtids = self._own_gtids or gtids

    def set(self, name: str, literal: str | None) -> None:
        """The client set a session_track_… variable: it sees that tracker, or no more."""
        if name == "session_track_system_variables":
            self._shows_null = literal is not None and literal.upper() == "NULL"
            if self._shows_null:
                return  # what was tracked before goes on to be
            default = literal is None or literal.upper() == "DEFAULT"
            shown = SHOWN_BY_DEFAULT if default else (literal or "").strip("'\"")
            # No name has a quote or a backslash: what has one shows nothing.
            self.shown_variables = shown.replace("'", "").replace("\\", "")
            return
        kind = _TYPES.get(name)
        value = (literal or "ON").strip("'\"").upper()
        if kind is not None:
            hidden = value in ("OFF", "0", "FALSE", "")
            hidden = hidden or (value == "DEFAULT" and kind not in _SHOWN_BY_DEFAULT)
            others = self.shown - {kind}
            self.shown = others if hidden else others | {kind}
        if name == "session_track_transaction_info":
            self.of_transactions = value not in ("OFF", "0", "DEFAULT")
        if name == "session_track_gtids":
            # What a server would show it: a level that needs more than OWN_GTID then has to ask.
            self._own_gtids = value if value in ("ALL_GTIDS", "OWN_GTID") else ""
            self.gtids = self._own_gtids or self._needed

    @property
    def are_the_clients(self) -> bool:
        """Whether the client has set which system variables are tracked."""
        return self._shows_null or self.shown_variables != SHOWN_BY_DEFAULT

    def settings(self, gtids: bool) -> str:
        """The client's own settings, as SET takes them; `gtids`: session_track_gtids, too."""
        on = ["ON" if kind in self.shown else "OFF" for kind in (1, 2)]
        variables = "NULL" if self._shows_null else f"_binary'{self.shown_variables}'"
        settings = (
            f"session_track_schema={on[0]},session_track_state_change={on[1]}"
            f",session_track_system_variables={variables}"
        )
        if gtids:
            settings += f",session_track_gtids={self._own_gtids or 'OFF'}"
        return settings

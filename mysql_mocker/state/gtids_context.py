"""Collects the GTIDs that a session's OK packets have to report (WL#6972).

It knows neither trackers nor packets: a listener is told that something was collected, and asks for
it. Without a listener nothing is collected (WL#6128, E).
"""

from collections.abc import Callable

from protocol.gtid import GtidSet

Listener = Callable[[], None]


class GtidsContext:
    """The GTIDs that one session has to report.

    Args:
        mode: of session_track_gtids when the session begins.

    Attributes:
        mode: which GTIDs are collected: OFF, OWN_GTID or ALL_GTIDS.
        gtids: those of the running command; within it they add up (fact 2.1).
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.gtids = GtidSet()
        self._listener: Listener | None = None

    def listen(self, listener: Listener) -> None:
        """Has `listener` called after each collection."""
        self._listener = listener

    def forget(self) -> None:
        """Ends `listen`."""
        self._listener = None

    def transaction_committed(self, gtid: GtidSet) -> None:
        """The session committed `gtid`, which is visible now."""
        if self.mode == "OWN_GTID":
            self._collect(gtid)

    def statement_committed(self, executed: GtidSet) -> None:
        """A statement ended outside a transaction; `executed` is the server's set."""
        if self.mode == "ALL_GTIDS":
            self._collect(executed)

    def answered(self) -> None:
        """The command's answer was sent: what it reported, or could not report, is forgotten."""
        self.gtids = GtidSet()

    def _collect(self, gtids: GtidSet) -> None:
        if self._listener is not None:
            self.gtids |= gtids
            self._listener()

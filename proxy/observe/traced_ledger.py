"""A ledger whose statements become spans, too, if they are sampled (`proxy.observe.tracer`).

It is a class of its own so that nothing runs for a statement while traces are off. The SDK is not
named here, since this module is compiled, and is built where the SDK need not be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from proxy.observe.ledger import Account, Ledger
from routing.consistency.decision import Outcome
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.servers.topology import Server
from routing.session.session import Session

if TYPE_CHECKING:
    from proxy.observe.digests import Digests
    from proxy.observe.metrics import Metrics
    from proxy.observe.slow_log import SlowLog
    from routing.record import RecordStream


class TracedSession:
    """What spans tell of a session.

    Attributes:
        session_id: its name in the routing log.
        state: what routing knows of it.
        query_attributes: its client's statements begin with attributes.
    """

    def __init__(self, session_id: int, state: Session, *, query_attributes: bool) -> None:
        self.session_id: Final = session_id
        self.state: Final = state
        self.query_attributes: Final = query_attributes


Trace = Callable[[Command, CommandOutcome, Server | None, Outcome, int, TracedSession], None]
"""Makes the span of a statement: with how it ended, and the error code or 0."""


class TracedLedger(Ledger):
    """Enters statements into metrics and log, and shows each to a tracer."""

    def __init__(
        self,
        metrics: Metrics,
        records: RecordStream | None,
        proxy_name: str,
        digests: Digests | None,
        slow_log: SlowLog | None,
        trace: Trace,
        end: Callable[[], None],
    ) -> None:
        """`end` is called when the worker stops; it may take a few seconds."""
        super().__init__(metrics, records, proxy_name, digests, slow_log)
        self._trace = trace
        self._end = end

    def close(self) -> None:
        """Have the last spans exported."""
        self._end()

    def open(self, session_id: int, state: Session, *, query_attributes: bool) -> Account:
        """The account of a session."""
        session = TracedSession(session_id, state, query_attributes=query_attributes)
        account = TracedAccount(self._metrics, self._records, self, session_id, state)
        account.follow(self._trace, session)
        return account


class TracedAccount(Account):
    """Enters the statements of one session, and shows each to a tracer."""

    def follow(self, trace: Trace, session: TracedSession) -> None:
        """Show each statement of this session from now on."""
        self._trace = trace
        self._session_traced = session

    def record(
        self,
        command: Command,
        outcome: CommandOutcome,
        server: Server | None,
        result: Outcome,
        error: int = 0,
        rows: int | None = None,
    ) -> None:
        """Record a command that has just ended."""
        super().record(command, outcome, server, result, error, rows)
        self._trace(command, outcome, server, result, error, self._session_traced)

"""The one command that a client waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command
from protocol.gtid import EMPTY
from routing.sql.statement import StatementClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.gtid import GtidSet
    from proxy.client.prepared import PreparedStatement
    from proxy.server.connection import ServerConnection
    from routing.consistency.decision import Decision, Proof, Reason
    from routing.consistency.rules import Rules
    from routing.sql.statement import Statement


class Request:
    """One object per session, filled anew with each command.

    Attributes:
        packet: the command as it came, header and all; empty if it was passed on in parts.
        command: its first payload byte.
        shape: of the response (`protocol.response_stream`).
        statement: what it is, if it is a statement.
        decision: where it went last.
        reason: why; differs from the decision's where the wait ran out and policy let it pass.
        proof: what allowed the answer.
        rules: what it asks for, if that is not what the session does.
        required: what a read had to see; None if unknown.
        own: GTIDs that the server reported as its own.
        observed: the server's whole set at its end, where that is tracked.
        prepared: the prepared statement that it is about.
        number: the client's id of the statement that it prepares, or 0.
        prepared_anew: a server had forgotten the statement, and was asked to prepare it again.
        sent_at: when it was sent to a replica, with what stands in front of it, monotonic s.
        started: bytes of the answer went to the client.
        unsettled: the primary had not finished what it was committing, and the statement ran all
            the same.
        told: system variables of which trackers told the value.
        blank: an OK packet said that the session's state changed, and nothing of what.
        unlogged: it may have written what no GTID stands for.
        ending: the answer's last bytes, while they are kept from the client; else None.
        error: the code that the answer ended with, or 0.
        rows: of the answer.
        unnamed: OK packets of the answer that told of rows and of no GTID (`ResponseStream`).
        effect: run when the response ended well, before the client is told; is given the
            connection that answered.
        resume: what a probe of the primary is followed by, if that is not routing.
    """

    __slots__ = (
        "arrived_us",
        "blank",
        "command",
        "decision",
        "dispatched_us",
        "effect",
        "ending",
        "error",
        "fallbacks",
        "held",
        "may_write",
        "number",
        "observed",
        "own",
        "packet",
        "prepared",
        "prepared_anew",
        "proof",
        "reason",
        "received",
        "required",
        "resume",
        "rows",
        "rules",
        "sent_at",
        "shape",
        "started",
        "state_changed",
        "statement",
        "told",
        "unlogged",
        "unnamed",
        "unsettled",
        "wait_us",
    )

    def __init__(self) -> None:
        self.begin(b"", Command.COM_SLEEP, 0, None, False, 0)

    def begin(
        self,
        packet: bytes,
        command: Command,
        shape: int,
        statement: Statement | None,
        may_write: bool,
        arrived_us: int,
    ) -> None:
        """A new command arrived."""
        self.packet = packet
        self.command = command
        self.shape = shape
        self.statement = statement
        self.may_write = may_write
        self.arrived_us = arrived_us
        self.dispatched_us = arrived_us
        self.decision: Decision | None = None
        self.reason: Reason | None = None
        self.proof: Proof | None = None
        self.rules: Rules | None = None
        self.required: GtidSet | None = EMPTY
        self.prepared: PreparedStatement | None = None
        self.number = 0
        self.prepared_anew = False
        self.sent_at = 0.0
        self.started = False
        self.unsettled = False
        self.held = b""
        self.received = 0
        self.wait_us = 0
        self.fallbacks = ""
        self.own: GtidSet = EMPTY
        self.observed: GtidSet = EMPTY
        self.state_changed = False
        self.blank = False
        self.unlogged = False
        self.told: set[str] = set()
        self.ending: bytes | None = None
        self.error = 0
        self.rows = 0
        self.unnamed: list[tuple[int, bytes]] = []
        self.effect: Callable[[ServerConnection], None] | None = None
        self.resume: Callable[[], None] | None = None

    @property
    def text(self) -> bytes:
        """Bytes that hold the statement's text, if it is known."""
        return self.packet if self.prepared is None else self.prepared.sql

    @property
    def is_read(self) -> bool:
        """Whether consistency is about it."""
        return self.statement is not None and self.statement.kind is StatementClass.READ

"""The one command that a client waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command
from protocol.gtid import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.gtid import GtidSet
    from protocol.response_stream import ResponseStream
    from routing.decision import Decision, Proof, Reason
    from routing.statement import Statement


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
        required: what a read had to see; None if unknown.
        waited: a WAIT for it returned 0.
        started: bytes of the answer went to the client.
        effect: run when the response ended, before the client is told.
    """

    __slots__ = (
        "arrived_us",
        "command",
        "decision",
        "dispatched_us",
        "effect",
        "fallbacks",
        "held",
        "may_write",
        "own",
        "packet",
        "proof",
        "reason",
        "received",
        "required",
        "shape",
        "started",
        "state_changed",
        "statement",
        "wait_us",
        "waited",
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
        self.required: GtidSet | None = EMPTY
        self.started = False
        self.held = b""
        self.received = 0
        self.wait_us = 0
        self.waited = False
        self.fallbacks = ""
        self.own: GtidSet = EMPTY
        self.state_changed = False
        self.effect: Callable[[ResponseStream], None] | None = None

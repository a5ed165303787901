"""Answers that the proxy itself gives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from protocol.errors import ServerErrorCode
from protocol.packet import frame
from protocol.response import ErrPacket, OkPacket
from proxy.observe.show import LastAnswer
from routing.consistency.decision import Outcome, Proof, Reason

if TYPE_CHECKING:
    from proxy.client.session import ClientSession
    from proxy.shared import Shared

_LASTING: Final = 0x2200
"""Status flags that last: SERVER_STATUS_IN_TRANS_READONLY and _NO_BACKSLASH_ESCAPES."""


class Replies:
    """Those of one session."""

    def __init__(self, shared: Shared, session: ClientSession) -> None:
        self._shared = shared
        self._session = session

    def refuse(
        self, code: ServerErrorCode, message: str, *, reason: Reason = Reason.COMMAND
    ) -> None:
        """Answer the request with an error of the proxy's own."""
        session = self._session
        command = session.command
        trail = session.trail
        trail.reason = reason
        trail.proof = Proof.NONE
        self._shared.metrics.error("proxy", code.code)
        session.account.enter(command, trail, None, Outcome.ERROR, code.code)
        session.answered = True
        session.active = None
        session.read.ended()
        if command.prepared is not None:
            command.prepared.forget_long_data()  # as an execution that fails
        session.connection.send_error(ErrPacket(code.code, code.sqlstate, message))
        session.connection.ready()

    def refuse_setting(self, why: str) -> None:
        """A statement asks for rules that are wrong."""
        code = ServerErrorCode.ER_WRONG_VALUE_FOR_VAR
        self.refuse(code, f"Tidegate: {why}", reason=Reason.PROXY)

    @property
    def status(self) -> int:
        """The server status of an answer of the proxy's own: clients escape by what it says."""
        session = self._session
        flags = 0x0001 if session.state.in_transaction else 0
        if session.state.autocommit:
            flags |= 0x0002
        return flags | session.status_flags & _LASTING

    def ok(self) -> bytes:
        """An OK packet of the proxy's own, framed."""
        packet = OkPacket(status=self.status)
        return frame(packet.serialise(self._session.connection.capabilities), 1)

    def fresh_ok(self, within_us: int) -> bytes | None:
        """The OK that the primary would give, framed, if it answered the last command so lately.

        None if that was an error, or another server, or too long ago.
        """
        session = self._session
        primary = session.primary
        decision = session.trail.decision
        if (
            primary is None
            or decision is None
            or decision.server is not primary.server
            or primary.busy
            or primary.stream.error is not None
            or time.time_ns() // 1000 - session.command.arrived_us > within_us
        ):
            return None
        packet = OkPacket(status=self.status, warnings=primary.stream.warnings)
        return frame(packet.serialise(session.connection.capabilities), 1)

    def answer(self, data: bytes) -> None:
        """Answer the request without a server."""
        session = self._session
        trail = session.trail
        trail.reason = Reason.PROXY
        trail.proof = Proof.NONE
        session.read.ended()
        session.account.enter(session.command, trail, None, Outcome.OK)
        session.connection.write(data)
        session.connection.ready()

    def keep_last_answer(self) -> None:
        """A statement to the proxy begins, which may ask about the one before it."""
        session = self._session
        if session.trail.reason is not None and session.trail.reason is not Reason.PROXY:
            session.last_answer = LastAnswer.of(session.command, session.trail)

    def end_lost(self, cause: str) -> None:
        """The server is gone that the session cannot do without: as if the client's own were."""
        if self._session.answer.started:
            self._session.connection.close()
        else:
            self.lose_client(f"Lost connection to MySQL server during query ({cause})")

    def lose_client(
        self, message: str, code: ServerErrorCode = ServerErrorCode.CR_SERVER_LOST
    ) -> None:
        """End the client's connection with an error."""
        self._shared.metrics.error("proxy", code.code)
        self._session.answered = True
        self._session.read.ended()
        self._session.connection.fail(code, message)

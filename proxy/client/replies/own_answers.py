"""Answers of the proxy's own: OK packets, tables, errors, and the end of a session."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.errors import ServerErrorCode
from protocol.response import ErrPacket
from proxy.client.replies import framing as replies
from routing.consistency.decision import Outcome, Proof, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.client.session_context import SessionContext
    from routing.request.step import Refuse

_log = logging.getLogger(__name__)


class OwnAnswers:
    """Answers to one client. Each is counted and logged, and ends what the session was doing."""

    def __init__(self, session: SessionContext) -> None:
        self._current = session.current
        self._client = session.client
        self._servers = session.servers
        self._state = session.state
        self._long = session.long
        self._account = session.account
        self._metrics = session.shared.metrics

    def ok(self, warnings: int = 0) -> None:
        """Say OK."""
        self._reply(replies.ok(self._flags, self._client.capabilities, warnings))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
        """Show a table."""
        self._reply(replies.table(columns, rows, self._flags, self._client.capabilities))

    def refuse(self, code: ServerErrorCode, message: str, reason: Reason = Reason.COMMAND) -> None:
        """Answer with an error; the session goes on."""
        current = self._current
        command = current.command
        self._metrics.error("proxy", code.code)
        self._enter(reason, Outcome.ERROR, code.code)
        current.on_ended()
        self._servers.deactivate()
        self._state.diagnostics.proxy_answered(-1)
        if command.prepared is not None:
            command.prepared.use_long_data()  # as an execution that fails
        self._client.send_error(ErrPacket(code.code, code.sqlstate, message))
        self._client.ready()

    def refuse_whole(self, step: Refuse) -> None:
        """The same; a command that comes in parts is refused once all of it has come."""
        if self._current.command.packet:
            self.refuse(step.code, step.message, step.reason)
        else:
            self._long.discard(lambda: self.refuse(step.code, step.message, step.reason))

    def end(self, message: str, code: ServerErrorCode = ServerErrorCode.ER_SERVER_SHUTDOWN) -> None:
        """End the client's connection with an error."""
        self._metrics.error("proxy", code.code)
        self._current.on_ended()
        self._client.fail(code, message)

    def end_lost(self, cause: str) -> None:
        """A server is lost with a command: end the client's connection as that server would.

        The client's own library says that the connection is lost, as by 2013. In an ERR packet that
        code means nothing to many; MariaDB's Connector/C takes one for malformed (2027).
        """
        if not self._current.answer.started:
            self._metrics.error("proxy", ServerErrorCode.CR_SERVER_LOST.code)
            self._current.on_ended()
            _log.info("a client lost its connection: %s", cause)
        self._client.close()

    def end_refused(self, error: ErrPacket, *, waits: bool, held: bool) -> None:
        """End the client's connection with what a server, or the proxy, says of its login.

        Args:
            error: this.
            waits: it waits for the answer to the current command.
            held: or to one behind it, which is not served.
        """
        current = self._current
        self._metrics.error("server", error.code)
        if waits:
            current.outcome.proof = Proof.NONE
            self._account.record(current.command, current.outcome, None, Outcome.ERROR, error.code)
        current.on_ended()
        self._client.send_error(error, 1 if waits or held else 0)
        self._client.close()

    @property
    def _flags(self) -> int:
        return replies.status(self._state.transaction)

    def _reply(self, data: bytes) -> None:
        self._current.on_ended()
        self._enter(Reason.PROXY, Outcome.OK)
        self._client.write(data)
        self._client.ready()

    def _enter(self, reason: Reason, result: Outcome, code: int = 0) -> None:
        outcome = self._current.outcome
        outcome.reason = reason
        outcome.proof = Proof.NONE
        self._account.record(self._current.command, outcome, None, result, code)

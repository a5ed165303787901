"""The binary prepared statement protocol; for now all of it runs on the primary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command
from protocol.errors import ServerErrorCode
from protocol.response_stream import FETCHED, PREPARED, RESULTS, SIMPLE
from routing.decision import Reason

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.session import ClientSession
    from routing.statement import Statement


def forward_prepare(session: ClientSession, packet: bytes) -> None:
    """Remember what the statement is, for when it is executed."""
    statement = session.classifier.classify(packet[5:], session.state.mode_flags)
    if statement.own is not None:
        session.begin(b"", Command.COM_STMT_PREPARE, PREPARED, statement)
        session.refuse(
            ServerErrorCode.ER_UNSUPPORTED_PS,
            "This command is not supported in the prepared statement protocol yet: send statements"
            " to Tidegate as text",
            reason=Reason.PROXY,
        )
        return
    _prepare(session, packet, statement)


def forward_long_prepare(session: ClientSession, prefix: bytes) -> None:
    """A statement too long to look at."""
    _prepare(session, b"", None)


def _prepare(session: ClientSession, packet: bytes, statement: Statement | None) -> None:
    def remember(stream: ResponseStream) -> None:
        if stream.head is not None and statement is not None:
            session.prepared[int.from_bytes(stream.head[1:5], "little")] = statement

    session.begin(packet, Command.COM_STMT_PREPARE, PREPARED, effect=remember)
    session.to_primary(Reason.PREPARED)


def forward_execute(session: ClientSession, packet: bytes) -> None:
    """Execute; what the statement does to the session is known from its text."""
    statement = _statement(session, packet)
    may_write = statement is None or statement.may_write
    session.begin(packet, Command.COM_STMT_EXECUTE, RESULTS, statement, may_write=may_write)
    session.to_primary(Reason.PREPARED)


def forward_long_execute(session: ClientSession, prefix: bytes) -> None:
    """Execute with parameters that come in parts."""
    statement = _statement(session, prefix)
    may_write = statement is None or statement.may_write
    session.begin(b"", Command.COM_STMT_EXECUTE, RESULTS, statement, may_write=may_write)
    session.to_primary(Reason.PREPARED)


def forward_fetch(session: ClientSession, packet: bytes) -> None:
    """Rows of a cursor."""
    session.begin(packet, Command.COM_STMT_FETCH, FETCHED)
    session.to_primary(Reason.PREPARED)


def forward_reset(session: ClientSession, packet: bytes) -> None:
    """Drop long data and cursor."""
    session.begin(packet, Command.COM_STMT_RESET, SIMPLE)
    session.to_primary(Reason.PREPARED)


def forward_close(session: ClientSession, packet: bytes) -> None:
    """Forget the statement; there is no answer."""
    if len(packet) == 9:
        session.prepared.pop(int.from_bytes(packet[5:9], "little"), None)
    session.no_answer(packet)


def forward_unanswered(session: ClientSession, packet: bytes) -> None:
    """COM_STMT_SEND_LONG_DATA; there is no answer."""
    session.no_answer(packet)


def forward_long_data(session: ClientSession, prefix: bytes) -> None:
    """COM_STMT_SEND_LONG_DATA in parts; there is no answer."""
    session.stream_unanswered()


def _statement(session: ClientSession, packet: bytes) -> Statement | None:
    if len(packet) < 9:
        return None
    return session.prepared.get(int.from_bytes(packet[5:9], "little"))

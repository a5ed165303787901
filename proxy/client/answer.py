"""What is kept of the answer to a command, and what an ERR instead of it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from protocol.errors import ServerErrorCode as Error
from protocol.packet import frame

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection
    from routing.request.command import Command
    from routing.session.session import Session

Meaning = Literal["pass", "again", "forbidden", "full", "denied", "leaving"]
"""What follows an ERR: the client gets it; the same server, which has forgotten a statement, is
asked again; or another server answers, since this replica may not run the statement, has no room
for it, no time, no such table in its snapshot or no such right, or serves nobody for now."""

_WRITES: Final = frozenset(
    {
        Error.ER_OPTION_PREVENTS_STATEMENT.code,
        Error.ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION.code,
        Error.ER_READ_ONLY_MODE.code,
    }
)
"""Errors by which a server says that it may not run a statement that writes."""
_FULL: Final = Error.ER_MAX_PREPARED_STMT_COUNT_REACHED.code
"""It has no room for another prepared statement."""
_REDEFINED: Final = Error.ER_TABLE_DEF_CHANGED.code
"""The table is newer than the snapshot, which was taken right before."""
_DENIALS: Final = frozenset(
    {
        Error.ER_DBACCESS_DENIED_ERROR.code,
        Error.ER_TABLEACCESS_DENIED_ERROR.code,
        Error.ER_COLUMNACCESS_DENIED_ERROR.code,
        Error.ER_SPECIFIC_ACCESS_DENIED_ERROR.code,
        Error.ER_VIEW_INVALID.code,
        Error.ER_PROCACCESS_DENIED_ERROR.code,
        Error.ER_NO_SUCH_USER.code,
    }
)
"""Errors by which a server says that the user, or a definer, lacks a right. A replica may not know
yet of a right that was granted, so the primary decides."""
_QUERY_TIMEOUT: Final = Error.ER_QUERY_TIMEOUT.code
"""max_execution_time has passed."""
_FORGOTTEN: Final = frozenset({Error.ER_UNKNOWN_STMT_HANDLER.code, Error.ER_NEED_REPREPARE.code})
"""Errors by which a server says that it does not have a prepared statement any more."""
_NAMING: Final = frozenset(
    {Error.ER_UNKNOWN_STMT_HANDLER.code, Error.ER_STMT_HAS_NO_OPEN_CURSOR.code}
)
"""Errors whose text names a prepared statement by its id."""
_SHUTDOWNS: Final = frozenset({Error.ER_SERVER_SHUTDOWN.code, Error.ER_SERVER_OFFLINE_MODE.code})
"""Errors by which a server says that it shuts down, or serves nobody for now."""
_TRANSIENT: Final = _SHUTDOWNS | {
    Error.ER_LOCK_WAIT_TIMEOUT.code,
    Error.ER_LOCK_DEADLOCK.code,
    Error.ER_QUERY_INTERRUPTED.code,
    _QUERY_TIMEOUT,
}
"""These, and errors which say that something was in the way, or the statement was killed."""


class Answer:
    """The answer to one command.

    Attributes:
        started: some of it has gone to the client.
        held: its first bytes, while it is not clear yet whether they count.
        ending: its last bytes, while they are kept from the client; else None.
        prepared_anew: a server had forgotten the statement, and was asked to prepare it again.
    """

    def __init__(self) -> None:
        self.started = False
        self.held = b""
        self.ending: bytes | None = None
        self.prepared_anew = False

    def meaning(self, error: bytes, command: Command, state: Session, *, may_move: bool) -> Meaning:
        """What an ERR means that came before anything else.

        Args:
            error: its payload.
            command: what it answers.
            state: of the session.
            may_move: another server than the one that sent it could answer.
        """
        code = _code(error)
        prepared = command.prepared
        if code in _FORGOTTEN and prepared is not None and prepared.moves:
            return "pass" if self.prepared_anew or not command.packet else "again"
        if not may_move:
            return "pass"
        if code in _WRITES:
            return "forbidden"
        if code in (_FULL, _REDEFINED) or (code == _QUERY_TIMEOUT and _unlimited(command, state)):
            return "full"
        if code in _DENIALS:
            return "denied"
        return "leaving" if code in _SHUTDOWNS else "pass"


def _unlimited(command: Command, state: Session) -> bool:
    """Whether a limit of execution time is the replica's own, not one that the client set."""
    hinted = b"MAX_EXECUTION_TIME" in command.text.upper()
    return "max_execution_time" not in state.variables and not hinted


def as_the_client_knows_it(data: bytes, command: Command, connection: ServerConnection) -> bytes:
    """A framed ERR with the client's id of a prepared statement in place of the server's."""
    prepared = command.prepared
    handle = None if prepared is None else connection.mirror.statements.get(prepared.number)
    if prepared is None or handle is None or _code(data[4:]) not in _NAMING:
        return data
    payload = data[4:].replace(b"(%d)" % handle.server_id, b"(%d)" % prepared.number, 1)
    return frame(payload, data[3])


def is_transient(error: bytes) -> bool:
    """Whether the server may answer differently in a moment; `error` is an ERR's payload."""
    return _code(error) in _TRANSIENT


def wants_file(command: Command) -> bool:
    """Whether a client's command makes its server ask for a local file."""
    text = command.packet.upper()
    return command.is_query and (
        not text or (b"LOAD" in text and b"LOCAL" in text and b"INFILE" in text)
    )


def _code(error: bytes) -> int:
    return error[1] | error[2] << 8

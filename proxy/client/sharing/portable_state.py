"""Whether a session can do without its connection to the primary for a while, and what it carries.

Theory of operation
===================

An idle session gives its connection back (`connection_lease`), and logs in again when it needs one
(`reconnect`). Then the new connection must be in the same state as the old one. So a session does
that only while all that it did was of kinds that are known to leave no other state behind: a list
of what is allowed, not of what is forbidden. Its state is then the schema, variables that are known
by value, and what the next statement may ask about the one before. The latter and the values of
its variables are asked for (`proxy.client.statements.saved_state`) before the connection is given
back; the new one has to show the same values (`session_values`).

A primary that is gone cannot be asked. Its sessions live on with what the proxy knows by itself
(docs/architecture/without-primary.md): whatever a session has that no replica is told is either
known by value, or named by `lacking`, and then the session ends.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.constants import Command as Code
from proxy.client.statements.saved_state import saved_state
from routing.servers.topology import Server
from routing.session.variables import CARRIED, FLAGS, SWITCH
from routing.sql.lexer import CALLED, VARIABLE, WORD, lex
from routing.sql.statement import NOT_PLAIN, StatementClass, StatementReason, names_id

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.client.session_context import SessionContext
    from proxy.server.connection import ServerConnection
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.session.session import Session
    from routing.sql.statement import Statement

_APART: Final = rb"(?:\s|/\*(?![!+])[^*]*\*/|(?:--\s|#)[^\n]*(?:\n|\Z))*"
"""Blanks and comments."""
_SELECT_ID: Final = re.compile(
    _APART
    + rb"SELECT\s+(?P<function>CONNECTION_ID\s*\(\s*\))"
    + rb"(?:\s*AS\s+(?P<bare>[a-z_]\w*)|\s*(?:AS\s*)?`(?P<quoted>\w+)`)?\s*;?"
    + _APART,
    re.IGNORECASE,
)
"""What is mostly asked of it."""
_SETTABLE: Final = (CARRIED | {"names", "character set", "autocommit"}) - {
    *(SWITCH, FLAGS),  # its flags are known one by one
    *("sql_select_limit", "max_execution_time"),  # they affect the proxy's own questions
    *("wait_timeout", "interactive_timeout"),  # nobody would end a session without a connection
}
_LAST_INSERT_ID: Final = re.compile(rb"LAST_INSERT_ID|@@[\w.\s`]*IDENTITY", re.IGNORECASE)
_MADE_ANEW: Final = ("insert_id", "last_insert_id", "identity", "resource_group")
"""Variables whose values cannot be given to another session, or count once."""
_LEAVING_NOTHING: Final = (
    *(
        StatementReason.NOTHING,
        StatementReason.DATA,
        StatementReason.DEFINITION,
        StatementReason.LOCKING_READ,
    ),
    *(
        StatementReason.SYSTEM_VARIABLE,
        StatementReason.SESSION_FUNCTION,
        StatementReason.SERVER_STATE,
    ),
    *(StatementReason.DIAGNOSTICS, StatementReason.FOUND_ROWS),
)
"""Writes, and questions about the session, that leave only what is asked for then."""
# Looked up once.
_RESET: Final = Code.COM_RESET_CONNECTION
_SET_OPTION: Final = Code.COM_SET_OPTION
_KINDS: Final = (StatementClass.READ, StatementClass.TRANSACTION, StatementClass.DIAGNOSTIC)
_CODES: Final = (
    *(Code.COM_PING, Code.COM_INIT_DB, Code.COM_STATISTICS, Code.COM_FIELD_LIST),
    *(Code.COM_STMT_PREPARE, Code.COM_STMT_EXECUTE, Code.COM_STMT_RESET, Code.COM_STMT_FETCH),
)


class Carried(NamedTuple):
    """What a session without a connection carries, besides what routing knows of it.

    Attributes:
        server, epoch: the incarnation of the primary that the connection was to.
        last_insert_id: LAST_INSERT_ID(); None if the primary was gone before it told.
        values: of its variables (`saved_state.VALUES`); empty likewise.
        wait_timeout: how long the server would let it be idle, s.
    """

    server: Server
    epoch: int
    last_insert_id: int | None
    values: bytes
    wait_timeout: float


class PortableState:
    """What is known of one session's connection to the primary, from what ran on it.

    Attributes:
        carried: what the session carries while it has no connection; else None.
        unnamed: CONNECTION_ID() on it does not return the id that the client was given.
        lacks_insert_id: LAST_INSERT_ID() may have had another value on a primary that is gone.
        lacks_diagnostics: the same of what the statement before has left.
    """

    def __init__(self, session: SessionContext, connection_id: int) -> None:
        """`connection_id` is the one that the client was told."""
        self._connection_id = connection_id
        self._state = session.state
        self._servers = session.servers
        self._prepared = session.prepared
        self._settings = session.settings
        self._kept_for = ""
        self.carried: Carried | None = None
        self.unnamed = False
        self.lacks_insert_id = self.lacks_diagnostics = False

    def began(self) -> None:
        """Somebody logged in."""
        self._kept_for = ""
        self.carried = None
        self._begin_anew()

    def began_without(self, primary: Server, wait_timeout: float) -> None:
        """Somebody logged in while this primary is gone."""
        self.began()
        self.carried = Carried(primary, primary.epoch, 0, b"", wait_timeout)

    def _begin_anew(self) -> None:
        """The connection's session has the connection's own id."""
        primary = self._servers.primary
        self.unnamed = primary is not None and primary.thread_id != self._connection_id
        self.lacks_insert_id = self.lacks_diagnostics = False

    def reset_without_primary(self) -> None:
        """The session was reset while it has no connection."""
        carried = self.carried
        if carried is not None:
            self.carried = carried._replace(last_insert_id=0, values=b"")
        self.lacks_insert_id = self.lacks_diagnostics = False

    def changed_without_primary(self) -> None:
        """What the session carries has changed: no values of it are known any more.

        `carried` is another value then: a connection that is being made for the one before is not
        fit for the session.
        """
        carried = self.carried
        if carried is not None:
            self.carried = carried._replace(values=b"")

    @property
    def is_kept(self) -> bool:
        """Whether the session keeps its connection until its user changes."""
        return bool(self._kept_for)

    def keep(self, reason: str) -> None:
        """Let the session keep its connection until its user changes."""
        self._kept_for = self._kept_for or reason

    def ended(
        self, command: Command, outcome: CommandOutcome, connection: ServerConnection
    ) -> None:
        """A command has ended on a server: see whether it leaves state that cannot be carried."""
        if connection is not self._servers.primary:
            return
        if command.code is _RESET and not outcome.error:
            self._begin_anew()  # also where the session keeps its connection
        if self._kept_for:
            return
        if command.code is _SET_OPTION:
            connection.keepable = False  # neither a reset nor a change of user undoes it
        reason = unshared(command, outcome, self._state)
        if reason and outcome.error and reason == "setting":
            return  # nothing was set
        self._kept_for = reason

    def shows_other_id(self, text: bytes) -> bool:
        """Whether a statement's text shows the id of a connection that the client was not told."""
        if not (self.unnamed and names_id(text)):
            return False
        tokens = lex(text, self._state.lexer_modes.flags)
        if tokens is None:
            return True  # nobody knows what it is
        kinds, words = tokens.kinds, tokens.words
        for index, kind in enumerate(kinds[:-1]):
            word = words[index]
            if kind in (WORD, CALLED) and word == b"CONNECTION_ID" and words[index + 1] == b"(":
                return True
            if kind in (WORD, VARIABLE) and b"PSEUDO_THREAD_ID" in word.upper():
                return True
        return False

    def reason(self) -> str:
        """Why the session cannot give its connection to the primary back now; "" if it can."""
        state, primary = self._state, self._servers.primary
        if self._kept_for:
            return self._kept_for
        if primary is None or primary.busy or primary.lost or primary.unsent:
            return "busy"
        if primary.verified_login is None:
            return "account"
        if not state.transaction.is_nowhere:
            return "transaction"
        if state.pins.reasons or state.role is not None:
            return "pinned"
        if (
            state.trackers_pending
            or state.result_trackers_pending
            or not state.lexer_modes.known
            or state.transaction.modes.waiting
        ):
            return "unknown"
        if self._settings.undone or self._settings.untracked or state.trackers.of_transactions:
            return "tracking"
        if len(self._prepared) or len(state.text_prepared) or primary.mirror.statements:
            return "prepared"
        return "" if state.diagnostics.can_leave(primary.area) else "previous"

    def lacking(self, primary: ServerConnection) -> str:  # noqa: C901 one reason after the other
        """What a session had on a primary that is gone, and cannot be given another; "" if nothing.

        For its client to read.
        """
        state = self._state
        transaction = state.transaction
        unheard = transaction.is_unheard_of and not transaction.is_uncertain
        if not (transaction.is_nowhere or unheard) or transaction.modes.waiting:
            return "its transaction"
        if state.pins.reasons:
            return state.pins.text
        if state.trackers_pending or state.result_trackers_pending or not state.lexer_modes.known:
            return "what a statement may have set"
        if not state.user_variables.known:
            return "the values of its user variables"
        unknown = [
            name
            for name, literal in state.primary_variables.items()
            if literal is None or name in _MADE_ANEW or not _is_automatic(name, literal)
        ]
        if unknown:
            return f"the value of {', '.join(unknown)}"
        if state.trackers.of_transactions:
            return "session_track_transaction_info"
        if state.prepared_by_text:
            return "statements that were prepared by PREPARE"
        if state.multi_statements:
            return "what COM_SET_OPTION has set"
        if any(not prepared.sql for prepared in self._prepared):
            return "a prepared statement whose text is too long to be kept"
        if any(prepared.long_data_sent for prepared in self._prepared):
            return "what COM_STMT_SEND_LONG_DATA has brought"
        if self._prepared.has_cursor_on(primary):
            return "an open cursor"
        return ""

    def outlive(self, primary: ServerConnection) -> None:
        """The connection is lost with its server, and the session lives on: it lacks nothing."""
        state = self._state
        self.lacks_insert_id = True
        self.lacks_diagnostics = not state.diagnostics.can_leave(primary.area)
        self.carried = Carried(primary.server, primary.epoch, None, b"", state.wait_timeout)

    def asks_what_is_lost(self, text: bytes) -> bool:
        """Whether a text names LAST_INSERT_ID(), which was lost with a primary."""
        return self.lacks_insert_id and _LAST_INSERT_ID.search(text) is not None

    def save(self, primary: ServerConnection, stream: ResponseStream) -> None:
        """Take what the primary says: now the connection may be given back, or is kept."""
        saved, state = saved_state(stream), self._state
        if saved is None or saved.tracking != state.trackers.gtids.encode("ascii"):
            self.keep("unknown")
            return
        if saved.schema != state.schema:
            self.keep("unknown")
        self.carried = Carried(
            primary.server,
            primary.epoch,
            saved.last_insert_id,
            saved.values,
            saved.wait_timeout,
        )


def _is_automatic(name: str, literal: str) -> bool:
    """Whether a gtid_next leaves it to the server to name what is committed."""
    return name != "gtid_next" or literal.strip("'\"").upper().partition(":")[0] == "AUTOMATIC"


def select_known_id(text: bytes, connection_id: int) -> bytes | None:
    """What selects this id as a text asks for the connection's; None where it asks for more.

    The result has the type that the function has, and the same name.
    """
    found = _SELECT_ID.fullmatch(text)
    if found is None:
        return None
    quoted = b"`%b`" % (found["quoted"] or found["function"])
    # A bare alias may be a reserved word, of which the server complains.
    return b"SELECT CAST(%d AS UNSIGNED) AS %b" % (connection_id, found["bare"] or quoted)


def unshared(command: Command, outcome: CommandOutcome, state: Session) -> str:
    """Why a session that ran this on its primary may have what cannot be carried; "" if it has not.

    Args:
        command: it has ended.
        outcome: what became of it.
        state: the session after it.
    """
    statement = command.statement
    if statement is None:
        return "" if command.code in _CODES and not command.may_write else "command"
    if statement.names_id:
        return "connection_id"
    if statement.plain == NOT_PLAIN:  # else it is nothing of this
        if statement.multi or statement.text_prepared is not None or statement.calls_programs:
            return "program"
        if statement.assignments or statement.reason is StatementReason.DEFAULT_SCHEMA:
            return "" if _is_carried(statement, state) else "setting"
        if statement.holds and not statement.begins:
            return "" if not statement.pins else "pinned"
        if statement.kind not in _KINDS and statement.reason not in _LEAVING_NOTHING:
            return "setting" if statement.kind is StatementClass.SESSION else "program"
    if statement.names_user_variables:
        return "user_variable"
    return "setting" if outcome.state_changed else ""


def _is_carried(statement: Statement, state: Session) -> bool:
    """Whether all that a statement about the session sets is known by value."""
    if statement.reason is StatementReason.DEFAULT_SCHEMA:
        return True
    if statement.reason not in (StatementReason.SETTING, StatementReason.TRANSACTION):
        return False
    return all(
        assignment.scope == "session"
        and assignment.name in _SETTABLE
        and assignment.value is not None
        and (assignment.name == "autocommit" or assignment.name in state.variables)
        for assignment in statement.assignments
    )

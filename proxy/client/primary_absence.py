"""What is done with a command that the primary alone may be asked, while there is no primary.

Drivers and pools send a few such commands before each read: they set character sets, sql_mode and
autocommit, choose a schema, ask for system variables, ping, reset, and begin and end transactions
that at most read on a replica. If these failed, nobody could read. Those whose effect is known are
carried out by the proxy; those that a server has to judge are sent to a replica, which gives the
same answer, and the effect is remembered for the primary to come. All else is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from protocol.command import query_text_offset
from protocol.constants import Command as Code
from routing.session.variables import CARRIED, FLAGS, NOT_CARRIED, SWITCH
from routing.sql.statement import StatementClass, StatementReason

if TYPE_CHECKING:
    from routing.request.command import Command
    from routing.session.session import Session

Substitute = Literal["refuse", "confirm", "begin", "end", "reset", "set", "replica"]
"""confirm: say OK, since there is nothing to do; begin: begin a transaction of which no server
hears before its first read; end: end the one that a replica has; set: take the assignment, and say
OK."""

_OF_COMMANDS: Final[dict[Code, Substitute]] = {
    Code.COM_PING: "confirm",
    Code.COM_RESET_CONNECTION: "reset",
    Code.COM_INIT_DB: "replica",
}
_OWN: Final = ("autocommit", "transaction_read_only")
"""Variables that no replica's connection may be given."""
_BOOLEANS: Final = ("0", "1", "ON", "OFF", "TRUE", "FALSE")
_ON_REPLICAS: Final = (CARRIED | NOT_CARRIED | {"names", "character set"}) - {
    *_OWN,
    *(FLAGS, SWITCH, "gtid_next", "tx_read_only", "resource_group", "xa_detach_on_prepare"),
    *("insert_id", "last_insert_id", "identity"),
}
"""Variables that a replica can be given, and that its connection keeps nothing else for."""
_ENDS: Final = re.compile(rb"\s*(?:COMMIT|ROLLBACK)(?:\s+WORK)?\s*;?\s*", re.IGNORECASE)
_BEGINS: Final = re.compile(
    rb"\s*(?:BEGIN(?:\s+WORK)?|START\s+TRANSACTION(?:\s+READ\s+(?P<mode>ONLY|WRITE))?)\s*;?\s*",
    re.IGNORECASE,
)
_USE: Final = re.compile(rb"\s*USE\s+(?:`(?P<quoted>[^`]+)`|(?P<bare>\w+))\s*;?\s*", re.IGNORECASE)
_OTHERWISE: Final = re.compile(
    rb"AUTOCOMMIT|READ_ONLY|SESSION_TRACK|PSEUDO_|IDENTITY|INSERT_ID|RAND_SEED|GTID|CONNECTION_ID"
    rb"|ROW_COUNT|FOUND_ROWS|_COUNT\b",
    re.IGNORECASE,
)
"""What a replica's connection would answer otherwise than the session's own."""


def text_of(command: Command, query_attributes: bool) -> bytes:
    """The text of a COM_QUERY that came whole; empty of anything else."""
    if not command.is_query or not command.packet:
        return b""
    payload = command.packet[4:]
    return payload[query_text_offset(payload, query_attributes) :]


def substitute(command: Command, text: bytes, state: Session) -> Substitute:
    """What is to be done with a command in the place of the primary.

    Args:
        command: it.
        text: of a COM_QUERY; else empty.
        state: of the session that sent it.
    """
    if command.is_query:
        return _of_statement(command, text, state)
    return _OF_COMMANDS.get(command.code, "refuse")


def _of_statement(command: Command, text: bytes, state: Session) -> Substitute:
    """What is to be done with a COM_QUERY."""
    statement = command.statement
    if statement is None or statement.multi:
        return "refuse"
    if statement.begins:
        begins = _BEGINS.fullmatch(text) and state.transaction.may_begin_unheard_of(state)
        return "begin" if begins else "refuse"
    if statement.holds:
        return "refuse"
    if statement.assignments:
        return _assigning(command, state)
    if statement.kind is StatementClass.TRANSACTION:
        return _ending(text, state)
    if statement.kind is StatementClass.READ:
        # Where it reads no table, it is the primary's only lest it take the snapshot.
        waits = not statement.identifiers and state.transaction.waits_for_table(
            state, command.rules
        )
        return (
            "replica" if waits and state.user_variables.know(statement.user_variables) else "refuse"
        )
    if statement.may_write or statement.kind is not StatementClass.SESSION:
        return "refuse"
    if statement.reason is StatementReason.DEFAULT_SCHEMA:
        return "replica"
    if statement.reason in (StatementReason.SYSTEM_VARIABLE, StatementReason.SESSION_FUNCTION):
        return _asking(text, state)
    return "refuse"


def _ending(text: bytes, state: Session) -> Substitute:
    """What is to be done with a statement about transactions."""
    transaction = state.transaction
    if transaction.modes.waiting or not _ENDS.fullmatch(text):
        return "refuse"
    if transaction.is_unheard_of:
        return "end"
    return "confirm" if transaction.is_nowhere else "refuse"


def read_only(text: bytes) -> bool | None:
    """What a statement that begins a transaction says of its access mode; None if nothing."""
    found = _BEGINS.fullmatch(text)
    mode = None if found is None else found["mode"]
    return None if mode is None else mode.upper() == b"ONLY"


def _asking(text: bytes, state: Session) -> Substitute:
    """What is to be done with a question: a replica may show another value than the session has."""
    upper = text.upper()
    own = any(name.upper().encode() in upper for name in state.primary_variables)
    users = b"@" in upper.replace(b"@@", b"")
    return "refuse" if own or users or _OTHERWISE.search(text) else "replica"


def _assigning(command: Command, state: Session) -> Substitute:
    """What is to be done with a SET."""
    statement = command.statement
    if statement is None or not state.transaction.is_nowhere:
        return "refuse"
    assignments = statement.assignments
    if len(assignments) == 1 and assignments[0].name in _OWN:
        first = assignments[0]
        known = (first.value or "").strip("'\"").upper() in _BOOLEANS
        return "set" if first.scope == "session" and known else "refuse"
    fits = all(
        assignment.value is not None
        and (
            assignment.scope == "user"
            or (assignment.scope == "session" and assignment.name in _ON_REPLICAS)
        )
        for assignment in assignments
    )
    return "replica" if fits else "refuse"


def chooses_schema(command: Command) -> bool:
    """Whether a command that a replica may run in the primary's place chooses the schema."""
    statement = command.statement
    if statement is None:
        return command.code is Code.COM_INIT_DB
    return statement.reason is StatementReason.DEFAULT_SCHEMA


def is_utf8(text: bytes) -> bool:
    """Whether a text can be UTF-8."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def schema_chosen(command: Command, text: bytes) -> str:
    """The default schema that a COM_INIT_DB, or a USE that is plain, chooses; "" if not known.

    A tracker tells it in any case, where there is one.
    """
    if command.code is Code.COM_INIT_DB:
        name = command.packet[5:]
        return name.decode("ascii") if name.isascii() else ""
    found = _USE.fullmatch(text)
    if found is None:
        return ""
    name = found["quoted"] or found["bare"]
    return name.decode("ascii") if name.isascii() else ""

"""Asks what a session begins with, behind a COM_RESET_CONNECTION (`routing.session.defaults`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.resultset import parse_text_row
from proxy.server.exchange import DEFAULTS
from proxy.server.statement_packet import statement_packet
from routing.session.defaults import ASK, COLUMN, Defaults, defaults_of

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.server.exchange import Batch
    from routing.session.session import Session

_SQL: Final = (
    b"SELECT CONVERT(@@SESSION.transaction_isolation USING binary)"
    b",CONVERT(@@SESSION.autocommit USING binary),CONVERT(@@SESSION.sql_mode USING binary)"
    b",CONVERT(@@SESSION.character_set_client USING binary)"
    b",CONVERT(@@SESSION.wait_timeout USING binary),%b LIMIT 1"
)


class SessionStart(NamedTuple):
    """What the primary's session begins with.

    Attributes:
        isolation: `transaction_isolation`.
        autocommit: is on.
        sql_mode: the modes.
        character_set: `character_set_client`.
        wait_timeout: how long it may be idle, s.
        defaults: all else that matters.
    """

    isolation: str
    autocommit: bool
    sql_mode: str
    character_set: str
    wait_timeout: int
    defaults: Defaults


def ask_start(state: Session, query_attributes: bool) -> Batch:
    """What the primary's session begins with."""
    question = _SQL % (COLUMN if state.defaults.values else b"''")
    return ((DEFAULTS, statement_packet(question, query_attributes)),)


def session_start(stream: ResponseStream) -> SessionStart | None:
    """Its answer; None where there is none."""
    row = [] if stream.error is not None or stream.row is None else parse_text_row(stream.row)
    if len(row) != 6:
        return None
    isolation, autocommit, sql_mode, character_set, wait_timeout, values = (
        (value or b"").decode("ascii", "replace") for value in row
    )
    defaults = defaults_of(values.encode())
    if not (wait_timeout.isascii() and wait_timeout.isdecimal()):
        return None
    return SessionStart(
        isolation, autocommit != "0", sql_mode, character_set, int(wait_timeout), defaults
    )


def ask_defaults(query_attributes: bool) -> Batch:
    """What a replica's session begins with; the row is compared with that of its login."""
    return ((DEFAULTS, statement_packet(ASK, query_attributes)),)

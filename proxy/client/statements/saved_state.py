"""Asks the primary what a session carries that gives its connection back.

That is LAST_INSERT_ID(), the schema, how long it may be idle, and the values of all variables that
show in answers (`proxy.client.sharing.portable_state`). The same values are compared on the
connection that is borrowed later (`proxy.client.sharing.session_values`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.resultset import parse_text_row
from proxy.server.exchange import SAVE_STATE
from proxy.server.statement_packet import statement_packet
from routing.session.variables import CARRIED, LATER, NOT_CARRIED, PINNING, SWITCH, TRACKING

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.server.exchange import Batch

_UNSTEADY: Final = frozenset(
    {"identity", "insert_id", "last_insert_id", "rand_seed1", "rand_seed2", "gtid_next"}
)
_GLOBAL: Final = frozenset(
    {
        *("collation_database", "explain_format", "max_allowed_packet", "max_sp_recursion_depth"),
        *("restrict_fk_on_non_standard_key", "show_create_table_verbosity", SWITCH),
        *("max_seeks_for_key", "parser_max_mem_size", "connection_memory_limit"),
        *("innodb_ft_enable_stopword", "innodb_ft_user_stopword_table", "innodb_table_locks"),
        *("old_alter_table", "print_identified_with_as_hex", "generated_random_password_length"),
    }
)
"""Variables that no session carries, and whose default values show in answers."""
_ABSENT: Final = frozenset({"resource_group", "tx_read_only"})
_OF_LEVEL: Final = "session_track_gtids"
"""What Tidegate sets as the session's level needs it, which may change while it has no connection.
"""
_COMPARED: Final = sorted(
    (CARRIED | NOT_CARRIED | TRACKING | _GLOBAL | set(PINNING)) - _UNSTEADY - _ABSENT - {_OF_LEVEL}
)


_ROLES: Final = "roles"
VALUE_NAMES: Final = (_ROLES, *_COMPARED)
"""The parts of `VALUES`, in their order: the active roles, and variables."""
_JOINED: Final = b"\x1f"


def _value(name: str) -> str:
    if name in LATER:
        return f"COALESCE(/*!{LATER[name]} @@SESSION.{name}, */0x3F)"
    return f"IFNULL(@@SESSION.{name},0x00)"


VALUES: Final = f"CONCAT_WS(0x1F,CURRENT_ROLE(),{','.join(map(_value, _COMPARED))})".encode("ascii")
"""A session's roles, and the values of its variables, joined; the separator makes them binary, so
that no character set changes them."""
SAVE_STATE_SQL: Final = (
    b"SELECT LAST_INSERT_ID(),DATABASE(),@@SESSION.wait_timeout,@@SESSION.%b,"
    % _OF_LEVEL.encode("ascii")
    + VALUES
)
_COLUMNS: Final = 5


class SavedState(NamedTuple):
    """What the primary says of the session.

    Attributes:
        last_insert_id: LAST_INSERT_ID().
        schema: the default schema; "" if there is none.
        wait_timeout: how long the server lets the session be idle, s.
        tracking: `session_track_gtids`.
        values: of the session's roles and variables (`VALUES`).
    """

    last_insert_id: int
    schema: str
    wait_timeout: float
    tracking: bytes
    values: bytes


def ask_state(query_attributes: bool) -> Batch:
    """The question."""
    return ((SAVE_STATE, statement_packet(SAVE_STATE_SQL, query_attributes)),)


def saved_state(stream: ResponseStream) -> SavedState | None:
    """Its answer; None where there is none, or in a character set that is not ASCII's."""
    row = [] if stream.row is None or stream.error is not None else parse_text_row(stream.row)
    if len(row) != _COLUMNS:
        return None
    inserted, schema, wait_timeout, tracking, values = row
    if tracking is None or values is None:
        return None
    try:
        last_insert_id = int(inserted or b"0")
        idle = float(wait_timeout or b"0")
    except ValueError:
        return None
    name = (schema or b"").decode("utf-8", "surrogateescape")
    return SavedState(last_insert_id, name, idle, tracking, _same(values))


def values_by_name(values: bytes) -> dict[str, bytes]:
    """The parts of `VALUES`; empty where they are not those."""
    parts = values.rsplit(_JOINED, len(VALUE_NAMES) - 1)
    return dict(zip(VALUE_NAMES, parts, strict=True)) if len(parts) == len(VALUE_NAMES) else {}


@lru_cache(maxsize=64)
def _same(values: bytes) -> bytes:
    """The same object for the same values: of each, most sessions of an application have 2 KB."""
    return values

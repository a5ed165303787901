"""Gives a session the values of variables that it had, where the server's defaults have changed.

A SET GLOBAL changes no session that exists. So a session that had no connection meanwhile must not
notice it either: what its new connection begins with is compared with what it had, and set back. A
value that its account may not set, or that no session may set (max_allowed_packet), stays the new
one, as after a login; such are sizes, and rules for definitions of tables and for the binary log
(docs/mysql-behaviour.md, *SET GLOBAL and sessions*).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.errors import ServerErrorCode
from proxy.client.statements.saved_state import VALUE_NAMES, VALUES, values_by_name
from proxy.server.errors import ServerRefusedError
from proxy.server.query import answer, ask
from routing.session.defaults import flags_between, literal_shown
from routing.session.variables import SWITCH, exact

if TYPE_CHECKING:
    from proxy.server.connection import ServerConnection

ASK: Final = b"SELECT " + VALUES + b" LIMIT 1"
"""The LIMIT is stronger than a default sql_select_limit."""
_NOT_SETTABLE: Final = frozenset(
    error.code
    for error in (
        ServerErrorCode.ER_SPECIFIC_ACCESS_DENIED_ERROR,
        ServerErrorCode.ER_INCORRECT_GLOBAL_LOCAL_VAR,
        ServerErrorCode.ER_VARIABLE_IS_READONLY,
    )
)
_BOUNDED: Final = frozenset({"parser_max_mem_size"})
"""Of which a session without SESSION_VARIABLES_ADMIN has the global value at most: a server takes
that then."""
_ROUNDS: Final = 2
"""Setting a variable may set another one, too: max_join_size does with sql_big_selects."""


class OtherValuesError(Exception):
    """The session cannot have its values again; the text says which."""


async def set_back(connection: ServerConnection, own: bytes, found: bytes | None) -> None:
    """Give a connection's session these values.

    Args:
        connection: to the primary; nothing is awaited on it.
        own: what the session had (`saved_state.VALUES`).
        found: what the connection has.

    Raises:
        OtherValuesError: it cannot have them.
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    refused: set[str] = set()
    for _ in range(_ROUNDS):
        changed = _changed(own, found) - refused
        if not changed:
            return
        wanted, present = values_by_name(own), values_by_name(found or b"")
        statements = {name: _set(name, wanted[name], present[name]) for name in sorted(changed)}
        ask(connection, *statements.values(), ASK)
        errors: list[ServerRefusedError] = []
        for name in statements:
            try:
                await answer(connection)
            except ServerRefusedError as error:
                if error.error.code in _NOT_SETTABLE:
                    refused.add(name)
                else:
                    errors.append(error)
        row = await answer(connection)
        if errors:
            raise errors[0]
        found = row[0] if row else None
    left = _changed(own, found) - refused - _BOUNDED
    if left:
        raise OtherValuesError(f"default values of variables have changed: {', '.join(left)}")


def _changed(own: bytes, found: bytes | None) -> set[str]:
    """The names of values that differ."""
    if own == found:
        return set()
    wanted, present = values_by_name(own), values_by_name(found or b"")
    if not (wanted and present):
        raise OtherValuesError("the server does not say what the session begins with")
    return {name for name in VALUE_NAMES if wanted[name] != present[name]}


def _set(name: str, wanted: bytes, present: bytes) -> bytes:
    """The statement that sets a value."""
    text = wanted.decode("utf-8", "surrogateescape")
    if name == VALUE_NAMES[0]:
        return f"SET ROLE {text}".encode("utf-8", "surrogateescape")
    value: str | None
    if wanted == b"\0":
        value = "NULL"
    elif name == SWITCH:
        # A server sometimes refuses its own whole value (9.7.4).
        value = flags_between(present.decode("ascii", "replace"), text)
    else:
        value = literal_shown(name, text)
    if not value:
        raise OtherValuesError(f"the default value of {name} has changed")
    return f"SET @@SESSION.{name}={exact(value)}".encode("utf-8", "surrogateescape")

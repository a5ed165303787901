"""What a server must be told before it can run a session's statement, as batches of commands.

No I/O. What a batch tells is noted in the connection's `Mirror`, so that the next one builds on it;
`query_attributes` is how the connection was negotiated (CLIENT_QUERY_ATTRIBUTES).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.packet import frame
from proxy.client.statements.defaults import ask_defaults
from proxy.server.exchange import SETUP
from proxy.server.statement_packet import statement_packet
from routing.session.defaults import SETS, differences, in_one_set
from routing.session.variables import FLAGS, SWITCH, exact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.server.exchange import Batch
    from proxy.server.mirror import Mirror
    from routing.session.session import Session

_LONGEST_SET: Final = 1000
"""How long a SET of several variables gets, bytes; max_allowed_packet is 1024 at least."""
_IN_UTF8: Final = b"SET character_set_client=utf8mb4"
_OF_CHARACTER_SETS: Final = frozenset(
    {
        *("names", "character set", "character_set_client", "character_set_connection"),
        *("character_set_results", "collation_connection", "default_collation_for_utf8mb4"),
    }
)
RESET_CONNECTION: Final = b"\x01\x00\x00\x00\x1f"
"""A COM_RESET_CONNECTION, framed."""


def set_up(mirror: Mirror, state: Session, settings: bytes, query_attributes: bool) -> Batch:
    """Gives a connection the session's variables.

    Args:
        mirror: of the connection.
        state: of the session.
        settings: the SET statement that made the connection fit for its purpose.
        query_attributes: were negotiated.
    """
    batch: Batch = ()
    if mirror.needs_reset:
        batch = _reset(mirror, state, settings, query_attributes)
    if mirror.variables_version != state.variables_version:
        begun = mirror.variables_version >= 0
        base = {} if begun else differences(state.defaults, mirror.defaults)
        mirror.variables_version = state.variables_version
        # A server may not take a value that the client has replaced since.
        own = {
            name: literal
            for name, literal in base.items()
            if name == FLAGS or name not in state.variables
        }
        statements = [*assignments(own), *assignments(state.variables)]
        mirror.untouched = mirror.untouched and not statements
        batch += _prepared_by(statements, query_attributes)
    return batch


def _reset(mirror: Mirror, state: Session, settings: bytes, query_attributes: bool) -> Batch:
    """A reset, and the question whether the session begins there as it did before.

    It has the server's own character sets then, which may be others than those of the login.
    """
    question: Batch = ()
    mirror.reset()
    if mirror.defaults.values and state.defaults.values:
        sets = [state.defaults.values[name] for name in SETS]
        settings += b"," + in_one_set(*sets)
        mirror.defaults = mirror.defaults.in_sets_of(state.defaults)
        question = ask_defaults(query_attributes)
    mirror.begin(state)
    again = statement_packet(settings, query_attributes)
    return ((SETUP, RESET_CONNECTION), (SETUP, again), *question)


def assign_user_variables(
    mirror: Mirror, state: Session, names: tuple[str, ...], query_attributes: bool
) -> Batch:
    """Gives a connection user variables whose values are known."""
    return _prepared_by(user_variables(mirror, state, names), query_attributes)


def user_variables(mirror: Mirror, state: Session, names: tuple[str, ...]) -> list[bytes]:
    """The same as statements."""
    assignments, current = [], mirror.user_variables
    for name in state.user_variables.expanded(names):
        literal = state.user_variables.value(name)
        if literal and current.get(name) != literal:
            current[name] = literal
            mirror.untouched = False
            assignments.append(_encoded(f"@`{name}`={literal}"))
    return _sets(assignments)


def _prepared_by(statements: list[bytes], query_attributes: bool) -> Batch:
    """Statements that must succeed."""
    return tuple([(SETUP, statement_packet(sql, query_attributes)) for sql in statements])


def rights(mirror: Mirror, state: Session, refreshed: bool, query_attributes: bool) -> Batch:
    """The session's role and schema, where they are not those that it gave last, in its order.

    They stand behind the WAIT, which may be for a GRANT, a REVOKE, or the schema itself. Like a
    server, a replica looks up again what the session may do; so the same is told again, too.

    Args:
        mirror: of the connection to a replica.
        state: of the session.
        refreshed: a statement stands before. What COM_INIT_DB finds is what the statement before it
            found, if roles are active.
        query_attributes: were negotiated.
    """
    batch: Batch = ()
    if state.schema and mirror.schema_version != state.schema_version:
        if state.schema_role_version == state.role_version:
            batch = _choose_role(mirror, state, query_attributes)
        elif mirror.role != state.schema_role and state.schema_role is not None:
            batch = _set_role(mirror, state.schema_role, query_attributes)
        if not batch and not refreshed:
            batch = ((SETUP, statement_packet(b"DO 0", query_attributes)),)
        batch += choose_schema_in_utf8(mirror, state.schema, state, query_attributes)
        mirror.schema_version = state.schema_version
    return batch + _choose_role(mirror, state, query_attributes)


def _choose_role(mirror: Mirror, state: Session, query_attributes: bool) -> Batch:
    if mirror.role_version == state.role_version:
        return ()
    mirror.role_version = state.role_version
    # Also where nobody has one: to look up the rights of the account itself again.
    return _set_role(mirror, state.active_roles, query_attributes)


def _set_role(mirror: Mirror, role: str, query_attributes: bool) -> Batch:
    mirror.role = role
    return ((SETUP, statement_packet(_encoded(f"SET ROLE {role}"), query_attributes)),)


def choose_schema(mirror: Mirror, schema: str) -> Batch:
    """A COM_INIT_DB.

    It stands behind the WAIT, which may be for the very statement that created the schema.
    """
    mirror.schema = schema
    return ((SETUP, frame(b"\x02" + schema.encode("utf-8", "surrogateescape"), 0)),)


def choose_schema_in_utf8(
    mirror: Mirror, schema: str, state: Session, query_attributes: bool
) -> Batch:
    """The same for a name that is not ASCII, in a session of any character set.

    A server converts the name from character_set_client, and its trackers tell names in UTF-8. So
    the character set is UTF-8 meanwhile, and then all that such a SET may follow is set again. It
    must not stand between a statement and a question about that, which a SET would make void.
    """
    chosen = choose_schema(mirror, schema)
    values = state.defaults.values
    given = any(0xDC80 <= ord(character) <= 0xDCFF for character in schema)  # as the login has it
    if schema.isascii() or given or _speaks_utf8(state) or not values:
        return chosen
    own = {name: text for name, text in state.variables.items() if name in _OF_CHARACTER_SETS}
    sets = [values[name] for name in SETS]
    again = [b"SET " + in_one_set(*sets), *assignments(own)]
    return (
        *_prepared_by([_IN_UTF8], query_attributes),
        *chosen,
        *_prepared_by(again, query_attributes),
    )


def _speaks_utf8(state: Session) -> bool:
    """Whether the session's character_set_client is known to be UTF-8."""
    client = state.defaults.character_set
    for name, literal in state.variables.items():
        if name in ("names", "character_set_client"):
            client = literal
        elif name == "character set":
            client = ""
    return client.lstrip("'\"").lower().startswith("utf8")


def assignments(variables: Mapping[str, str]) -> list[bytes]:
    """A SET for each run of ordinary variables and for each NAMES and CHARACTER SET, in order."""
    statements: list[bytes] = []
    run: list[bytes] = []
    for name, literal in variables.items():
        if name in ("names", "character set", FLAGS):
            statements += _sets(run)
            run = []
            if name == FLAGS:
                statements += _sets([_encoded(f"@@SESSION.{SWITCH}={exact(literal)}")])
            elif name == "names":
                statements.append(_encoded(f"SET NAMES {literal}"))
            else:
                statements.append(_encoded(f"SET {literal}"))
        else:
            run.append(_encoded(f"@@SESSION.{name}={exact(literal)}"))
    return statements + _sets(run)


def _sets(assignments: list[bytes]) -> list[bytes]:
    """As few SET statements as are short enough for any max_allowed_packet, if one alone is."""
    statements: list[bytes] = []
    for assignment in assignments:
        if statements and len(statements[-1]) + len(assignment) < _LONGEST_SET:
            statements[-1] += b"," + assignment
        else:
            statements.append(b"SET " + assignment)
    return statements


def _encoded(sql: str) -> bytes:
    return sql.encode("utf-8", "surrogateescape")

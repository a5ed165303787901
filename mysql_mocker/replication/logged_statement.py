"""A statement as a binary log has it: its own text, and what its effect depends on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.sql_mode import bits
from mysql_mocker.sql.value import Value, float_text

_UNSAFE: Final = re.compile(
    r"\b(?:UUID|USER|CURRENT_USER|SESSION_USER|FOUND_ROWS|ROW_COUNT|VERSION)\s*\(\s*\)|"
    r"\b(?:GET_LOCK|RELEASE_LOCK|IS_FREE_LOCK|IS_USED_LOCK|SYSDATE)\s*\(",
    re.IGNORECASE,
)
_DEFINITIONS: Final = frozenset(("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE"))


@dataclass(slots=True)
class LoggedStatement:
    """One statement of a transaction.

    Attributes:
        sql: MySQL's SQL, with its parameters' values written out.
        schema: the current one, "" for none.
        defines: it is a definition, and a transaction of its own.
        user: the account that ran it, without its host.
        thread_id: CONNECTION_ID().
        sql_mode: bits of its modes.
        last_insert_id: what LAST_INSERT_ID() was, 0 if it does not matter.
        insert_id: the first id that it gave out, 0 for none.
        user_variables: those that it names, with their values.
        unsafe: a server that runs it again gets other values; MySQL would log its rows.
    """

    sql: str
    schema: str
    defines: bool
    user: str
    thread_id: int
    sql_mode: int
    last_insert_id: int = 0
    insert_id: int = 0
    user_variables: Mapping[str, Value] = field(default_factory=dict)
    unsafe: bool = False


def logged(
    statement: Statement,
    *,
    schema: str,
    user: str,
    thread_id: int,
    sql_mode: str,
    last_insert_id: int,
    variables: Mapping[str, Value],
) -> LoggedStatement:
    """What has to be logged for the running statement.

    Args:
        statement: the statement.
        schema: the current one.
        user: of its session.
        thread_id: of its session.
        sql_mode: of its session.
        last_insert_id: of its session.
        variables: all user variables of its session.
    """
    tokens = statement.tokens
    named = {
        tokens[index + 1].text.lower()
        for index in range(len(tokens) - 1)
        if tokens[index].text == "@" and (index == 0 or tokens[index - 1].text != "@")
    }
    return LoggedStatement(
        _written_out(statement),
        schema,
        statement.words[0] in _DEFINITIONS,
        user,
        thread_id,
        bits(sql_mode),
        last_insert_id if "LAST_INSERT_ID" in statement.text.upper() else 0,
        user_variables={name: variables.get(name) for name in sorted(named)},
        unsafe=_UNSAFE.search(statement.text) is not None,  # in no long literal: it is taken out
    )


def _written_out(statement: Statement) -> str:
    """The text with literals where values were bound or taken out."""
    if not statement.values:
        return statement.text
    parts = []
    at = 0
    for token in statement.tokens:
        if token.text in statement.values:
            parts += [statement.text[at : token.start], _literal(statement.values[token.text])]
            at = token.end + 1
    return "".join((*parts, statement.text[at:]))


def _literal(value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        # In hex, so that it reads the same in every sql_mode.
        return f"_utf8mb4 X'{value.encode('utf-8', 'surrogateescape').hex()}'" if value else "''"
    return float_text(value) if isinstance(value, float) else str(value)

"""PREPARE, EXECUTE and DEALLOCATE in the text protocol."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mysql_mocker import script
from mysql_mocker.error import MySQLError, syntax_error
from mysql_mocker.result import Done, Result
from mysql_mocker.script import Statement

if TYPE_CHECKING:
    from mysql_mocker.session import Session

_NOT_PREPARABLE = frozenset(("BEGIN", "USE", "PREPARE", "EXECUTE", "DEALLOCATE", "LOCK", "UNLOCK"))


def check(statement: Statement) -> None:
    """Whether a statement can be prepared at all (fact 7.4).

    Raises:
        MySQLError: 1295.
    """
    if statement.words[0] in _NOT_PREPARABLE:
        raise MySQLError(
            1295, "HY000", "This command is not supported in the prepared statement protocol yet"
        )


def _unknown(name: str, action: str) -> MySQLError:
    message = f"Unknown prepared statement handler ({name}) given to {action}"
    return MySQLError(1243, "HY000", message)


def one(text: str, sql_mode: str) -> Statement:
    """The only statement of a text.

    Raises:
        MySQLError: 1064 for more than one, 1065 for none.
    """
    statements = script.split(text, sql_mode)
    if not statements:
        raise MySQLError(1065, "42000", "Query was empty")
    if len(statements) > 1:
        raise syntax_error(statements[1].text)
    check(statements[0])
    return statements[0]


async def prepare(session: "Session", statement: Statement) -> Done:
    """PREPARE name FROM 'text' or FROM @variable.

    Raises:
        MySQLError: the text is no statement.
    """
    tokens = statement.tokens
    if len(tokens) < 4 or statement.words[2] != "FROM":
        raise syntax_error(statement.text)
    text = statement.values.get(tokens[3].text, tokens[3].text)
    if tokens[3].text == "@":
        text = session.storage.surroundings.user_variables.get(tokens[4].text.lower())
    one(str(text), str(session.variables["sql_mode"]))
    session.prepared[tokens[1].text.lower()] = str(text)
    session.trackers.state_set()
    return Done(info="Statement prepared")


async def execute(
    session: "Session", statement: Statement, emit: Callable[[Result], Awaitable[None]]
) -> Result:
    """EXECUTE name [USING @a, …].

    Raises:
        MySQLError: 1243, 1210, or the statement's own error.
    """
    tokens = statement.tokens
    name = tokens[1].text.lower()
    if name not in session.prepared:
        raise _unknown(name, "EXECUTE")
    inner = one(session.prepared[name], str(session.variables["sql_mode"]))
    variables = session.storage.surroundings.user_variables
    values = [
        variables.get(tokens[place + 1].text.lower())
        for place, token in enumerate(tokens)
        if token.text == "@"
    ]
    if len(values) != inner.parameters:
        raise MySQLError(1210, "HY000", "Incorrect arguments to EXECUTE")
    return await session.execute(inner.with_parameters(values), emit)


async def deallocate(session: "Session", statement: Statement) -> Done:
    """DEALLOCATE PREPARE name.

    Raises:
        MySQLError: 1243.
    """
    name = statement.tokens[-1].text.lower()
    if session.prepared.pop(name, None) is None:
        raise _unknown(name, "DEALLOCATE PREPARE")
    session.trackers.state_set()
    return Done()

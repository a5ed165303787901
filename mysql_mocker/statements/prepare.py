"""PREPARE, EXECUTE and DEALLOCATE in the text protocol."""

from collections.abc import Awaitable, Callable

from sqlglot import exp

from mysql_mocker.error import MySQLError, no_database_selected, syntax_error
from mysql_mocker.sql import script
from mysql_mocker.sql.result import Done, Result
from mysql_mocker.sql.script import Statement
from mysql_mocker.state.engine import SYSTEM_SCHEMAS
from mysql_mocker.state.session import Session
from mysql_mocker.statements import assignment, routines

_READING_TABLES = frozenset(
    ("SELECT", "WITH", "(", "TABLE", "INSERT", "REPLACE", "UPDATE", "DELETE")
)
_DEFINING = frozenset(
    ("CREATE", "DROP", "ALTER", "TRUNCATE", "RENAME", "ANALYZE", "CHECK", "OPTIMIZE", "LOCK")
)
_ABOUT_TABLES = frozenset(("TABLE", "TABLES", "VIEW", "INDEX"))
_WRITING = frozenset(("INSERT", "REPLACE", "UPDATE", "DELETE"))
_NOT_PREPARABLE = frozenset(
    ("BEGIN", "START", "SAVEPOINT", "USE", "PREPARE", "EXECUTE", "DEALLOCATE", "LOCK", "UNLOCK")
)


def _names_table(statement: Statement) -> bool:
    """Whether a definition, or a statement about tables as a whole, names one without a schema."""
    words = statement.words
    about = words[0] == "TRUNCATE" or not _ABOUT_TABLES.isdisjoint(words[1:4])
    return words[0] in _DEFINING and about and "." not in words


def check(statement: Statement) -> None:
    """Whether a statement can be prepared at all (fact 7.4).

    Raises:
        MySQLError: 1295 for a statement that cannot be prepared.
    """
    if statement.words[0] in _NOT_PREPARABLE:
        raise MySQLError(
            1295, "HY000", "This command is not supported in the prepared statement protocol yet"
        )


def _unknown(name: str, action: str) -> MySQLError:
    message = f"Unknown prepared statement handler ({name}) given to {action}"
    return MySQLError(1243, "HY000", message)


def single_statement(text: str, sql_mode: str) -> Statement:
    """The only statement of a text.

    Raises:
        MySQLError: 1064 for more than one, 1065 for none.
    """
    statements = script.split(text, sql_mode)
    if not statements:
        raise MySQLError(1065, "42000", "Query was empty")
    if len(statements) > 1:
        raise script.several(text, statements)
    return statements[0]


def resolve(session: Session, statement: Statement) -> None:
    """Looks for the tables of a statement, or its procedure, as the server does to prepare one.

    Raises:
        MySQLError: 1064, 1046 for a name without a schema, 1295 for a statement that cannot be
            prepared, 1146 for an unknown table, 1305 for an unknown procedure.
    """
    if not session.inner.knows(statement):
        raise syntax_error(statement.text)
    words = statement.words
    if session.schema is None and _names_table(statement):
        raise no_database_selected()
    check(statement)
    if words[0] == "CALL" and not routines.is_own(session, statement):
        routines.called(session, statement)
    if words[0] == "SET":
        assignment.declare(session, statement)
    if words[0] not in _READING_TABLES:
        return
    tree = statement.parse()
    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        own = table.db.lower() in SYSTEM_SCHEMAS or table.name.upper() == "DUAL"
        if not isinstance(table.this, exp.Identifier) or own or table.name.lower() in common:
            continue
        stored = session.stored(table.name, table.db)
        kind = session.catalogue.kind(stored)
        if words[0] in _WRITING and kind != "temporary":
            session.check_read_write()
        if kind is None:
            raise session.unknown_table(stored)


async def prepare(session: Session, statement: Statement) -> Done:
    """PREPARE name FROM 'text' or FROM @variable.

    Raises:
        MySQLError: the text is not a statement that can be prepared.
    """
    tokens = statement.tokens
    if len(tokens) < 4 or statement.words[2] != "FROM":
        raise syntax_error(statement.text)
    text = statement.values.get(tokens[3].text, tokens[3].text)
    if tokens[3].text == "@":
        text = session.storage.surroundings.user_variables.get(tokens[4].text.lower())
    session.prepared.pop(tokens[1].text.lower(), None)
    next(session.statement_numbers)
    inner = single_statement(str(text), str(session.variables["sql_mode"]))
    resolve(session, inner)
    session.prepared[tokens[1].text.lower()] = str(text), session.schema
    session.trackers.state_set()
    return Done(info="Statement prepared")


async def execute(
    session: Session, statement: Statement, emit: Callable[[Result], Awaitable[None]]
) -> Result:
    """EXECUTE name [USING @a, …].

    Raises:
        MySQLError: 1243, 1210, or the statement's own error.
    """
    tokens = statement.tokens
    name = tokens[1].text.lower()
    if name not in session.prepared:
        raise _unknown(name, "EXECUTE")
    text, schema = session.prepared[name]
    inner = single_statement(text, str(session.variables["sql_mode"]))
    variables = session.storage.surroundings.user_variables
    values = [
        variables.get(tokens[position + 1].text.lower())
        for position, token in enumerate(tokens)
        if token.text == "@"
    ]
    if len(values) != inner.parameters:
        raise MySQLError(1210, "HY000", "Incorrect arguments to EXECUTE")
    with session.within(schema):
        return await session.inner.execute(inner.with_parameters(values), emit)


async def deallocate(session: Session, statement: Statement) -> Done:
    """DEALLOCATE PREPARE name.

    Raises:
        MySQLError: 1243.
    """
    name = statement.tokens[-1].text.lower()
    if session.prepared.pop(name, None) is None:
        raise _unknown(name, "DEALLOCATE PREPARE")
    session.trackers.state_set()
    return Done()

"""Stored procedures and functions without parameters: they run one statement after another."""

import re
from dataclasses import replace

from sqlglot import Token, TokenType

from mysql_mocker.error import (
    MySQLError,
    no_database_selected,
    syntax_error,
    unsupported,
)
from mysql_mocker.evaluation.binding import evaluate
from mysql_mocker.sql import script
from mysql_mocker.sql.result import Done, Rows
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.value import Value
from mysql_mocker.state.routine import Routine, find
from mysql_mocker.state.session import Emit, Session
from mysql_mocker.statements import definition

_BODY = re.compile(r"\bBEGIN\b(.*)\bEND\b\s*$", re.S | re.I)


def _head(statement: Statement, position: int, session: Session) -> tuple[str, str]:
    """Schema and name at token `position`."""
    tokens = statement.tokens
    if position + 1 < len(tokens) and tokens[position + 1].text == ".":
        return tokens[position].text, tokens[position + 2].text.lower()
    if session.schema is None:
        raise no_database_selected()
    return session.schema, tokens[position].text.lower()


async def create(session: Session, statement: Statement) -> Done:
    """CREATE PROCEDURE and CREATE FUNCTION.

    Raises:
        MySQLError: 1235 for parameters, 1304 for a routine that exists.
    """
    words = statement.words
    position = next(i for i, word in enumerate(words) if word in ("PROCEDURE", "FUNCTION"))
    kind = words[position]
    schema, name = _head(statement, position + 1, session)
    opening = words.index("(")
    if words[opening + 1] != ")":
        raise unsupported("parameters of stored routines")
    match = _BODY.search(statement.text)
    body = match[1] if match else statement.source(opening + 2, len(words) - 1)
    if kind == "FUNCTION" and match is None:
        body = statement.text[statement.text.upper().index("RETURN ") :]
    await definition.begin(session)
    if find(session, kind, name, schema) is not None:
        raise MySQLError(1304, "42000", f"{kind} {name} already exists")
    definition.run(
        session,
        'INSERT INTO ".routines" VALUES (:kind, :schema, :name, :body)',
        {"kind": kind, "schema": schema, "name": name, "body": body},
    )
    definition.end(session)
    return Done()


async def drop(session: Session, statement: Statement) -> Done:
    """DROP PROCEDURE and DROP FUNCTION.

    Raises:
        MySQLError: 1305.
    """
    words = statement.words
    kind = words[1]
    schema, name = _head(statement, 4 if words[2] == "IF" else 2, session)
    await definition.begin(session)
    exists = find(session, kind, name, schema) is not None
    if not exists:
        if words[2] != "IF":
            raise MySQLError(1305, "42000", f"{kind} {schema}.{name} does not exist")
        session.warn("Note", 1305, f"{kind} {schema}.{name} does not exist")
    else:
        definition.run(
            session,
            'DELETE FROM ".routines" WHERE kind = :kind AND schema = :schema AND name = :name',
            {"kind": kind, "schema": schema, "name": name},
        )
    definition.end(session, read=exists)
    return Done()


async def call(session: Session, statement: Statement, emit: Emit) -> Done:
    """CALL: emits the result sets; the caller sends the OK at the end.

    Procedures of schema `mock` are the mocker's own, where it has some.

    Raises:
        MySQLError: 1305, or the first error of a statement.
    """
    own = session.server.procedures
    if own is not None and is_own(session, statement):
        _, name = _head(statement, 1, session)
        result = await own(name, await _arguments(session, statement))
        if isinstance(result, Rows):
            await emit(result)
        return Done()
    routine = called(session, statement)
    with session.within(routine.schema):
        return await _run(session, routine, emit)


async def _run(session: Session, routine: Routine, emit: Emit) -> Done:
    done = Done()
    for inner in script.split(routine.body):
        result = await session.inner.execute(inner, emit)
        session.transaction.end_statement(failed=False)
        if isinstance(result, Rows):
            await emit(result)
            done = Done()
            if result.error is not None:
                raise result.error
        else:
            done = result
    return Done(done.affected_rows)


def called(session: Session, statement: Statement) -> Routine:
    """The procedure that a CALL names.

    Raises:
        MySQLError: 1305.
    """
    schema, name = _head(statement, 1, session)
    routine = find(session, "PROCEDURE", name, schema)
    if routine is None:
        raise MySQLError(1305, "42000", f"PROCEDURE {schema}.{name} does not exist")
    return routine


def is_own(session: Session, statement: Statement) -> bool:
    """Whether a CALL is of one of the mocker's own procedures.

    Raises:
        MySQLError: 1046.
    """
    schema, _ = _head(statement, 1, session)
    return session.server.procedures is not None and schema.lower() == "mock"


async def _arguments(session: Session, statement: Statement) -> list[Value]:
    """The values between the parentheses of a CALL."""
    opening = statement.words.index("(") if "(" in statement.words else len(statement.words)
    argument_tokens = statement.tokens[opening + 1 : -1]
    if not argument_tokens:
        return []
    if statement.words[-1] != ")":
        raise syntax_error(statement.text)
    listed = replace(
        statement, tokens=[Token(TokenType.SELECT, "SELECT"), *argument_tokens], _parsed=None
    )
    return [await evaluate(session, listed, tree) for tree in listed.parse().expressions]


async def signal(_session: Session, statement: Statement) -> Done:
    """SIGNAL SQLSTATE 'state' [SET MESSAGE_TEXT = 'text'].

    Raises:
        MySQLError: always; that is what it is for.
    """
    match = re.search(
        r"SQLSTATE\s+(?:VALUE\s+)?'(\w{5})'(?:.*MESSAGE_TEXT\s*=\s*'((?:[^'\\]|\\.)*)')?",
        statement.text,
        re.I | re.S,
    )
    if match is None:
        raise syntax_error(statement.text)
    raise MySQLError(1644, match[1], match[2] or "Unhandled user-defined exception condition")

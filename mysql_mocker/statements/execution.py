"""The statements of one session: what surrounds each, and where its results go."""

import re
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Final

from mysql_mocker.error import MySQLError, from_sqlite
from mysql_mocker.sql import script
from mysql_mocker.sql.result import Done, Result, Rows
from mysql_mocker.sql.script import Statement
from mysql_mocker.state.session import Emit, Session
from mysql_mocker.statements import dispatch

Answer = Callable[[Result, bool], Awaitable[None]]
"""Sends a result; True if more results follow."""

_NO_DATABASE: Final = 1046


class Execution:
    """Runs a session's statements.

    Attributes:
        session: whose they are.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        session.inner = self

    async def query(self, text: str, answer: Answer, *, multi_statements: bool) -> None:
        """A COM_QUERY: every statement in turn, until one fails.

        Raises:
            MySQLError: a statement failed; those after it were not run.
        """
        session = self.session
        try:
            statements = script.split(text, str(session.variables["sql_mode"]))
            if len(statements) > 1 and not multi_statements:
                raise script.several(text, statements)
        except MySQLError as error:
            session.diagnostics = []
            session.failed(error)
            raise
        if not statements:
            session.diagnostics, session.warning_count, session.row_count = [], 0, 0
            session.transaction.end_statement(failed=False)
            await answer(Done(), False)
        for index, statement in enumerate(statements):
            more = index + 1 < len(statements)
            await self.run(statement, answer, more=more, schema=session.schema)

    async def run(
        self, statement: Statement, answer: Answer, *, more: bool, schema: str | None
    ) -> None:
        """One statement, in `schema`: its result sets, then its last result.

        Raises:
            MySQLError: it failed.
        """
        session = self.session
        diagnostic = dispatch.is_diagnostic(statement)
        session.begin(statement, clears=not diagnostic)

        async def emit(result: Result) -> None:
            await answer(result, True)

        commits = not dispatch.is_rollback(statement) and not session.routine_depth
        try:
            with session.within(schema):
                result = await self.execute(statement, emit)
            if commits and not session.transaction.active:
                await session.transaction.before_commit()
        except MySQLError as error:
            session.failed(error)
            await session.transaction.acknowledged()
            raise
        if commits:
            session.transaction.end_statement(failed=False)
        await session.transaction.acknowledged()
        session.row_count = result.affected_rows if isinstance(result, Done) else -1
        session.warning_count = 0 if diagnostic else len(session.diagnostics)
        if isinstance(result, Rows):
            session.trackers.note(rows=True)
        await answer(result, more)

    def knows(self, statement: Statement) -> bool:
        """Whether there is such a statement at all."""
        return dispatch.knows(statement)

    async def execute(self, statement: Statement, emit: Emit) -> Result:
        """Runs a statement without what `run` does around it: for statements inside others.

        Raises:
            MySQLError: it failed.
        """
        session = self.session
        try:
            with session.running(statement):
                return await dispatch.run(session, statement, emit)
        except (sqlite3.Error, UnicodeEncodeError) as error:
            missing = re.search(r"no such table: (?:temp\.|main\.)?(.+)", str(error))
            if missing is not None:
                raise session.unknown_table(missing[1]) from error
            known = from_sqlite(error, session.schema)
            if known.code == _NO_DATABASE:
                # The server looks for a stored function twice, and reports twice that it failed.
                session.warn("Error", known.code, known.message)
            raise known from error

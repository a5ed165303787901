"""A session: what a client's connection means to the server, without its bytes."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from mysql_mocker import dispatch, routines, script
from mysql_mocker.catalogue import Catalogue, stored_name
from mysql_mocker.engine import SYSTEM_SCHEMAS
from mysql_mocker.error import (
    MySQLError,
    execution_time_exceeded,
    from_sqlite,
    interrupted,
    no_database_selected,
    read_only_server,
    read_only_transaction,
    syntax_error,
    unknown_database,
)
from mysql_mocker.result import Diagnostic, Done, Result, Rows
from mysql_mocker.script import Statement
from mysql_mocker.session_functions import Function
from mysql_mocker.trackers import Trackers
from mysql_mocker.transaction import Transaction
from mysql_mocker.value import Value
from mysql_mocker.variables import DEFINITIONS, Reach, canonical, selected

if TYPE_CHECKING:
    from mysql_mocker.server import Server

Emit = Callable[[Result, bool], Awaitable[None]]
"""Sends a result; True if more results follow."""

EmitInner = Callable[[Result], Awaitable[None]]
_T = TypeVar("_T")
_MAX_DIAGNOSTICS: Final = 1024


class Session:
    """One client's session on one server.

    Attributes:
        server: where it runs.
        id: CONNECTION_ID().
        user: account name.
        host: where the client comes from, ``address:port``.
        schema: the current one.
        found_rows_wanted: CLIENT_FOUND_ROWS: UPDATE counts the rows it matched.
        variables: the session's system variables.
        diagnostics: what SHOW WARNINGS lists.
        statement: text of the running statement.
        warning_count: what OK packets say of it.
        prepared: statements of the text protocol's PREPARE, by name.
    """

    def __init__(self, server: "Server", session_id: int, user: str, host: str) -> None:
        self.server = server
        self.id = session_id
        self.user = user
        self.host = host
        self.schema: str | None = None
        self.found_rows_wanted = False
        self.storage = server.engine.open()
        self.statement = ""
        self._interrupt: asyncio.Future[None] | None = None
        self._begin()

    def _begin(self) -> None:
        self.variables = self.server.session_variables()
        self.variables["pseudo_thread_id"] = self.id
        self.trackers = Trackers(self.variables)
        self.transaction = Transaction(self)
        self.characteristics = ""
        self.diagnostics: list[Diagnostic] = []
        self.warning_count = 0
        self.prepared: dict[str, str] = {}
        self.found_rows = 0
        self.row_count = -1
        self.last_insert_id = 0
        self.routine_depth = 0
        self._clock = time.time()
        self._deadline: float | None = None

    def close(self) -> None:
        """The connection is gone: its transaction, locks and temporary tables go too."""
        self.transaction.rollback()
        self.server.locks.release_all(self.id)
        self.storage.close()

    def reset(self) -> None:
        """COM_RESET_CONNECTION: all but the user and the current schema (fact 7.9)."""
        self.close()
        self.storage = self.server.engine.open()
        self._begin()

    # Statements.

    async def query(self, text: str, emit: Emit, *, multi_statements: bool) -> None:
        """A COM_QUERY: every statement in turn, until one fails.

        Raises:
            MySQLError: the statement failed; it and all after it have emitted nothing.
        """
        try:
            statements = script.split(text, str(self.variables["sql_mode"]))
            if len(statements) > 1 and not multi_statements:
                raise syntax_error(statements[1].text)
        except MySQLError as error:
            self._failed(error)
            raise
        if not statements:
            self.transaction.end_statement(failed=False)
            await emit(Done(), False)
        for place, statement in enumerate(statements):
            await self.run(statement, emit, more=place + 1 < len(statements))

    async def run(self, statement: Statement, emit: Emit, *, more: bool) -> None:
        """One statement: its result sets, then its last result."""
        self.statement = statement.text
        fixed = float(self.variables["timestamp"])
        self._clock = fixed or time.time()
        self._deadline = None
        if not dispatch.is_diagnostic(statement):
            self.diagnostics = []

        async def emit_inner(result: Result) -> None:
            await emit(result, True)

        try:
            result = await self.execute(statement, emit_inner)
        except MySQLError as error:
            self._failed(error)
            raise
        if not dispatch.is_rollback(statement) and not self.routine_depth:
            self.transaction.end_statement(failed=False)
        self.row_count = result.affected_rows if isinstance(result, Done) else -1
        self.warning_count = 0 if dispatch.is_diagnostic(statement) else len(self.diagnostics)
        if isinstance(result, Rows):
            self.trackers.noted(rows=True)
        await emit(result, more)

    async def execute(self, statement: Statement, emit: EmitInner) -> Result:
        """Runs a statement without what `run` does around it: for statements inside others.

        Raises:
            MySQLError: it failed.
        """
        try:
            return await dispatch.run(self, statement, emit)
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise from_sqlite(error, self.schema) from error

    def _failed(self, error: MySQLError) -> None:
        self.diagnostics = [Diagnostic("Error", error.code, error.message)]
        self.row_count = -1
        self.transaction.end_statement(failed=True)

    def now(self) -> float:
        """NOW() of the running statement, seconds since the epoch."""
        return self._clock

    def warn(self, level: str, code: int, message: str) -> None:
        """Adds a line to SHOW WARNINGS."""
        if len(self.diagnostics) < _MAX_DIAGNOSTICS:
            self.diagnostics.append(Diagnostic(level, code, message))

    # Waiting.

    def limit_execution(self) -> None:
        """From now on `max_execution_time` counts for the running statement."""
        milliseconds = float(self.variables["max_execution_time"])
        if milliseconds:
            self._deadline = asyncio.get_running_loop().time() + milliseconds / 1000

    async def interruptible(
        self, work: Coroutine[None, None, _T], seconds: float | None = None
    ) -> _T | None:
        """What `work` gives, None if it takes longer than `seconds`.

        Raises:
            MySQLError: 1317 after KILL QUERY, 3024 after `max_execution_time`.
        """
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        self._interrupt = loop.create_future()
        both: set[asyncio.Future[_T] | asyncio.Future[None]] = {task, self._interrupt}
        allowed = None if self._deadline is None else max(0.0, self._deadline - loop.time())
        limits = [limit for limit in (allowed, seconds) if limit is not None]
        try:
            await asyncio.wait(
                both,
                timeout=min(limits, default=None),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if task.done():
                return task.result()
            if self._interrupt.done():
                raise interrupted()
            if allowed is not None and (seconds is None or allowed < seconds):
                raise execution_time_exceeded()
            return None
        finally:
            self._interrupt = None
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def interrupt(self) -> None:
        """KILL QUERY; a session that waits for nothing does not notice."""
        if self._interrupt is not None and not self._interrupt.done():
            self._interrupt.set_result(None)

    # Names and variables.

    @property
    def catalogue(self) -> Catalogue:
        """What there is, as this session sees it."""
        return Catalogue(self.storage)

    def choose_schema(self, name: str) -> None:
        """USE.

        Raises:
            MySQLError: 1049.
        """
        if name not in SYSTEM_SCHEMAS and not self.catalogue.has_schema(name):
            raise unknown_database(name)
        self.schema = name
        self.trackers.schema_set()
        self.trackers.state_set()

    def stored(self, table: str, schema: str = "") -> str:
        """The stored name of a table.

        Raises:
            MySQLError: 1046 without a schema.
        """
        database = schema or self.schema
        if database is None:
            raise no_database_selected()
        return stored_name(database, table)

    def variable(self, name: str, scope: str = "") -> Value:
        """What ``@@scope.name`` is.

        Raises:
            MySQLError: 1193, or 1238 for a scope that the variable has not.
        """
        known = canonical(name)
        reach = DEFINITIONS[known].reach
        if scope == "global" and reach is Reach.SESSION:
            raise MySQLError(1238, "HY000", f"Variable '{known}' is a SESSION variable")
        if scope == "session" and reach in (Reach.GLOBAL, Reach.READ_ONLY):
            raise MySQLError(1238, "HY000", f"Variable '{known}' is a GLOBAL variable")
        return selected(self.value_of(known, shared=scope == "global"))

    def value_of(self, name: str, *, shared: bool) -> bool | int | float | str:
        """A variable's stored value; `name` is canonical."""
        live: Mapping[str, Callable[[], bool | int | float | str]] = {
            "last_insert_id": lambda: self.last_insert_id,
            "identity": lambda: self.last_insert_id,
            "warning_count": lambda: len(self.diagnostics),
            "error_count": lambda: sum(d.level == "Error" for d in self.diagnostics),
            "timestamp": self.now,
        }
        if name in live:
            return live[name]()
        if not shared and name in self.variables:
            return self.variables[name]
        return self.server.variable(name)

    def stored_function(self, name: str) -> Function | None:
        """The stored function of this name in the current schema."""
        routine = routines.find(self, "FUNCTION", name)
        return None if routine is None else partial(routines.call_function, routine=routine)

    # Rights to write.

    def check_write(self, *, temporary: bool = False) -> None:
        """Whether a statement may change data; temporary tables may always change.

        Raises:
            MySQLError: 1290 or 1792.
        """
        if temporary:
            return
        for option in ("super_read_only", "read_only"):
            if self.server.variable(option):
                raise read_only_server(option.replace("_", "-"))
        read_only = self.variables["transaction_read_only"]
        if self.transaction.read_only or (read_only and not self.transaction.active):
            raise read_only_transaction()

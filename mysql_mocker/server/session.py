"""A session: what a client's connection means to the server, without its bytes."""

import asyncio
import contextlib
import itertools
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

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
    unknown_table,
)
from mysql_mocker.replication import logged_statement
from mysql_mocker.replication.binlog import Write
from mysql_mocker.replication.logged_statement import LoggedStatement
from mysql_mocker.server.catalogue import Catalogue, stored_name
from mysql_mocker.server.engine import SYSTEM_SCHEMAS
from mysql_mocker.server.gtid_next import GtidNext
from mysql_mocker.server.trackers import Trackers
from mysql_mocker.server.transaction import Transaction
from mysql_mocker.server.variables import DEFINITIONS, Reach, canonical, selected
from mysql_mocker.sql import clauses, script
from mysql_mocker.sql.result import Diagnostic, Done, Result, Rows
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.session_functions import Function
from mysql_mocker.sql.value import Value
from mysql_mocker.statements import dispatch, routines

if TYPE_CHECKING:
    from mysql_mocker.server.server import Server

Emit = Callable[[Result, bool], Awaitable[None]]
"""Sends a result; True if more results follow."""

EmitInner = Callable[[Result], Awaitable[None]]
_T = TypeVar("_T")
_MAX_DIAGNOSTICS: Final = 1024
_DEADLOCK: Final = 1213
_NO_DATABASE: Final = 1046


class Session:
    """One client's session on one server.

    Attributes:
        applies: it does what a source did, and no server refuses that.
        server: where it runs.
        id: CONNECTION_ID().
        user: account name.
        host: where the client comes from, ``address:port``.
        schema: the current one.
        found_rows_wanted: CLIENT_FOUND_ROWS: UPDATE counts the rows it matched.
        variables: the session's system variables.
        diagnostics: what SHOW WARNINGS lists.
        statement: text of the running statement.
        noted: what it listed when the running statement began.
        next_read_only: what SET TRANSACTION said of the next transaction, if it did.
        next_isolation: the same of its isolation, as the variable has it.
        statement_numbers: ids of prepared statements.
        warning_count: what OK packets say of it.
        gtid_next: what names its next transaction.
        prepared: statements of the text protocol's PREPARE and their schemas, by name.
    """

    applies = False

    def __init__(self, server: "Server", session_id: int, user: str, host: str) -> None:
        self.server = server
        self.id = session_id
        self.user = user
        self.host = host
        self.schema: str | None = None
        self.found_rows_wanted = False
        self.storage = server.engine.open()
        self.statement = ""
        self.statement_numbers = itertools.count(1)
        self._interrupt: asyncio.Future[None] | None = None
        self._begin()

    def _begin(self) -> None:
        self.variables = self.server.session_variables()
        self.variables["pseudo_thread_id"] = self.id
        self.trackers = Trackers(self.variables)
        self.transaction = Transaction(self)
        self.gtid_next = GtidNext(self)
        self.next_read_only: bool | None = None
        self.next_isolation: str | None = None
        self.noted: list[Diagnostic] = []
        self._complained: MySQLError | None = None
        self.diagnostics: list[Diagnostic] = []
        self.warning_count = 0
        self.prepared: dict[str, tuple[str, str | None]] = {}
        self.found_rows = 0
        self.row_count = -1
        self.last_insert_id = 0
        self.routine_depth = 0
        self._running: Statement | None = None
        self._logged: LoggedStatement | None = None
        self._clock = time.time()
        self._deadline: float | None = None

    def close(self) -> None:
        """The connection is gone: its transaction, locks and temporary tables go too."""
        self.transaction.rollback()
        self.gtid_next.end()
        self.server.locks.release_all(self.id)
        self.storage.close()

    def reset(self) -> None:
        """COM_RESET_CONNECTION: all but the user and the current schema (fact 7.9)."""
        self.close()
        self.storage = self.server.engine.open()
        found_rows = self.found_rows
        self._begin()
        self.found_rows, self.row_count = found_rows, 0

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
            self.diagnostics = []
            self._failed(error)
            raise
        if not statements:
            self.diagnostics, self.warning_count, self.row_count = [], 0, 0
            self.transaction.end_statement(failed=False)
            await emit(Done(), False)
        for place, statement in enumerate(statements):
            more = place + 1 < len(statements)
            await self.run(statement, emit, more=more, schema=self.schema)

    async def run(
        self, statement: Statement, emit: Emit, *, more: bool, schema: str | None
    ) -> None:
        """One statement, in `schema`: its result sets, then its last result."""
        self.statement = statement.text
        self.trackers.statement_began(self.server.questions)
        fixed = float(self.variables["timestamp"])
        self._clock = fixed or time.time() + self.server.clock.ahead / 1e6
        self._deadline = None
        self.noted = self.diagnostics
        self.warning_count = 0
        if not dispatch.is_diagnostic(statement):
            self.diagnostics = []

        async def emit_inner(result: Result) -> None:
            await emit(result, True)

        commits = not dispatch.is_rollback(statement) and not self.routine_depth
        try:
            with self.within(schema):
                result = await self.execute(statement, emit_inner)
            if commits and not self.transaction.active:
                await self.transaction.before_commit()
        except MySQLError as error:
            self._failed(error)
            await self.transaction.acknowledged()
            raise
        if commits:
            self.transaction.end_statement(failed=False)
        await self.transaction.acknowledged()
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
        around = self._running, self._logged
        self._running, self._logged = statement, None
        try:
            return await dispatch.run(self, statement, emit)
        except (sqlite3.Error, UnicodeEncodeError) as error:
            missing = re.search(r"no such table: (?:temp\.|main\.)?(.+)", str(error))
            if missing is not None:
                raise self.unknown_table(missing[1]) from error
            known = from_sqlite(error, self.schema, clauses.of_unknown(statement, error))
            if known.code == _NO_DATABASE:
                # A stored function's name is looked for twice, and missed twice.
                self.warn("Error", known.code, known.message)
            raise known from error
        finally:
            self._running, self._logged = around

    @property
    def logged(self) -> LoggedStatement | None:
        """The running statement as the binary log has it."""
        if self._logged is None and self._running is not None:
            self._logged = logged_statement.logged(
                self._running,
                schema=self.schema or "",
                user=self.user,
                thread_id=self.id,
                sql_mode=str(self.variables["sql_mode"]),
                last_insert_id=self.last_insert_id,
                variables=self.storage.surroundings.user_variables,
            )
        return self._logged

    def note(self, sql: str, parameters: Mapping[str, Value]) -> Write:
        """What the running statement is about to write."""
        return self.storage.note(sql, parameters, self.now(), self.logged)

    def knows(self, statement: Statement) -> bool:
        """Whether there is such a statement at all."""
        return dispatch.knows(statement)

    def complain(self, error: MySQLError) -> None:
        """What SHOW ERRORS and ROW_COUNT() tell behind a command that failed."""
        if self._complained is error:
            return
        self._complained = error
        self.diagnostics.append(Diagnostic("Error", error.code, error.message))
        self.row_count = -1
        self.warning_count = 1

    def _failed(self, error: MySQLError) -> None:
        self.complain(error)
        self.transaction.end_statement(failed=True)

    def refuse(self, error: MySQLError) -> NoReturn:
        """Ends a statement that was not run in an error; a deadlock ends the transaction, too.

        Raises:
            MySQLError: `error`.
        """
        if error.code == _DEADLOCK:
            self.transaction.rollback()
        self._complained, self.diagnostics = None, []  # a fault has the same error every time
        self._failed(error)
        raise error

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

    def end_limit(self) -> None:
        """`max_execution_time` is for statements that only read."""
        if self._deadline is not None:
            self._deadline = None
            self.warn("Note", 3025, "Select is not a read only statement, disabling timer")

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

    def counters(self, *, temporary: bool) -> dict[str, int]:
        """The last AUTO_INCREMENT number of tables, by stored name."""
        return self.storage.counters if temporary else self.server.engine.counters

    def choose_schema(self, name: str) -> None:
        """USE.

        Raises:
            MySQLError: 1049.
        """
        if not self._has_schema(name):
            raise unknown_database(name)
        self._enter(name)

    @contextlib.contextmanager
    def within(self, schema: str | None) -> Iterator[None]:
        """Another schema is the current one meanwhile, and trackers tell so, there and back."""
        before = self.schema
        if schema == before:
            yield
            return
        self._enter(schema)
        try:
            yield
        finally:
            self._enter(before)

    def _enter(self, schema: str | None) -> None:
        if schema is not None and not self._has_schema(schema):
            self.warn("Note", 1049, unknown_database(schema).message)
            schema = None
        self.schema = schema
        self.trackers.schema_set()
        self.trackers.state_set()

    def _has_schema(self, name: str) -> bool:
        return name in SYSTEM_SCHEMAS or self.catalogue.has_schema(name)

    def stored(self, table: str, schema: str = "") -> str:
        """The stored name of a table.

        Raises:
            MySQLError: 1046 without a schema.
        """
        database = schema or self.schema
        if database is None:
            raise no_database_selected()
        return stored_name(database, table)

    def unknown_table(self, stored: str) -> MySQLError:
        """1146, or 1049 where there is not even the schema."""
        schema = stored.partition(".")[0]
        return unknown_table(stored) if self._has_schema(schema) else unknown_database(schema)

    def variable(self, name: str, scope: str = "") -> Value:
        """What ``@@scope.name`` is.

        Raises:
            MySQLError: 1193, or 1238 for a scope that the variable has not.
        """
        known = canonical(name)
        reach = DEFINITIONS[known].reach
        if scope == "global" and reach is Reach.SESSION:
            raise MySQLError(1238, "HY000", f"Variable '{known}' is a SESSION variable")
        shared_only = reach in (Reach.GLOBAL, Reach.READ_ONLY) and known != "gtid_owned"
        if scope == "session" and shared_only:
            raise MySQLError(1238, "HY000", f"Variable '{known}' is a GLOBAL variable")
        return selected(self.value_of(known, shared=scope == "global"))

    def value_of(self, name: str, *, shared: bool) -> bool | int | float | str:
        """A variable's stored value; `name` is canonical."""
        live: Mapping[str, Callable[[], bool | int | float | str]] = {
            "last_insert_id": lambda: self.last_insert_id,
            "identity": lambda: self.last_insert_id,
            "warning_count": lambda: len(self.noted),
            "error_count": lambda: sum(d.level == "Error" for d in self.noted),
            "timestamp": self.now,
            "gtid_next": lambda: self.gtid_next.text,
            "gtid_owned": lambda: str(self.gtid_next.owned or ""),
        }
        if name in live and not (shared and name == "gtid_owned"):
            return live[name]()
        if not shared and name in self.variables:
            return self.variables[name]
        return self.server.variable(name)

    def stored_function(self, name: str) -> Function | None:
        """The stored function of this name in the current schema."""
        routine = routines.find(self, "FUNCTION", name)
        return None if routine is None else partial(routines.call_function, routine=routine)

    # Rights to write.

    def check_server(self) -> None:
        """Whether the server takes writes at all.

        Raises:
            MySQLError: 1290.
        """
        if self.applies:
            return
        for option in ("super_read_only", "read_only"):
            if self.server.variable(option):
                raise read_only_server(option.replace("_", "-"))

    def check_write(self, *, temporary: bool = False) -> None:
        """Whether a statement may change data; temporary tables may always change.

        Raises:
            MySQLError: 1290 or 1792.
        """
        if temporary:
            return
        self.check_server()
        self.check_read_write()

    def check_read_write(self) -> None:
        """Whether the transaction takes writes.

        Raises:
            MySQLError: 1792.
        """
        transaction = self.transaction
        if transaction.read_only or (transaction.next_read_only and not transaction.active):
            raise read_only_transaction()

"""A session: what the server knows of a client's connection, apart from the protocol."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Final, NoReturn, Protocol, TypeVar

from mysql_mocker.error import (
    MySQLError,
    execution_time_exceeded,
    interrupted,
    no_database_selected,
    read_only_server,
    read_only_transaction,
    unknown_database,
    unknown_table,
)
from mysql_mocker.replication import logged_statement
from mysql_mocker.replication.binlog import Write
from mysql_mocker.replication.logged_statement import LoggedStatement
from mysql_mocker.sql.names import stored_name
from mysql_mocker.sql.result import Diagnostic, Result
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.value import Value
from mysql_mocker.state.catalogue import Catalogue
from mysql_mocker.state.engine import SYSTEM_SCHEMAS
from mysql_mocker.state.gtid_next import GtidNext
from mysql_mocker.state.instance import Instance
from mysql_mocker.state.trackers import Trackers
from mysql_mocker.state.transaction import Transaction
from mysql_mocker.state.variables import DEFINITIONS, Reach, Setting, canonical, selected

Emit = Callable[[Result], Awaitable[None]]
"""Sends a result set that a statement gives before its last result."""

_T = TypeVar("_T")
_MAX_DIAGNOSTICS: Final = 1024
_DEADLOCK: Final = 1213


class Inner(Protocol):
    """Runs statements that are inside others: in routines, functions and EXECUTE."""

    def knows(self, statement: Statement) -> bool:
        """Whether there is such a statement at all."""
        ...

    async def execute(self, statement: Statement, emit: Emit) -> Result:
        """Runs one in the session, without the steps that surround a client's own statement.

        Raises:
            MySQLError: it failed.
        """
        ...


class Session:
    """One client's session on one server.

    Attributes:
        server: where it runs.
        inner: runs statements inside statements; set by what executes the session's statements.
        id: CONNECTION_ID().
        user: account name.
        host: where the client comes from, ``address:port``.
        schema: the current one.
        found_rows_wanted: CLIENT_FOUND_ROWS: UPDATE counts the rows it matched.
        variables: the session's system variables.
        diagnostics: what SHOW WARNINGS lists.
        statement: text of the running statement.
        next_read_only: what SET TRANSACTION said about the next transaction, if it did.
        next_isolation: the same for its isolation, as the variable has it.
        statement_numbers: ids of prepared statements.
        warning_count: the count of warnings in OK packets.
        gtid_next: gives its next transaction a GTID.
        prepared: statements of the text protocol's PREPARE and their schemas, by name.
    """

    inner: Inner

    def __init__(self, server: Instance, session_id: int, user: str, host: str) -> None:
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
        self.reported: list[Diagnostic] = []
        self._complained: MySQLError | None = None
        self.diagnostics: list[Diagnostic] = []
        self.warning_count = 0
        self.prepared: dict[str, tuple[str, str | None]] = {}
        self._null_types: dict[str, Value] = {}
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

    # User variables.

    def set_variable(self, name: str, value: Value, null: Value) -> None:
        """Assigns a user variable, which has the type of `null` if it is NULL."""
        self._null_types[name] = null
        self.storage.surroundings.user_variables[name] = value

    def typed_variable(self, name: str) -> Value:
        """A user variable, or a value of its type if it is NULL; one that is not set is bytes."""
        value = self.storage.surroundings.user_variables.get(name)
        return self._null_types.get(name, b"") if value is None else value

    # Statements.

    def begin(self, statement: Statement, *, clears: bool) -> None:
        """A client's statement is about to run.

        Args:
            statement: which.
            clears: it clears the list of warnings.
        """
        self.statement = statement.text
        self.trackers.statement_began(self.server.questions)
        fixed = float(self.variables["timestamp"])
        self._clock = fixed or time.time() + self.server.clock.ahead / 1e6
        self._deadline = None
        self.reported = self.diagnostics
        self.warning_count = 0
        if clears:
            self.diagnostics = []

    @contextlib.contextmanager
    def running(self, statement: Statement) -> Iterator[None]:
        """While a statement runs, perhaps inside another one, it is the one that is logged."""
        around = self._running, self._logged
        self._running, self._logged = statement, None
        try:
            yield
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

    def complain(self, error: MySQLError) -> None:
        """Sets what SHOW ERRORS and ROW_COUNT() return after a command that failed."""
        if self._complained is error:
            return
        self._complained = error
        self.diagnostics.append(Diagnostic("Error", error.code, error.message))
        self.row_count = -1
        self.warning_count += 1

    def failed(self, error: MySQLError) -> None:
        """A statement ended in an error, which also ends a transaction of that statement alone."""
        self.complain(error)
        self.warning_count = len(self.diagnostics)
        self.transaction.end_statement(failed=True)

    def refuse(self, error: MySQLError) -> NoReturn:
        """Fails a statement without running it; a deadlock ends the transaction, too.

        Raises:
            MySQLError: `error`.
        """
        if error.code == _DEADLOCK:
            self.transaction.rollback()
        self._complained, self.diagnostics = None, []  # a fault has the same error every time
        self.failed(error)
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
        """The result of `work`; None if it takes longer than `seconds`.

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
        """The schemas, tables and columns, as this session sees them."""
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
        """Makes another schema the current one meanwhile; trackers report both changes."""
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
        """1146, or 1049 if there is not even the schema."""
        schema = stored.partition(".")[0]
        return unknown_table(stored) if self._has_schema(schema) else unknown_database(schema)

    def variable(self, name: str, scope: str = "") -> Value:
        """What ``@@scope.name`` is.

        Raises:
            MySQLError: 1193, or 1238 for a scope that the variable does not have.
        """
        known = canonical(name)
        reach = DEFINITIONS[known].reach
        if scope == "global" and reach is Reach.SESSION:
            raise MySQLError(1238, "HY000", f"Variable '{known}' is a SESSION variable")
        shared_only = reach in (Reach.GLOBAL, Reach.READ_ONLY) and known != "gtid_owned"
        if scope == "session" and shared_only:
            raise MySQLError(1238, "HY000", f"Variable '{known}' is a GLOBAL variable")
        return selected(self.value_of(known, shared=scope == "global"))

    def value_of(self, name: str, *, shared: bool) -> Setting:
        """A variable's stored value; `name` is canonical."""
        live: Mapping[str, Callable[[], Setting]] = {
            "last_insert_id": lambda: self.last_insert_id,
            "identity": lambda: self.last_insert_id,
            "warning_count": lambda: len(self.reported),
            "error_count": lambda: sum(d.level == "Error" for d in self.reported),
            "timestamp": self.now,
            "gtid_next": lambda: self.gtid_next.text,
            "gtid_owned": lambda: str(self.gtid_next.owned or ""),
        }
        if name in live and not (shared and name == "gtid_owned"):
            return live[name]()
        if not shared and name in self.variables:
            return self.variables[name]
        return self.server.variable(name)

    def values(self, *, shared: bool) -> Iterator[tuple[str, Setting]]:
        """All variables in alphabetical order, as the session or the whole server has them."""
        for name in sorted(DEFINITIONS):
            if not (shared and DEFINITIONS[name].reach is Reach.SESSION):
                yield name, self.value_of(name, shared=shared)

    @property
    def in_transaction(self) -> bool:
        """SERVER_STATUS_IN_TRANS."""
        return self.transaction.active

    # Rights to write.

    def check_server(self) -> None:
        """Whether the server takes writes at all.

        Raises:
            MySQLError: 1290.
        """
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

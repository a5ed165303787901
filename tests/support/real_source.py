"""A server of the mocker as replica of a real MySQL server."""

import asyncio
from contextlib import suppress
from typing import Final

from mysql_mocker.error import MySQLError
from mysql_mocker.sql.result import Done, Result
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.sql_mode import stored
from mysql_mocker.sql.value import Value
from mysql_mocker.state.instance import Instance
from mysql_mocker.state.session import Session
from mysql_mocker.statements.execution import Execution
from protocol.binlog.commit_timestamps import UNKNOWN
from protocol.binlog.decode import decode, known
from protocol.binlog.event import IGNORABLE, Event, EventType
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.query_event import QueryEvent, StatusCode
from protocol.binlog.rows import RowsEvent
from protocol.binlog.statement_context import (
    IntvarEvent,
    IntvarKind,
    ResultType,
    UserVariableEvent,
)
from protocol.binlog.table_map import TableMap
from protocol.binlog.transaction_payload import TransactionPayload
from protocol.errors import ProtocolError
from protocol.wire import decode_text
from tests.support import row_statements
from tests.support.source_connection import (
    SourceConnection,
    SourceError,
    SourceGoneError,
)

_RETRY_SECONDS: Final = 0.2
_HEARTBEAT_SECONDS: Final = 1.0
_APPLIER: Final = "system user"


class ApplierSession(Session):
    """The session that applies: a server that refuses writes takes them from it."""

    applies = True


class RealSource:
    """Applies what a real server commits, from where this server is, until `stop`.

    GTIDs and original commit timestamps are kept; the immediate ones are this server's. It comes
    back by itself where the connection breaks, and stops where a transaction cannot be applied.

    Args:
        server: the replica.
        host, port, user, password: of the source; the account needs REPLICATION SLAVE.

    Attributes:
        error: why it stopped by itself.
        skipped: how many events of unknown types were skipped by their length.
    """

    def __init__(self, server: Instance, host: str, port: int, user: str, password: str) -> None:
        self.error: Exception | None = None
        self.skipped = 0
        self._server = server
        self._address = host, port, user, password
        self._task: asyncio.Task[None] | None = None
        self._tables: dict[int, TableMap] = {}
        self._first_id = 0

    def start(self) -> None:
        """Begins; must run inside the event loop."""
        self.error = None
        self._task = asyncio.create_task(self._run(), name="mocker's real source")

    async def stop(self) -> None:
        """Ends; what was not committed is rolled back, and comes again after `start`."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            connection = SourceConnection()
            session = ApplierSession(self._server, 0, _APPLIER, "")
            execution = Execution(session)
            session.found_rows_wanted = True  # an UPDATE counts the rows that it finds
            try:
                await connection.open(*self._address)
                await self._follow(connection, execution)
            except (OSError, TimeoutError, SourceGoneError) as error:
                self.error = error
            except (MySQLError, ProtocolError, SourceError) as error:
                # Another connection would end in the same way.
                self.error = error
                return
            except Exception as error:
                self.error = error  # a defect: whoever asks must not think that it runs
                raise
            finally:
                session.close()
                connection.close()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self, connection: SourceConnection, execution: Execution) -> None:
        server = self._server
        server_id = int(server.variable("server_id"))
        await connection.prepare(server_id, server.gtids.server_uuid, _HEARTBEAT_SECONDS)
        executed = server.gtids.executed
        async for event in connection.events(server_id, executed):
            self.error = None
            await self._event(execution, event)

    async def _event(self, execution: Execution, event: Event) -> None:
        if not known(event):
            if event.header.flags & IGNORABLE or event.type not in _NEEDED:
                self.skipped += 1
                return
            raise SourceError(f"events of type {event.type} cannot be applied")
        decoded = decode(event)
        session = execution.session
        variables = session.variables
        variables["timestamp"] = float(event.header.timestamp)
        match decoded:
            case GtidEvent():
                await self._begin(execution, decoded)
            case QueryEvent():
                await self._query(execution, decoded)
            case TableMap():
                self._tables[decoded.table_id] = decoded
            case RowsEvent():
                await self._rows(execution, decoded)
            case TransactionPayload():
                for inner in decoded.events(event.position):
                    await self._event(execution, inner)
            case IntvarEvent():
                if decoded.kind == IntvarKind.LAST_INSERT_ID:
                    session.last_insert_id = decoded.value
                else:
                    self._first_id = decoded.value
            case UserVariableEvent():
                name = decoded.name.lower()
                session.storage.surroundings.user_variables[name] = _variable(decoded)
            case int():
                await self._commit(execution)
            case _ if event.type == EventType.RAND:
                raise SourceError(
                    "a statement with RAND() cannot be applied: the source shall have "
                    "binlog_format = ROW"
                )
            case _:
                pass

    async def _begin(self, execution: Execution, event: GtidEvent) -> None:
        if event.gtid is None:
            raise SourceError("the source has transactions without GTIDs")
        self._first_id = 0
        session = execution.session
        await session.gtid_next.assign(str(event.gtid))
        times = event.timestamps
        original = UNKNOWN if times is None else times.original
        session.variables["original_commit_timestamp"] = original
        if event.original_server_version is not None:
            session.variables["original_server_version"] = event.original_server_version

    async def _query(self, execution: Execution, event: QueryEvent) -> None:
        session = execution.session
        session.schema = event.schema or None
        modes = int.from_bytes(event.status.get(StatusCode.SQL_MODE, b""), "little")
        session.variables["sql_mode"] = stored(modes)
        seconds = float(session.variables["timestamp"])
        session.variables["timestamp"] = seconds + event.microseconds / 1_000_000
        word = event.sql.strip().upper()
        if word == b"COMMIT":
            await self._commit(execution)
            return
        await execution.query(decode_text(event.sql), _ignore, multi_statements=False)
        if self._first_id and session.last_insert_id != self._first_id:
            raise SourceError(
                f"a statement gave out id {session.last_insert_id} where the source gave out "
                f"{self._first_id}"
            )
        self._first_id = 0
        if word != b"BEGIN" and not session.transaction.active:
            await self._complete(execution)

    async def _rows(self, execution: Execution, event: RowsEvent) -> None:
        table = self._tables.get(event.table_id)
        if table is None:
            raise SourceError(f"rows of table {event.table_id} come without its map")
        session = execution.session
        stored = session.stored(table.table, table.schema)
        columns = session.catalogue.columns(stored)
        for statement in row_statements.statements(table, event, columns):
            done = await self._execute(execution, statement)
            if not (isinstance(done, Done) and done.affected_rows):
                raise MySQLError(1032, "HY000", f"Can't find record in '{table.table}'")

    async def _execute(self, execution: Execution, statement: Statement) -> Result | None:
        results: list[Result] = []

        async def keep(result: Result, more: bool) -> None:
            results.append(result)

        await execution.run(statement, keep, more=False, schema=execution.session.schema)
        return results[-1] if results else None

    async def _commit(self, execution: Execution) -> None:
        await execution.query("COMMIT", _ignore, multi_statements=False)
        await self._complete(execution)

    async def _complete(self, execution: Execution) -> None:
        """A transaction that changed nothing here is committed all the same."""
        if execution.session.gtid_next.owned is not None:
            for word in ("BEGIN", "COMMIT"):
                await execution.query(word, _ignore, multi_statements=False)


_NEEDED: Final = frozenset({EventType.XA_PREPARE, 39})
"""Types without which a transaction is not whole; 39 is PARTIAL_UPDATE_ROWS."""


async def _ignore(_result: Result, _more: bool) -> None:
    pass


def _variable(event: UserVariableEvent) -> Value:
    if event.value is None:
        return None
    if event.type == ResultType.INT:
        return int.from_bytes(event.value, "little", signed=not event.unsigned)
    if event.type == ResultType.STRING:
        return decode_text(event.value)
    raise SourceError(f"a user variable of type {event.type} cannot be read")

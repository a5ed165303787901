"""What a session does for each command."""

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Final

from mysql_mocker.columns.result_columns import declared, type_of
from mysql_mocker.columns.value_type import TEXT
from mysql_mocker.error import MySQLError, from_sqlite, unknown_database, unknown_table
from mysql_mocker.sql.result import Result
from mysql_mocker.state.catalogue import Column
from mysql_mocker.state.faults import Gate
from mysql_mocker.state.instance import Instance
from mysql_mocker.statements.execution import Execution
from mysql_mocker.wire import binary
from mysql_mocker.wire.binlog_dump import BinlogDump
from mysql_mocker.wire.channel import Channel, ConnectionGoneError
from mysql_mocker.wire.login import check_password, new_nonce
from mysql_mocker.wire.prepared import PreparedStatements
from mysql_mocker.wire.reply import Reply
from protocol.binlog.dump_request import DumpRequest
from protocol.command import ComChangeUser, ComFieldList, ComInitDb, ComQuery, ComSetOption
from protocol.constants import Capability, Command
from protocol.errors import ProtocolError, ServerErrorCode
from protocol.prepared_statement import (
    ComStmtClose,
    ComStmtExecute,
    ComStmtFetch,
    ComStmtPrepare,
    ComStmtReset,
    ComStmtSendLongData,
)
from protocol.response import StmtPrepareOk
from protocol.resultset import ColumnDefinition41
from protocol.wire import decode_text, lenenc_bytes

_CONTROL: Final = re.compile(r"\s*CALL\s+`?mock`?\s*\.", re.IGNORECASE)
_FIELD_LIST_DEPRECATED: Final = (
    "'COM_FIELD_LIST' is deprecated and will be removed in a future release. Please use SHOW "
    "COLUMNS FROM statement instead"
)


def _default(column: Column, definition: ColumnDefinition41) -> bytes:
    """The default value, which is part of COM_FIELD_LIST's definitions; NULL is 0xFB."""
    if column.default is not None:
        return lenenc_bytes(column.default.strip("'").encode())
    if not column.not_null:
        return b"\xfb"
    return lenenc_bytes(b"0" if type_of(definition).number else b"")


class Commands:
    """The command phase of one connection."""

    def __init__(
        self,
        server: Instance,
        channel: Channel,
        execution: Execution,
        reply: Reply,
        capabilities: Capability,
    ) -> None:
        self._server = server
        self._channel = channel
        self._execution = execution
        self._session = session = execution.session
        self._reply = reply
        self._capabilities = capabilities
        self._multi_statements = bool(capabilities & Capability.CLIENT_MULTI_STATEMENTS)
        self._attributes = bool(capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)
        self._prepared = PreparedStatements(session)
        self._delay = 0.0
        self._gate: Gate | None = None
        self._handlers: dict[int, Callable[[bytes], Awaitable[None]]] = {
            Command.COM_INIT_DB: self._init_db,
            Command.COM_QUERY: self._query,
            Command.COM_FIELD_LIST: self._field_list,
            Command.COM_STATISTICS: self._statistics,
            Command.COM_DEBUG: self._end_of_rows,
            Command.COM_PING: self._ok,
            Command.COM_CHANGE_USER: self._change_user,
            Command.COM_STMT_PREPARE: self._stmt_prepare,
            Command.COM_STMT_EXECUTE: self._stmt_execute,
            Command.COM_STMT_SEND_LONG_DATA: self._stmt_send_long_data,
            Command.COM_STMT_CLOSE: self._stmt_close,
            Command.COM_STMT_RESET: self._stmt_reset,
            Command.COM_SET_OPTION: self._set_option,
            Command.COM_STMT_FETCH: self._stmt_fetch,
            Command.COM_RESET_CONNECTION: self._reset_connection,
            Command.COM_REGISTER_SLAVE: self._ok,
            Command.COM_BINLOG_DUMP: self._binlog_dump,
            Command.COM_BINLOG_DUMP_GTID: self._binlog_dump,
        }

    async def run(self, payload: bytes) -> None:
        """Runs one command and sends its reply.

        Raises:
            ConnectionGoneError: the client left, or a fault ends the connection.
        """
        faults = self._server.faults
        text = self._statement(payload) if faults.read_statements else None
        if text is not None and self._server.procedures is not None and _CONTROL.match(text):
            text = None  # otherwise no fault could be cleared while all statements fail
        fault = faults.take(payload, text)
        self._delay = 0.0
        self._gate = None
        if fault is not None:
            self._delay = fault.delay
            self._gate = fault.gate
            if fault.raw is not None:
                await self._late()
                await self._channel.send(fault.raw)
                return
            if text is not None and not fault.runs:
                self._server.note(self._session.id, text)
            if fault.unheard:
                self._channel.abort()
                raise ConnectionGoneError
            self._channel.budget = fault.budget
        handler = self._handlers.get(payload[0] if payload else -1, self._unknown)
        try:
            if fault is not None and fault.error is not None:
                self._session.refuse(fault.error)
            await handler(payload)
        except MySQLError as error:
            await self._late()
            self._session.complain(error)
            self._reply.error(error)
        except (sqlite3.Error, UnicodeEncodeError) as error:
            self._reply.error(from_sqlite(error, self._session.schema))
        except ProtocolError:
            malformed = ServerErrorCode.ER_MALFORMED_PACKET
            self._reply.error(MySQLError.of(malformed, "Malformed communication packet."))
        await self._late()
        await self._channel.flush()
        self._channel.budget = None
        self._session.trackers.end_command()

    def _statement(self, payload: bytes) -> str | None:
        """The text that a command runs; None if it runs none, or none that can be read."""
        try:
            match payload[0] if payload else -1:
                case Command.COM_QUERY:
                    return decode_text(ComQuery.parse(payload, self._attributes).sql)
                case Command.COM_STMT_EXECUTE:
                    number = int.from_bytes(payload[1:5], "little")
                    return self._prepared.find(number).statement.text
        except (MySQLError, ProtocolError):
            pass  # The handler reports it.
        return None

    async def _late(self) -> None:
        delay, self._delay = self._delay, 0.0
        if delay:
            await asyncio.sleep(delay)
        gate, self._gate = self._gate, None
        if gate is not None:
            await gate.passed()

    async def _unknown(self, _payload: bytes) -> None:
        raise MySQLError.of(ServerErrorCode.ER_UNKNOWN_COM_ERROR, "Unknown command")

    async def _ok(self, _payload: bytes) -> None:
        self._reply.ok()

    async def _end_of_rows(self, _payload: bytes) -> None:
        self._reply.end_of_rows()

    async def _init_db(self, payload: bytes) -> None:
        self._session.choose_schema(ComInitDb.parse(payload).schema)
        self._reply.ok()

    async def _query(self, payload: bytes) -> None:
        text = decode_text(ComQuery.parse(payload, self._attributes).sql)
        self._server.note(self._session.id, text)

        async def emit(result: Result, more: bool) -> None:
            await self._late()
            await self._reply.result(result, more)

        await self._execution.query(text, emit, multi_statements=self._multi_statements)

    async def _field_list(self, payload: bytes) -> None:
        table = ComFieldList.parse(payload).table
        # The warning is added to the previous command's, and is not counted at the end of this one.
        self._session.warning_count = 0
        self._session.warn("Warning", 1287, _FIELD_LIST_DEPRECATED)
        stored = self._session.stored(table)
        columns = self._session.catalogue.columns(stored)
        if not columns:
            raise unknown_table(stored)
        schema = self._session.schema or ""
        for column in columns:
            definition = declared(column, schema, table, table)
            if self._reply.metadata:
                self._channel.add(definition.serialise() + _default(column, definition))
        self._reply.end_of_rows()

    async def _statistics(self, _payload: bytes) -> None:
        status = self._server.status()
        text = (
            f"Uptime: {status['Uptime']}  Threads: {status['Threads_connected']}  "
            f"Questions: {status['Questions']}  Slow queries: 0  Opens: 0  Flush tables: 0  "
            "Open tables: 0  Queries per second avg: 0.0"
        )
        self._channel.add(text.encode())

    async def _set_option(self, payload: bytes) -> None:
        option = ComSetOption.parse(payload).option
        if option not in (0, 1):
            await self._unknown(payload)
        self._multi_statements = option == 0
        self._reply.end_of_rows()

    async def _reset_connection(self, _payload: bytes) -> None:
        self._reset()
        self._reply.ok()

    def _reset(self) -> None:
        self._session.reset()
        self._prepared = PreparedStatements(self._session)

    async def _change_user(self, payload: bytes) -> None:
        """A new login; a wrong password ends the connection (fact 6.7)."""
        command = ComChangeUser.parse(payload, self._capabilities)
        try:
            await check_password(
                self._server, self._channel, command.username, command.auth_plugin,
                command.auth_response, new_nonce(), change_user=True,
            )  # fmt: skip
            schema = command.database or None
            if schema is not None and not self._session.catalogue.has_schema(schema):
                raise unknown_database(schema)
        except MySQLError as error:
            self._reply.error(error)
            await self._channel.flush()
            raise ConnectionGoneError from error
        self._session.schema = None
        self._session.user = command.username
        self._reset()
        if schema is not None:
            self._session.choose_schema(schema)
        self._reply.ok()

    async def _binlog_dump(self, payload: bytes) -> None:
        request = DumpRequest.parse(payload)
        await BinlogDump(self._server, self._channel, self._session, request).run()
        self._reply.end_of_rows()

    # Prepared statements.

    async def _stmt_prepare(self, payload: bytes) -> None:
        text = decode_text(ComStmtPrepare.parse(payload).sql)
        self._server.note(self._session.id, text)
        self._session.diagnostics, self._session.warning_count = [], 0
        number, prepared = self._prepared.prepare(text)
        parameters = prepared.statement.parameters
        head = StmtPrepareOk(
            number, len(prepared.columns), parameters, metadata=self._reply.metadata
        )
        self._channel.add(head.serialise(self._capabilities))
        self._reply.definitions([TEXT.definition("?")] * parameters)
        self._reply.definitions(prepared.columns)

    async def _stmt_execute(self, payload: bytes) -> None:
        number = int.from_bytes(payload[1:5], "little")
        prepared = self._prepared.find(number)
        parameters = prepared.statement.parameters
        statement = prepared.bind(ComStmtExecute.parse(payload, parameters, self._attributes))
        self._server.note(self._session.id, statement.text)

        async def emit(result: Result, more: bool) -> None:
            await self._late()
            await self._reply.result(result, more, binary.row)

        await self._execution.run(statement, emit, more=False, schema=prepared.schema)

    async def _stmt_send_long_data(self, payload: bytes) -> None:
        self._prepared.add_long_data(ComStmtSendLongData.parse(payload))

    async def _stmt_close(self, payload: bytes) -> None:
        self._prepared.close(ComStmtClose.parse(payload).statement_id)

    async def _stmt_fetch(self, payload: bytes) -> None:
        """There are no cursors: executions that ask for one get their rows at once."""
        number = ComStmtFetch.parse(payload).statement_id
        self._prepared.find(number)
        message = f"The statement ({number}) has no open cursor."
        raise MySQLError(1421, "HY000", message)

    async def _stmt_reset(self, payload: bytes) -> None:
        number = ComStmtReset.parse(payload).statement_id
        self._prepared.find(number).long_data.clear()
        self._session.warning_count = 0
        self._reply.ok()

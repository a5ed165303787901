"""Statements of COM_STMT_PREPARE."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mysql_mocker.columns.result_columns import ResultColumns, computed
from mysql_mocker.error import MySQLError
from mysql_mocker.sql.script import Statement
from mysql_mocker.state.session import Session
from mysql_mocker.statements import prepare
from mysql_mocker.wire import binary
from protocol.constants import FieldType
from protocol.errors import MalformedPacketError, ServerErrorCode
from protocol.parameter import ParameterType, QueryAttribute, read_values
from protocol.prepared_statement import ComStmtExecute, ComStmtSendLongData
from protocol.resultset import ColumnDefinition41
from protocol.wire import Reader

_LONG: Final = frozenset(
    (FieldType.MYSQL_TYPE_VARCHAR, FieldType.MYSQL_TYPE_VAR_STRING, FieldType.MYSQL_TYPE_STRING,
     FieldType.MYSQL_TYPE_TINY_BLOB, FieldType.MYSQL_TYPE_BLOB, FieldType.MYSQL_TYPE_MEDIUM_BLOB,
     FieldType.MYSQL_TYPE_LONG_BLOB)
)  # fmt: skip


@dataclass(slots=True)
class Prepared:
    """One prepared statement.

    Attributes:
        columns: of its result, as far as they are known before it runs.
        schema: the default schema when it was prepared, which is that of its executions.
        types: of the parameters, from the last execution that declared them.
        long_data: what COM_STMT_SEND_LONG_DATA brought, by parameter.
    """

    statement: Statement
    columns: Sequence[ColumnDefinition41]
    schema: str | None = None
    types: tuple[ParameterType, ...] | None = None
    long_data: dict[int, bytes] = field(default_factory=dict)

    def bind(self, command: ComStmtExecute) -> Statement:
        """The statement with the values of an execution.

        Raises:
            MySQLError: 1210: no execution has declared types.
            MalformedPacketError: the values are malformed.
        """
        if command.types is not None:
            self.types = command.types
        if self.types is None and command.values:
            raise MySQLError(1210, "HY000", "Incorrect arguments to mysqld_stmt_execute")
        if self.types is None and not self.long_data:
            return self.statement.with_parameters([None] * self.statement.parameters)
        types = self.types or ()
        if len(types) != command.parameters:
            raise MalformedPacketError("the types of a prepared statement's values are unknown")
        # The server reads no further than it needs: values may follow that long data replaces.
        if any(types[parameter].type not in _LONG for parameter in self.long_data):
            raise MalformedPacketError("a number or a date cannot be long")
        reader = Reader(command.values)
        arguments = list(read_values(reader, types, command.nulls, frozenset(self.long_data)))
        for parameter in sorted(self.long_data):
            arguments.insert(
                parameter, QueryAttribute("", types[parameter].type, self.long_data[parameter])
            )
        self.long_data.clear()
        values = [binary.bound_value(value) for value in arguments[: self.statement.parameters]]
        return self.statement.with_parameters(values)


class PreparedStatements:
    """The prepared statements of one session, by their ids."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._statements: dict[int, Prepared] = {}

    def prepare(self, text: str) -> tuple[int, Prepared]:
        """A new statement and its id.

        Raises:
            MySQLError: the text is not a statement that can be prepared.
        """
        number = next(self._session.statement_numbers)
        sql_mode, schema = str(self._session.variables["sql_mode"]), self._session.schema
        statement = prepare.single_statement(text, sql_mode)
        prepare.resolve(self._session, statement)
        columns: Sequence[ColumnDefinition41] = []
        if statement.words[0] in ("SELECT", "WITH", "(", "VALUES", "TABLE"):
            columns = ResultColumns(self._session, statement).expected()
        elif statement.words[0] in ("SHOW", "DESCRIBE", "DESC", "EXPLAIN", "ANALYZE"):
            columns = [computed("Value", [""])]
        self._statements[number] = Prepared(statement, columns, schema)
        return number, self._statements[number]

    def find(self, number: int) -> Prepared:
        """The statement with this id.

        Raises:
            MySQLError: 1243.
        """
        if number not in self._statements:
            self._session.warning_count = 0  # the error is told alone
            raise MySQLError.of(
                ServerErrorCode.ER_UNKNOWN_STMT_HANDLER,
                f"Unknown prepared statement handler ({number}) given to mysql_stmt_precheck",
            )
        return self._statements[number]

    def add_long_data(self, command: ComStmtSendLongData) -> None:
        """COM_STMT_SEND_LONG_DATA; unknown ids are ignored, for there is no answer."""
        known = self._statements.get(command.statement_id)
        if known is not None and command.parameter < known.statement.parameters:
            before = known.long_data.get(command.parameter, b"")
            known.long_data[command.parameter] = before + command.data

    def close(self, number: int) -> None:
        """COM_STMT_CLOSE; unknown ids are ignored, for there is no answer."""
        self._statements.pop(number, None)

    def __len__(self) -> int:
        return len(self._statements)

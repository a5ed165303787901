"""SELECT and its kin."""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from mysql_mocker.columns import value_type
from mysql_mocker.columns.result_columns import ResultColumns, integer
from mysql_mocker.error import unsupported
from mysql_mocker.evaluation.binding import (
    Bound,
    FunctionError,
    bind,
    open_tables,
    read_tables,
)
from mysql_mocker.evaluation.kept_query import KeptQuery, kept_query
from mysql_mocker.sql import translation
from mysql_mocker.sql.result import Done, Rows
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.value import Row, Value
from mysql_mocker.state.session import Session
from mysql_mocker.statements import gtid_executed
from protocol.constants import FieldType
from protocol.resultset import ColumnDefinition41

_FIXED_FORMS: Final = (
    FieldType.MYSQL_TYPE_DOUBLE,
    FieldType.MYSQL_TYPE_NEWDECIMAL,
    FieldType.MYSQL_TYPE_DATE,
    FieldType.MYSQL_TYPE_DATETIME,
    FieldType.MYSQL_TYPE_TIMESTAMP,
)
_CALCULATING_DEPRECATED: Final = (
    "SQL_CALC_FOUND_ROWS is deprecated and will be removed in a future release. Consider using "
    "two separate queries instead."
)
_DEFINITIONS: Final = "FROM information_schema.VIEW_TABLE_USAGE"


async def select(session: Session, statement: Statement) -> Rows:
    """SELECT, WITH, VALUES, TABLE.

    Raises:
        MySQLError: it failed before column definitions could be sent.
    """
    session.limit_execution()
    if _DEFINITIONS in statement.text:
        # The number of views, their definitions and their tables: as if there were no view.
        return Rows([integer(name) for name in ("n", "v", "u")], [(0, None, None)])
    kept = kept_query(statement, session.schema)
    if kept is not None:
        return await _select_kept(session, statement, kept)
    tree = statement.parse()
    nodes = translation.nodes(tree)
    if not isinstance(tree, exp.Query) or any(isinstance(node, exp.Into) for node in nodes):
        raise unsupported(statement.text)
    calculating = "SQL_CALC_FOUND_ROWS" in statement.text.upper()
    if calculating:
        session.warn("Warning", 1287, _CALCULATING_DEPRECATED)
    columns = ResultColumns(session, statement)
    selects = [node for node in nodes if isinstance(node, exp.Select)]
    locks = [lock for node in selects for lock in node.args.get("locks") or []]
    locking = bool(locks)
    if locking:
        gtid_executed.warn_of_lock(session, tree)
    try:
        bound = await bind(session, statement, tree)
    except FunctionError as failure:
        session.found_rows = 0
        return Rows([integer(name) for name in columns.names()], error=failure.error)
    updating = any(lock.args.get("update") for lock in locks)
    if updating:
        session.check_write()
    sql = open_tables(session, bound, updating=updating)
    if locking and session.transaction.active:
        await session.transaction.lock()
    surroundings = session.storage.surroundings
    surroundings.set(session.now(), id(bound))
    header, rows = session.storage.read(sql, bound.parameters)
    if surroundings.last_insert_id is not None:
        session.last_insert_id, surroundings.last_insert_id = surroundings.last_insert_id, None
    session.found_rows = _found_rows(session, bound, len(rows), calculating=calculating)
    definitions = columns.definitions(header, rows)
    return Rows(definitions, _as_declared(definitions, rows))


async def _select_kept(session: Session, statement: Statement, query: KeptQuery) -> Rows:
    columns = ResultColumns(session, statement)
    parameters = await query.parameters(session)
    read_tables(session, query.tables, query.sql, parameters)
    session.storage.surroundings.set(session.now(), id(parameters))
    header, rows = session.storage.read(query.sql, parameters)
    session.found_rows = len(rows)
    definitions = columns.definitions(header, rows)
    return Rows(definitions, _as_declared(definitions, rows))


def _exact(value: float, decimals: int) -> str:
    """A number with all its decimals; zero has no sign."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def _found_rows(session: Session, bound: Bound, count: int, *, calculating: bool) -> int:
    """FOUND_ROWS(): rows before those of LIMIT count, too; on request, also those after them."""
    offset = bound.tree.args.get("offset")
    skipped = offset.expression.name if isinstance(offset, exp.Offset) else "0"
    if not skipped.isdigit() or (count and not calculating):
        return count + (int(skipped) if skipped.isdigit() else 0)
    if not calculating and skipped == "0":
        return 0
    tree = bound.tree.copy()
    for part in ("limit", "offset"):
        tree.set(part, None)
    every = len(session.storage.read(Bound(tree, bound.parameters).sql, bound.parameters)[1])
    return every if calculating else min(every, int(skipped))


def _as_declared(definitions: Sequence[ColumnDefinition41], rows: Sequence[Row]) -> Sequence[Row]:
    """Formats values as their columns are declared: SQLite keeps them as they were given."""
    kinds = {
        column_index: column
        for column_index, column in enumerate(definitions)
        if column.type in _FIXED_FORMS and column.decimals != value_type.NO_DECIMALS
    }
    if not kinds:
        return rows

    def formed(column_index: int, value: Value) -> Value:
        column = kinds.get(column_index)
        if column is None:
            return value
        if column.type in (FieldType.MYSQL_TYPE_NEWDECIMAL, FieldType.MYSQL_TYPE_DOUBLE):
            return _exact(value, column.decimals) if isinstance(value, int | float) else value
        if not isinstance(value, str):
            return value
        if column.type == FieldType.MYSQL_TYPE_DATE:
            return value[:10]
        return f"{value} 00:00:00" if len(value) == 10 else value

    return [[formed(column_index, value) for column_index, value in enumerate(row)] for row in rows]


async def do(session: Session, statement: Statement) -> Done:
    """DO: like SELECT, but returns nothing.

    Raises:
        MySQLError: an expression has no value.
    """
    tree = exp.select(*statement.expressions(1))
    try:
        bound = await bind(session, statement, tree)
    except FunctionError as failure:
        raise failure.error from failure
    session.storage.read(open_tables(session, bound), bound.parameters)
    session.found_rows = 1
    return Done()

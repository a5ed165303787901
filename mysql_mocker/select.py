"""SELECT and its kin."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from mysql_mocker.binding import FunctionError, bind
from mysql_mocker.columns import ResultColumns, integer
from mysql_mocker.error import unsupported
from mysql_mocker.result import Done, Rows
from mysql_mocker.script import Statement
from mysql_mocker.value import Row, Value
from protocol.constants import FieldType
from protocol.resultset import ColumnDefinition41

if TYPE_CHECKING:
    from mysql_mocker.session import Session


_DEFINITIONS: Final = "FROM information_schema.VIEW_TABLE_USAGE"


def _is_locking(tree: exp.Expr) -> bool:
    return any(select.args.get("locks") for select in tree.find_all(exp.Select))


async def select(session: "Session", statement: Statement) -> Rows:
    """SELECT, WITH, VALUES, TABLE.

    Raises:
        MySQLError: it has no rows to give, not even column definitions.
    """
    session.limit_execution()
    if _DEFINITIONS in statement.text:
        # How many views there are, what they are, and what they read from: none is told of.
        return Rows([integer(name) for name in ("n", "v", "u")], [(0, None, None)])
    tree = statement.parse()
    if not isinstance(tree, exp.Query) or tree.find(exp.Into):
        raise unsupported(statement.text)
    columns = ResultColumns(session, statement)
    locking = _is_locking(tree)
    try:
        bound = await bind(session, statement, tree)
    except FunctionError as failure:
        session.found_rows = 0
        return Rows([integer(name) for name in columns.names()], error=failure.error)
    if locking:
        session.check_write()
        if session.transaction.active or not session.variables["autocommit"]:
            await session.transaction.lock()
    if bound.tables:
        session.transaction.read()
        session.trackers.noted(read=True, written=locking)
    surroundings = session.storage.surroundings
    surroundings.enter(session.now(), id(bound))
    header, rows = session.storage.read(bound.sql, bound.parameters)
    if surroundings.last_insert_id is not None:
        session.last_insert_id, surroundings.last_insert_id = surroundings.last_insert_id, None
    session.found_rows = len(rows)
    definitions = columns.definitions(header, rows)
    return Rows(definitions, _with_decimals(definitions, rows))


def _with_decimals(definitions: Sequence[ColumnDefinition41], rows: Sequence[Row]) -> Sequence[Row]:
    """Writes the numbers of DECIMAL columns with all their decimals."""
    scales = {
        place: column.decimals
        for place, column in enumerate(definitions)
        if column.type == FieldType.MYSQL_TYPE_NEWDECIMAL
    }
    if not scales:
        return rows

    def exact(place: int, value: Value) -> Value:
        if place in scales and isinstance(value, int | float):
            return f"{value:.{scales[place]}f}"
        return value

    return [[exact(place, value) for place, value in enumerate(row)] for row in rows]


async def do(session: "Session", statement: Statement) -> Done:
    """DO: like SELECT, but says nothing.

    Raises:
        MySQLError: an expression has no value.
    """
    tree = exp.select(*statement.expressions(1))
    try:
        bound = await bind(session, statement, tree)
    except FunctionError as failure:
        raise failure.error from failure
    session.storage.read(bound.sql, bound.parameters)
    return Done()

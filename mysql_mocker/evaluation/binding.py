"""Puts values into a statement: parameters, variables, and functions that SQLite cannot answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlglot import exp

from mysql_mocker.error import MySQLError, unsupported
from mysql_mocker.evaluation import virtual
from mysql_mocker.evaluation.session_functions import FUNCTIONS
from mysql_mocker.sql import translation
from mysql_mocker.sql.result import Result
from mysql_mocker.sql.script import Statement, copied, literal, split
from mysql_mocker.sql.value import Value
from mysql_mocker.state.routine import Routine, find
from mysql_mocker.state.session import Session

_LONG = 512
_BEFORE_ROWS = frozenset((1290, 1792))
"""Errors that refuse a write: the server finds them before it sends a column definition."""

FUNCTION_NODES: dict[type[exp.Expr], str] = {
    exp.CurrentUser: "CURRENT_USER",
    exp.CurrentRole: "CURRENT_ROLE",
    exp.SessionUser: "SESSION_USER",
    exp.CurrentSchema: "SCHEMA",
    exp.CurrentVersion: "VERSION",
}
"""Functions that have syntax of their own."""


class FunctionError(Exception):
    """A function failed after the column definitions were sent (fact 1.2)."""

    def __init__(self, error: MySQLError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class Bound:
    """A statement into which all that only the session knows has been put.

    Attributes:
        tree: its syntax tree, with stored table names.
        parameters: long values, for SQLite's named placeholders.
        tables: stored names of the tables that were named.
    """

    tree: exp.Expr
    parameters: dict[str, Value] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)

    @property
    def sql(self) -> str:
        """The text for SQLite."""
        return translation.sqlite_sql(translation.functions(self.tree))


async def bind(session: Session, statement: Statement, tree: exp.Expr) -> Bound:
    """Binds a whole statement.

    Raises:
        MySQLError: a name is unknown.
        FunctionError: a function could not give its value.
    """
    # Under a root of its own even the topmost node can be replaced.
    root = exp.Paren(this=tree)
    bound = Bound(tree)
    _bind_values(statement, root, bound)
    _bind_user_variables(session, root)
    await _bind_functions(session, root)
    for limit in translation.nodes(root):
        if isinstance(limit, exp.Limit | exp.Offset) and isinstance(limit.expression, exp.Null):
            limit.set("expression", exp.Literal.number(0))
    found = root.this
    translation.qualify(
        found, session.schema, lambda schema, name: virtual.table(session, schema, name)
    )
    bound.tree = found.pop() if isinstance(found, exp.Expr) else tree
    bound.tables = [table.name for table in translation.tables(bound.tree)]
    return bound


async def evaluate(session: Session, statement: Statement, tree: exp.Expr) -> Value:
    """The value of an expression.

    Raises:
        MySQLError: it has no value.
    """
    try:
        bound = await bind(session, statement, exp.select(tree))
    except FunctionError as failure:
        raise failure.error from failure
    return session.storage.value(open_tables(session, bound), bound.parameters)


def open_tables(session: Session, bound: Bound, *, updating: bool = False) -> str:
    """A statement is about to read the tables that it names, if there are any: gives its text.

    It begins a transaction only if all its names are known. With `updating` it locks rows.

    Raises:
        MySQLError: 1146, or 1049.
        sqlite3.Error: another name is unknown.
    """
    _check_tables(session, bound.tables)
    sql = bound.sql
    _read(session, bound.tables, sql, bound.parameters, updating=updating)
    return sql


def read_tables(
    session: Session, tables: Sequence[str], sql: str, parameters: dict[str, Value]
) -> None:
    """The same for a text that is known already.

    Raises:
        MySQLError, sqlite3.Error: as `open_tables`.
    """
    _check_tables(session, tables)
    _read(session, tables, sql, parameters, updating=False)


def _check_tables(session: Session, tables: Sequence[str]) -> None:
    for stored in tables:
        if session.catalogue.kind(stored) is None:
            raise session.unknown_table(stored)


def _read(
    session: Session,
    tables: Sequence[str],
    sql: str,
    parameters: dict[str, Value],
    *,
    updating: bool,
) -> None:
    if tables:
        session.storage.resolve(sql, parameters)
        session.transaction.read()
        session.trackers.note(read=not updating, written=updating)


def _bind_values(statement: Statement, root: exp.Expr, bound: Bound) -> None:
    for node in translation.nodes(root):
        if not isinstance(node, exp.Literal) or not node.is_string:
            continue
        value = statement.values.get(node.name, node.name)
        if value == node.name and value.isascii() and "\0" not in value:
            continue
        if isinstance(value, str | bytes) and len(value) > _LONG:
            name = f"long{len(bound.parameters)}"
            bound.parameters[name] = value
            node.replace(exp.Placeholder(this=name))
        else:
            node.replace(literal(value))


def _bind_user_variables(session: Session, root: exp.Expr) -> None:
    every = translation.nodes(root)
    assignments = [node for node in every if isinstance(node, exp.PropertyEQ)]
    for user in every:
        if not isinstance(user, exp.Parameter):
            continue
        name = user.name.lower()
        assigned = isinstance(user.parent, exp.PropertyEQ) and user.arg_key == "this"
        if assigned:
            continue
        if assignments:
            user.replace(exp.Anonymous(this="user_variable", expressions=[literal(name)]))
        else:
            user.replace(literal(session.storage.surroundings.user_variables.get(name)))
    for assignment in reversed(assignments):
        if isinstance(assignment.this, exp.Parameter):
            operands = [literal(assignment.this.name.lower()), assignment.expression]
            assignment.replace(exp.Anonymous(this="assign_user_variable", expressions=operands))


async def _bind_functions(session: Session, root: exp.Expr) -> None:
    """Put in the values of system variables and functions, one after another, as a server does."""
    for node in translation.in_order(root):
        if isinstance(node, exp.SessionParameter):
            scope = str(node.args.get("kind") or "").lower()
            scope = "session" if scope == "local" else scope
            node.replace(literal(session.variable(node.name, scope)))
            continue
        name = FUNCTION_NODES.get(type(node), "")
        if isinstance(node, exp.Anonymous):
            name = node.name.upper()
        function = FUNCTIONS.get(name)
        if function is None and isinstance(node, exp.Anonymous):
            routine = find(session, "FUNCTION", node.name)
            function = None if routine is None else partial(_call, routine=routine)
        if function is None:
            continue
        if any(argument.find(exp.Column) for argument in node.expressions):
            if name != "LAST_INSERT_ID":
                raise unsupported(f"{name} of a column")
            node.set("this", "store_last_insert_id")
            continue
        arguments = [_constant(session, argument) for argument in node.expressions]
        try:
            value = await function(session, arguments)
        except MySQLError as error:
            if error.code in _BEFORE_ROWS:
                raise
            raise FunctionError(error) from error
        node.replace(literal(value))


def _constant(session: Session, expression: exp.Expr) -> Value:
    if isinstance(expression, exp.Literal) and expression.is_string:
        return expression.name
    tree = translation.functions(exp.Select(expressions=[copied(expression)]))
    return session.storage.value(translation.sqlite_sql(tree))


async def _call(session: Session, _arguments: Sequence[Value], routine: Routine) -> Value:
    """The value of a stored function; what it writes belongs to the calling statement.

    Raises:
        MySQLError: 1321 for a function that ends without RETURN.
    """
    session.check_write()
    session.end_limit()
    session.routine_depth += 1
    last_insert_id = session.last_insert_id
    try:
        for inner in split(routine.body):
            if inner.words[0] == "RETURN":
                return await evaluate(session, inner, inner.expressions(1)[0])
            await session.inner.execute(inner, _no_result_sets)
    finally:
        session.routine_depth -= 1
        session.last_insert_id = last_insert_id
    raise MySQLError(1321, "2F005", f"FUNCTION {routine.name} ended without RETURN")


async def _no_result_sets(_result: Result) -> None:
    raise MySQLError(1415, "0A000", "Not allowed to return a result set from a function")

"""INSERT, REPLACE, UPDATE and DELETE."""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from mysql_mocker.error import MySQLError, syntax_error, unsupported
from mysql_mocker.evaluation.binding import Bound, FunctionError, bind
from mysql_mocker.sql.names import quoted
from mysql_mocker.sql.result import Done
from mysql_mocker.sql.script import Statement, copied
from mysql_mocker.sql.value import Row
from mysql_mocker.state.catalogue import Column
from mysql_mocker.state.session import Session
from mysql_mocker.statements import duplicates
from mysql_mocker.statements.numbering import Numbering
from mysql_mocker.statements.touches import Touches, touched

_VALUES_DEPRECATED = (
    "'VALUES function' is deprecated and will be removed in a future release. Please use an alias "
    "(INSERT INTO ... VALUES (...) AS alias) and replace VALUES(col) in the ON DUPLICATE KEY "
    "UPDATE clause with alias.col instead"
)


def _target(session: Session, tree: exp.Expr) -> tuple[str, bool]:
    """Stored name of the table that is written, and whether it is temporary.

    Raises:
        MySQLError: 1146, or 1235 for more than one table.
    """
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    joined = isinstance(table, exp.Table) and table.args.get("joins")
    if not isinstance(table, exp.Table) or joined or tree.args.get("tables"):
        raise unsupported("statements that write more than one table")
    stored = session.stored(table.name, table.db)
    kind = session.catalogue.kind(stored)
    if kind is None:
        session.check_read_write()
        raise session.unknown_table(stored)
    return stored, kind == "temporary"


async def _bound(session: Session, statement: Statement, tree: exp.Expr) -> Bound:
    try:
        return await bind(session, statement, tree)
    except FunctionError as failure:
        raise failure.error from failure


async def _open(session: Session, bound: Bound, *, temporary: bool) -> str:
    """Takes the write lock, which temporary tables do not need; gives the statement's text.

    Raises:
        sqlite3.Error: a name is unknown, and no transaction has begun.
    """
    sql = bound.sql
    session.storage.resolve(sql, bound.parameters)
    if temporary:
        session.transaction.read()
    else:
        await session.transaction.lock()
    return sql


async def _run(
    session: Session, bound: Bound, sql: str, *, touches: Touches, temporary: bool, unsafe: bool
) -> tuple[int, int]:
    """Runs the statement and keeps it for the replicas if it changed anything."""
    storage = session.storage
    write = session.note(sql, bound.parameters)
    reads = isinstance(bound.tree, exp.Insert) and len(bound.tables) > 1
    session.trackers.note(read=reads, written=True, unsafe=unsafe)
    rows, last_id = storage.write(write)
    if rows and not temporary:
        session.transaction.writes.append(replace(write, touches=touches))
    stored_id = storage.surroundings.last_insert_id
    if stored_id is not None:
        session.last_insert_id, storage.surroundings.last_insert_id = stored_id, None
    return rows, last_id


def _has_limit(bound: Bound) -> bool:
    """Whether the rows that are written depend on the order in which a server finds them."""
    return bound.tree.find(exp.Limit) is not None


def _without_table(tree: exp.Expr) -> None:
    for column in tree.find_all(exp.Column):
        column.set("table", None)


def _count(session: Session, stored: str) -> int:
    return int(session.storage.value(f"SELECT count(*) FROM {quoted(stored)}") or 0)  # noqa: S608 - quoted


@dataclass(frozen=True, slots=True)
class _Insertion:
    """What one INSERT or REPLACE is to do to a table.

    Attributes:
        session: whose it is.
        stored: the table, as it is stored.
        replacing: it is a REPLACE.
        ignoring: it is an INSERT IGNORE.
        updating: it has ON DUPLICATE KEY UPDATE.
        candidates: how many rows it has; None if they are a query's.
    """

    session: Session
    stored: str
    replacing: bool
    ignoring: bool
    updating: bool
    candidates: int | None

    @property
    def counts(self) -> bool:
        """Whether its rows can be others than those that it adds."""
        return self.replacing or self.updating

    def affected(self, rows: int, inserted: int) -> int:
        """The number of affected rows, if so many were written, and so many of them added."""
        found = 2 * rows - inserted
        if self.updating and self.session.found_rows_wanted and self.candidates is not None:
            found += self.candidates - rows  # those that were found, and not changed
        return found

    def repeats(self, rows: int, old: Sequence[Row], numbering: Numbering | None) -> bool:
        """Whether it has replaced a row by the same one, which a server leaves alone."""
        return (
            rows == 1
            and not _is_unique(self.session, self.stored)
            and bool(old)
            and old == _row(self.session, self.stored, numbering)
        )

    def reported_id(self, numbering: Numbering, inserted: int, last_id: int) -> int:
        """The id that the client is told, of rows that were written; notes it for the session."""
        session = self.session
        returned = session.storage.returned
        reported = int(returned[-1][0] or 0) if returned else last_id
        if numbering.first is None:
            if self.ignoring and self.candidates is not None:
                reported = numbering.last
            return reported
        if inserted or self.replacing:
            reported = next((int(i or 0) for (i,) in returned if int(i or 0) >= numbering.first), 0)
            session.last_insert_id = reported
        if session.logged is not None:
            session.logged.insert_id = numbering.first
        return reported

    def information(self, rows: int, affected: int) -> str:
        """The text of the OK packet."""
        if self.candidates == 1:
            return ""
        many = rows if self.candidates is None else self.candidates
        count = max(0, many - rows) if self.ignoring else max(0, affected - rows)
        warnings = len(self.session.diagnostics)
        return f"Records: {many}  Duplicates: {count}  Warnings: {warnings}"


def _insert_of(statement: Statement, *, replacing: bool) -> exp.Insert:
    tree = statement.parse()
    if not isinstance(tree, exp.Insert):
        raise unsupported(statement.text)
    if replacing:
        tree.set("alternative", "REPLACE")
    return tree


def _keep_number(numbering: Numbering | None, candidates: int | None, rows: int | None) -> None:
    """Notes which numbers are used up; `rows` is None if the statement failed."""
    if numbering is not None:
        # If INSERT … SELECT fails, its first row is assumed to be the one that was refused.
        numbering.keep(None if candidates is not None else 1 if rows is None else rows)


async def _bound_insert(
    session: Session, statement: Statement, tree: exp.Insert
) -> tuple[Bound, exp.Insert]:
    """The statement with its names bound, and its tree then."""
    conflict = tree.args.get("conflict")
    if isinstance(conflict, exp.OnConflict):
        _check_assignments(statement, conflict.expressions)
        _upsert(session, tree, conflict)
    bound = await _bound(session, statement, tree)
    if not isinstance(bound.tree, exp.Insert):
        raise unsupported(statement.text)
    return bound, bound.tree


async def insert(session: Session, statement: Statement) -> Done:
    """INSERT and REPLACE.

    Raises:
        MySQLError: the server's error for what is wrong.
    """
    replacing = statement.words[0] == "REPLACE"
    statement = statement.with_first_word("INSERT") if replacing else statement
    tree = _insert_of(statement, replacing=replacing)
    stored, temporary = _target(session, tree)
    session.check_write(temporary=temporary)
    columns = session.catalogue.columns(stored)
    _fill_defaults(tree, columns)
    ignoring = bool(tree.args.get("ignore"))
    conflict = tree.args.get("conflict")
    column_names = [name.name.lower() for name in _named_columns(tree)]
    bound, written = await _bound_insert(session, statement, tree)
    if any(column.auto_increment for column in columns):
        written.set("returning", exp.Returning(expressions=[exp.column("rowid")]))
    touches = touched(session, stored, bound)
    unsafe = _has_limit(bound) or (bool(conflict) and _is_unique(session, stored))
    _check_widths(written, columns)
    sql = await _open(session, bound, temporary=temporary)
    lenient = ignoring or conflict
    repeated = duplicates.expected(session, stored, written) if lenient else []
    numbering = Numbering.of(session, stored, columns, temporary=temporary)
    if numbering is not None:
        numbering.fill(written, columns, [message is not None for message in repeated])
        sql = bound.sql
    candidates = _row_count(tree)
    insertion = _Insertion(session, stored, replacing, ignoring, bool(conflict), candidates)
    before = _count(session, stored) if insertion.counts else 0
    old = _row(session, stored, numbering) if replacing else []
    rows: int | None = None
    try:
        rows, last_id = await _run(
            session, bound, sql, touches=touches, temporary=temporary, unsafe=unsafe
        )
    except sqlite3.IntegrityError as error:
        if "NOT NULL" in str(error):
            numbering = None  # such a row is refused before it gets its number
        raise _constraint(session, error, stored, written, column_names) from error
    finally:
        _keep_number(numbering, candidates, rows)
    if candidates is None:
        session.found_rows = rows
    inserted = _count(session, stored) - before if insertion.counts else rows
    affected = insertion.affected(rows, inserted)
    if insertion.repeats(rows, old, numbering):
        affected = 1
        if not temporary:
            session.transaction.writes.pop()
    if ignoring:
        duplicates.warn(session, repeated)
    reported = 0
    if rows and numbering is not None:
        reported = insertion.reported_id(numbering, inserted, last_id)
    return Done(affected, reported, insertion.information(rows, affected))


def _check_assignments(statement: Statement, assignments: list[exp.Expr]) -> None:
    if not all(isinstance(assignment, exp.EQ) for assignment in assignments):
        raise syntax_error(statement.text)


def _named_columns(tree: exp.Insert) -> list[exp.Expr]:
    return list(tree.this.expressions) if isinstance(tree.this, exp.Schema) else []


def _is_unique(session: Session, stored: str) -> bool:
    """Whether the table has unique keys besides the primary one."""
    return any(unique for _, unique, _ in session.catalogue.indexes(stored))


def _row(session: Session, stored: str, numbering: Numbering | None) -> Sequence[Row]:
    """The row, if there is one, that has the number of the last row of VALUES."""
    if numbering is None:
        return []
    query = f"SELECT * FROM {quoted(stored)} WHERE rowid = ?"  # noqa: S608 - quoted
    return session.storage.read(query, (numbering.last,))[1]


def _check_widths(tree: exp.Insert, columns: list[Column]) -> None:
    wanted = len(_named_columns(tree)) or len(columns)
    values = tree.expression
    for row_number, row in enumerate(
        values.expressions if isinstance(values, exp.Values) else (), 1
    ):
        if len(row.expressions) != wanted and (row.expressions or wanted):
            message = f"Column count doesn't match value count at row {row_number}"
            raise MySQLError(1136, "21S01", message)


def _row_count(tree: exp.Insert) -> int | None:
    """Rows of VALUES; None for INSERT … SELECT."""
    values = tree.expression
    return len(values.expressions) if isinstance(values, exp.Values) else None


def _is_default(node: exp.Expr) -> bool:
    return isinstance(node, exp.Var | exp.Column) and node.name.upper() == "DEFAULT"


def _fill_defaults(tree: exp.Insert, columns: list[Column]) -> None:
    """Writes out the DEFAULT keyword, and the rows of ``INSERT INTO t VALUES ()``."""
    values = tree.expression
    if not isinstance(values, exp.Values):
        return
    named = {column.name.lower(): column for column in columns}
    order = [named.get(node.name.lower()) for node in _named_columns(tree)] or list(columns)
    for row in values.expressions:
        if not row.expressions and not _named_columns(tree):
            row.set("expressions", [exp.Var(this="DEFAULT") for _ in columns])
        for position, node in enumerate(list(row.expressions)):
            column = order[position] if position < len(order) else None
            if _is_default(node) and column is not None:
                node.replace(_default(column))


def _default(column: Column) -> exp.Expr:
    if column.default is not None:
        return exp.Var(this=column.default)
    if column.not_null and not column.auto_increment:
        raise MySQLError(1364, "HY000", f"Field '{column.name}' doesn't have a default value")
    return exp.Null()


def _upsert(session: Session, tree: exp.Insert, conflict: exp.OnConflict) -> None:
    """ON DUPLICATE KEY UPDATE: an update that changes nothing is not counted."""
    changes: list[exp.Expr] = []
    for assignment in conflict.expressions:
        _without_table(assignment)
        for values in list(assignment.find_all(exp.Anonymous)):
            if values.name.upper() == "VALUES" and len(values.expressions) == 1:
                session.warn("Warning", 1287, _VALUES_DEPRECATED)
                values.replace(exp.column(values.expressions[0].name, table="excluded"))
        changes.append(_differs(assignment))
    conflict.set("duplicate", False)
    conflict.set("action", exp.Var(this="DO UPDATE"))
    conflict.set("where", exp.Where(this=exp.or_(*changes)))
    if isinstance(tree.expression, exp.Select) and not tree.expression.args.get("where"):
        # Without WHERE, SQLite would read ON as that of a join.
        tree.expression.set("where", exp.Where(this=exp.true()))


def _differs(assignment: exp.Expr) -> exp.Expr:
    left, right = copied(assignment.this), exp.Paren(this=copied(assignment.expression))
    return exp.Not(this=exp.Paren(this=exp.NullSafeEQ(this=left, expression=right)))


def _constraint(
    session: Session,
    error: sqlite3.IntegrityError,
    stored: str,
    tree: exp.Expr,
    column_names: list[str],
) -> Exception:
    text = str(error)
    if text.startswith("UNIQUE"):
        return duplicates.error(session, stored, tree)
    missing = re.match(r"NOT NULL constraint failed: .+\.(.+)", text)
    if missing is not None and column_names and missing[1].lower() not in column_names:
        return MySQLError(1364, "HY000", f"Field '{missing[1]}' doesn't have a default value")
    return error


def _chosen_rows(tree: exp.Expr, stored: str) -> None:
    """Replaces ORDER BY and LIMIT of UPDATE and DELETE by a condition on the rows."""
    order, limit = tree.args.get("order"), tree.args.get("limit")
    if order is None and limit is None:
        return
    inner = exp.select("rowid").from_(exp.Table(this=exp.to_identifier(stored, quoted=True)))
    inner.set("where", tree.args.get("where"))
    inner.set("order", order)
    inner.set("limit", limit)
    for column in inner.find_all(exp.Column):
        column.set("table", None)
    tree.set("order", None)
    tree.set("limit", None)
    chosen = exp.In(this=exp.column("rowid"), query=inner.subquery())
    tree.set("where", exp.Where(this=chosen))


async def update(session: Session, statement: Statement) -> Done:
    """UPDATE of one table.

    Raises:
        MySQLError: the server's error for what is wrong.
    """
    tree = statement.parse()
    if not isinstance(tree, exp.Update):
        raise unsupported(statement.text)
    _check_assignments(statement, tree.expressions)
    stored, temporary = _target(session, tree)
    session.check_write(temporary=temporary)
    bound = await _bound(session, statement, tree)
    touches = touched(session, stored, bound)
    unsafe = _has_limit(bound)
    tree = bound.tree
    for assignment in tree.expressions:
        _without_table(assignment.this)
    condition, limit = tree.args.get("where"), tree.args.get("limit")
    runs_no_query = isinstance(condition, exp.Where) and _is_never(condition.this)
    runs_no_query |= isinstance(limit, exp.Limit) and limit.expression.name == "0"
    _chosen_rows(tree, stored)
    condition = tree.args.get("where")
    wanted = condition.this if isinstance(condition, exp.Where) else exp.true()
    counting = (
        exp.Select(expressions=[exp.Count(this=exp.Star())])
        .from_(copied(tree.this), copy=False)
        .where(copied(wanted), copy=False)
    )
    changes = exp.or_(*[_differs(assignment) for assignment in tree.expressions], copy=False)
    tree.set("where", exp.Where(this=exp.and_(copied(wanted), changes, copy=False)))
    sql = await _open(session, bound, temporary=temporary)
    matched_bound = Bound(counting, bound.parameters)
    matched = int(session.storage.value(matched_bound.sql, bound.parameters) or 0)
    try:
        changed, _ = await _run(
            session, bound, sql, touches=touches, temporary=temporary, unsafe=unsafe
        )
    except sqlite3.IntegrityError as error:
        raise _constraint(session, error, stored, tree, []) from error
    _renumber(session, stored, tree, temporary=temporary)
    if not runs_no_query:
        session.found_rows = matched
    info = f"Rows matched: {matched}  Changed: {changed}  Warnings: {len(session.diagnostics)}"
    return Done(matched if session.found_rows_wanted else changed, 0, info)


def _is_never(condition: exp.Expr) -> bool:
    """Whether the server sees without a table that no row fulfils a condition.

    It sees more: that columns are NOT NULL, and that ranges of keys are empty.
    """
    if isinstance(condition, exp.Paren):
        return _is_never(condition.this)
    if isinstance(condition, exp.And):
        return _is_never(condition.this) or _is_never(condition.expression)
    if isinstance(condition, exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
        return exp.Null in (type(condition.this), type(condition.expression))
    return isinstance(condition, exp.Null) or condition.sql() in ("0", "FALSE")


def _renumber(session: Session, stored: str, tree: exp.Expr, *, temporary: bool) -> None:
    columns = session.catalogue.columns(stored)
    numbering = Numbering.of(session, stored, columns, temporary=temporary)
    names = [assignment.this.name.lower() for assignment in tree.expressions]
    if numbering is not None and numbering.key.name.lower() in names:
        numbering.changed()


async def delete(session: Session, statement: Statement) -> Done:
    """DELETE from one table.

    Raises:
        MySQLError: the server's error for what is wrong.
    """
    tree = statement.parse()
    if not isinstance(tree, exp.Delete):
        raise unsupported(statement.text)
    stored, temporary = _target(session, tree)
    session.check_write(temporary=temporary)
    bound = await _bound(session, statement, tree)
    touches = touched(session, stored, bound)
    unsafe = _has_limit(bound)
    _chosen_rows(bound.tree, stored)
    sql = await _open(session, bound, temporary=temporary)
    rows, _ = await _run(session, bound, sql, touches=touches, temporary=temporary, unsafe=unsafe)
    return Done(rows)

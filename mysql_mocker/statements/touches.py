"""Which rows and tables a statement reads and writes, for replicas that apply in parallel."""

from sqlglot import exp

from mysql_mocker.evaluation.binding import Bound
from mysql_mocker.state.session import Session

Touches = tuple[tuple[str, int | None], ...]


def touched(session: Session, stored: str, bound: Bound) -> Touches:
    """What an INSERT, UPDATE or DELETE of a table touches; empty if that is not known.

    That is one row, if the statement names it by the table's integer primary key and nothing else
    could connect it with other rows; else whole tables. It is not known for a view, which hides its
    tables, and if there are foreign keys, which connect tables.
    """
    catalogue = session.catalogue
    tables = sorted({stored, *bound.tables})
    if any(catalogue.kind(table) != "table" for table in tables):
        return ()
    if catalogue.has_foreign_keys():
        return ()
    key = None
    if len(tables) == 1 and not any(unique for _, unique, _ in catalogue.indexes(stored)):
        key = _key(session, stored, bound.tree)
    return ((stored, key),) if key is not None else tuple((table, None) for table in tables)


def _key(session: Session, stored: str, tree: exp.Expr) -> int | None:
    """The primary key of the one row that a statement is about."""
    columns = session.catalogue.columns(stored)
    keys = [column.name.lower() for column in columns if column.key]
    if len(keys) != 1 or tree.find(exp.Select, exp.Subquery):
        return None
    if isinstance(tree, exp.Insert):
        return _inserted(tree, keys[0], [column.name.lower() for column in columns])
    if isinstance(tree, exp.Update) and any(
        assignment.this.name.lower() == keys[0] for assignment in tree.expressions
    ):
        return None
    condition = tree.args.get("where")
    if not isinstance(condition, exp.Where):
        return None
    parts = condition.this.flatten() if isinstance(condition.this, exp.And) else [condition.this]
    for part in parts:
        if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column):
            number = _integer(part.expression)
            if part.this.name.lower() == keys[0] and number is not None:
                return number
    return None


def _inserted(tree: exp.Insert, key: str, columns: list[str]) -> int | None:
    named = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    order = [name.name.lower() for name in named] or columns
    values = tree.expression
    if key not in order or not isinstance(values, exp.Values) or len(values.expressions) != 1:
        return None
    row = values.expressions[0].expressions
    column = order.index(key)
    return _integer(row[column]) if column < len(row) else None


def _integer(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Literal) and node.is_int:
        return int(node.name)
    return None

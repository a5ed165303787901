"""A client's changes to `mysql.gtid_executed`: any, with a warning (measured on 9.7.4)."""

from typing import Final

from sqlglot import exp

from mysql_mocker.error import unsupported
from mysql_mocker.evaluation.binding import bind
from mysql_mocker.sql.result import Done
from mysql_mocker.sql.script import Statement
from mysql_mocker.state.gtid_table import SCHEMA
from mysql_mocker.state.session import Session

_TABLE: Final = "gtid_executed"
_WARNING: Final = (
    "Please do not modify the gtid_executed table. This is a mysql internal system table to store "
    "GTIDs for committed transactions. Modifying it can lead to an inconsistent GTID state."
)


def _is_it(session: Session, node: object) -> bool:
    if not isinstance(node, exp.Table) or node.name.lower() != _TABLE:
        return False
    return (node.db or session.schema or "").lower() == "mysql"


def warn_of_lock(session: Session, tree: exp.Expr) -> None:
    """SELECT … FOR UPDATE."""
    update = any(lock.args.get("update") for lock in tree.find_all(exp.Lock))
    if update and any(_is_it(session, table) for table in tree.find_all(exp.Table)):
        session.warn("Warning", 3129, _WARNING)


async def change(session: Session, statement: Statement) -> Done | None:
    """INSERT, REPLACE, UPDATE, DELETE and TRUNCATE; None for those of another table.

    They are not in the binary log and have no GTID. Unlike a server's, they are committed at once,
    even inside a transaction.

    Raises:
        MySQLError: 1235 for other changes.
    """
    if _TABLE not in statement.text.lower():
        return None
    replacing = statement.words[0] == "REPLACE"
    tree = (statement.with_first_word("INSERT") if replacing else statement).parse()
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    if isinstance(tree, exp.TruncateTable):
        target = tree.expressions[0]
    if not _is_it(session, target):
        return None
    session.check_write()
    table = session.server.engine.gtid_table
    if isinstance(tree, exp.TruncateTable):
        session.transaction.commit()
        table.reset()
        return Done()
    if not isinstance(tree, exp.Insert | exp.Update | exp.Delete):
        raise unsupported(statement.text)
    if replacing:
        tree.set("alternative", "REPLACE")
    target.set("db", exp.to_identifier(SCHEMA))
    bound = await bind(session, statement, tree)
    rows, _ = table.storage.write(table.storage.note(bound.sql, bound.parameters, session.now()))
    session.warn("Warning", 3129, _WARNING)
    return Done(rows)

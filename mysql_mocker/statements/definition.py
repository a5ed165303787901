"""Definitions: CREATE, ALTER, DROP, RENAME, TRUNCATE. Each commits, before and after."""

from sqlglot import exp

from mysql_mocker.error import MySQLError, unknown_database, unsupported
from mysql_mocker.evaluation.binding import FunctionError, bind
from mysql_mocker.sql.names import quoted
from mysql_mocker.sql.result import Done
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.value import Value
from mysql_mocker.state.session import Session
from mysql_mocker.statements.table_definition import (
    Index,
    TableDefinition,
    added_column,
    index,
    key_columns,
)

_REBUILT = "Records: 0  Duplicates: 0  Warnings: 0"


async def begin(session: Session) -> None:
    """Commits what was open and waits to be the only writer.

    Raises:
        MySQLError: the session may not write.
    """
    session.check_server()
    session.transaction.commit()
    session.transaction.spend_settings()
    session.check_write()
    await session.transaction.lock(defining=True)


def run(session: Session, sql: str, parameters: dict[str, Value] | None = None) -> int:
    """Runs one statement of a definition and keeps it for the replicas; returns its row count."""
    write = session.note(sql, parameters or {})
    rows, _ = session.storage.write(write)
    session.transaction.writes.append(write)
    return rows


def end(session: Session, *, read: bool = False) -> None:
    """Commits; a definition has a GTID even if it changed nothing (fact 2.2).

    Args:
        session: whose definition it is.
        read: it has read tables.
    """
    if read:
        tell_of_reading(session)
    session.transaction.commit(numbered=True)


def tell_of_reading(session: Session) -> None:
    """To the tracker, reading tables between two commits is a transaction of its own."""
    session.trackers.transaction_began(implicit=True)
    session.trackers.transaction_ended()


async def define(session: Session, statement: Statement) -> Done:
    """CREATE, ALTER, DROP, TRUNCATE and RENAME of tables, views and indexes.

    Raises:
        MySQLError: the server's error for what is wrong.
    """
    if statement.words[0] == "RENAME":
        return await _rename(session, statement)
    tree = statement.parse()
    if isinstance(tree, exp.Create):
        if tree.kind == "TABLE":
            return await _create_table(session, statement, tree)
        if tree.kind == "INDEX":
            return await _create_index(session, tree)
        if tree.kind == "VIEW":
            return await _create_view(session, statement, tree)
    if isinstance(tree, exp.Drop) and tree.kind in ("TABLE", "VIEW"):
        return await _drop(session, tree)
    if isinstance(tree, exp.Drop) and tree.kind == "INDEX":
        return await _drop_index(session, statement)
    if isinstance(tree, exp.TruncateTable):
        return await _truncate(session, tree)
    if isinstance(tree, exp.Alter) and tree.kind == "TABLE":
        return await _alter(session, tree)
    raise unsupported(statement.text)


def _is_temporary(tree: exp.Create) -> bool:
    properties = tree.args.get("properties")
    return properties is not None and properties.find(exp.TemporaryProperty) is not None


async def _create_table(session: Session, statement: Statement, tree: exp.Create) -> Done:
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    stored = session.stored(table.name, table.db)
    temporary = _is_temporary(tree)
    if temporary:
        _check_schema(session, stored)
        session.check_read_write()
        session.transaction.read(tracked=False)
        session.trackers.transaction_ended()
        session.trackers.state_set()
    else:
        await begin(session)
        _check_schema(session, stored)
    kind = session.catalogue.kind(stored)
    if kind is not None and (kind == "temporary") == temporary:
        if not tree.args.get("exists"):
            raise MySQLError(1050, "42S01", f"Table '{table.name}' already exists")
        session.warn("Note", 1050, f"Table '{table.name}' already exists")
        done = Done()
    else:
        done = await _fill_table(session, statement, tree, stored)
    if not temporary:
        end(session, read=isinstance(tree.args.get("expression"), exp.Query))
    return done


async def _fill_table(
    session: Session, statement: Statement, tree: exp.Create, stored: str
) -> Done:
    """Makes a table that does not exist, with the rows of its SELECT if it has one."""
    temporary = _is_temporary(tree)

    def execute(sql: str, parameters: dict[str, Value] | None = None) -> None:
        if temporary:
            session.storage.read(sql, parameters or {})
        else:
            run(session, sql, parameters)

    query = tree.args.get("expression")
    statements = _table_statements(session, tree, stored, temporary=temporary)
    for sql in statements:
        execute(sql)
    if not isinstance(query, exp.Query):
        return Done()
    try:
        bound = await bind(session, statement, query.copy())
    except FunctionError as failure:
        raise failure.error from failure
    head = f"CREATE {'TEMP ' * temporary}TABLE {quoted(stored)} AS"
    if statements:
        head = f"INSERT INTO {quoted(stored)}"
    execute(f"{head} {bound.sql}", bound.parameters)
    rows = session.storage.read(f"SELECT rowid FROM {quoted(stored)}")[1]  # noqa: S608 - quoted
    return Done(len(rows), 0, f"Records: {len(rows)}  Duplicates: 0  Warnings: 0")


def _exists(session: Session, stored: str) -> bool:
    return session.catalogue.kind(stored) in ("table", "view")


def _check_schema(session: Session, stored: str) -> None:
    schema = stored.partition(".")[0]
    if not session.catalogue.has_schema(schema):
        raise unknown_database(schema)


def _table_statements(
    session: Session, tree: exp.Create, stored: str, *, temporary: bool
) -> list[str]:
    """The statements that make the table; none for CREATE TABLE … SELECT without columns."""
    like = tree.find(exp.LikeProperty)
    if like is not None:
        return _like(session, like, stored, temporary=temporary)
    if not isinstance(tree.this, exp.Schema):
        return []
    definition = TableDefinition(stored, stored.partition(".")[0], temporary)
    definition.add(list(tree.this.expressions))
    return definition.create()


def _like(session: Session, like: exp.LikeProperty, stored: str, *, temporary: bool) -> list[str]:
    source = session.stored(like.this.name, like.this.db)
    sql = session.storage.value("SELECT sql FROM sqlite_master WHERE name = ?", (source,))
    if sql is None:
        raise session.unknown_table(source)
    body = str(sql).partition("(")[2]
    kind = "TEMP TABLE" if temporary else "TABLE"
    statements = [f"CREATE {kind} {quoted(stored)} ({body}"]
    for name, unique, columns in session.catalogue.indexes(source):
        statements.append(Index(name, columns, unique).create(stored))
    return statements


async def _create_index(session: Session, tree: exp.Create) -> Done:
    table = tree.this.args["table"]
    stored = session.stored(table.name, table.db)
    await begin(session)
    if not _exists(session, stored):
        raise session.unknown_table(stored)
    nodes = tree.this.args["params"].args.get("columns") or []
    made = Index(tree.this.name, key_columns(nodes), bool(tree.args.get("unique")))
    known = [column.name.lower() for column in session.catalogue.columns(stored)]
    for name in made.columns:
        if name.lower() not in known:
            raise MySQLError(1072, "42000", f"Key column '{name}' doesn't exist in table")
    run(session, made.create(stored))
    end(session, read=True)
    return Done(info=_REBUILT)


async def _create_view(session: Session, statement: Statement, tree: exp.Create) -> Done:
    view = tree.this
    stored = session.stored(view.name, view.db)
    await begin(session)
    _check_schema(session, stored)
    try:
        bound = await bind(session, statement, tree.expression.copy())
    except FunctionError as failure:
        raise failure.error from failure
    if tree.args.get("replace"):
        run(session, f"DROP VIEW IF EXISTS {quoted(stored)}")
    elif _exists(session, stored):
        raise MySQLError(1050, "42S01", f"Table '{view.name}' already exists")
    run(session, f"CREATE VIEW {quoted(stored)} AS {bound.sql}")
    end(session)
    return Done()


async def _drop(session: Session, tree: exp.Drop) -> Done:
    targets = [(session.stored(table.name, table.db), table.name) for table in tree.args["tables"]]
    only_temporary = bool(tree.args.get("temporary"))
    kinds = {stored: session.catalogue.kind(stored) for stored, _ in targets}
    unbinlogged = only_temporary or set(kinds.values()) == {"temporary"}
    if unbinlogged:
        session.check_read_write()
        if "temporary" in kinds.values():
            session.trackers.transaction_ended()
        if "temporary" in kinds.values() or tree.args.get("exists"):
            session.trackers.state_set()
    else:
        await begin(session)
    wanted = ("temporary",) if only_temporary else (str(tree.kind).lower(), "temporary")
    missing = [stored for stored, _ in targets if kinds[stored] not in wanted]
    if missing and not tree.args.get("exists"):
        raise MySQLError(1051, "42S02", f"Unknown table '{','.join(missing)}'")
    for stored, _ in targets:
        if stored in missing:
            session.warn("Note", 1051, f"Unknown table '{stored}'")
        elif kinds[stored] == "temporary":
            session.storage.read(f"DROP TABLE temp.{quoted(stored)}")
            session.storage.counters.pop(stored, None)
        else:
            session.server.engine.counters.pop(stored, None)
            run(session, f"DROP {tree.kind} {quoted(stored)}")
    if not unbinlogged:
        end(session)
    return Done()


async def _drop_index(session: Session, statement: Statement) -> Done:
    tokens = statement.tokens
    schema, table = name_at(statement, 4)
    await begin(session)
    run(session, f"DROP INDEX {quoted(session.stored(table, schema) + '.' + tokens[2].text)}")
    end(session, read=True)
    return Done(info=_REBUILT)


def name_at(statement: Statement, position: int) -> tuple[str, str]:
    """A table's name at token `position`: schema (perhaps empty) and table."""
    tokens = statement.tokens
    if position + 1 < len(tokens) and tokens[position + 1].text == ".":
        return tokens[position].text, tokens[position + 2].text
    return "", tokens[position].text


async def _truncate(session: Session, tree: exp.TruncateTable) -> Done:
    table = tree.expressions[0]
    if not isinstance(table, exp.Table):
        raise unsupported(tree.sql("mysql"))
    stored = session.stored(table.name, table.db)
    await begin(session)
    if not _exists(session, stored):
        raise session.unknown_table(stored)
    run(session, f"DELETE FROM {quoted(stored)}")  # noqa: S608 - quoted
    session.server.engine.counters.pop(stored, None)
    if session.catalogue.auto_increments(stored):
        run(session, "DELETE FROM sqlite_sequence WHERE name = :name", {"name": stored})
    end(session)
    return Done()


async def _rename(session: Session, statement: Statement) -> Done:
    await begin(session)
    position = 2
    while position < len(statement.tokens):
        old = name_at(statement, position)
        position += 4 if old[0] else 2
        new = name_at(statement, position)
        position += 4 if new[0] else 2
        _rename_table(session, session.stored(old[1], old[0]), session.stored(new[1], new[0]))
    end(session)
    return Done()


def _rename_table(session: Session, old: str, new: str) -> None:
    if _exists(session, new):
        raise MySQLError(1050, "42S01", f"Table '{new.partition('.')[2]}' already exists")
    if not _exists(session, old):
        raise session.unknown_table(old)
    indexes = session.catalogue.indexes(old)
    counters = session.server.engine.counters
    counters[new] = counters.pop(old, 0)
    run(session, f"ALTER TABLE {quoted(old)} RENAME TO {quoted(new)}")
    for name, unique, columns in indexes:
        run(session, f"DROP INDEX IF EXISTS {quoted(f'{old}.{name}')}")
        run(session, Index(name, columns, unique).create(new))


async def _alter(session: Session, tree: exp.Alter) -> Done:
    stored = session.stored(tree.this.name, tree.this.db)
    await begin(session)
    if not _exists(session, stored):
        raise session.unknown_table(stored)
    for action in tree.args.get("actions") or []:
        _alter_once(session, stored, action)
    end(session, read=True)
    return Done(info=_REBUILT)


def _alter_once(session: Session, stored: str, action: exp.Expr) -> None:
    alter = f"ALTER TABLE {quoted(stored)} "
    if isinstance(action, exp.ColumnDef):
        run(session, alter + "ADD COLUMN " + added_column(action))
    elif isinstance(action, exp.Drop) and action.kind == "COLUMN":
        name = action.args["tables"][0].name
        if name.lower() not in [c.name.lower() for c in session.catalogue.columns(stored)]:
            message = f"Can't DROP '{name}'; check that column/key exists"
            raise MySQLError(1091, "42000", message)
        run(session, alter + f"DROP COLUMN {quoted(name)}")
    elif isinstance(action, exp.Drop) and action.kind == "INDEX":
        run(session, f"DROP INDEX {quoted(stored + '.' + action.args['tables'][0].name)}")
    elif isinstance(action, exp.RenameColumn):
        new = quoted(action.args["to"].name)
        run(session, alter + f"RENAME COLUMN {quoted(action.this.name)} TO {new}")
    elif isinstance(action, exp.AlterRename):
        _rename_table(session, stored, session.stored(action.this.name, action.this.db))
    elif isinstance(action, exp.AddConstraint):
        for node in action.expressions:
            made = index(node)
            if made is None:
                raise unsupported(node.sql("mysql"))
            run(session, made.create(stored))
    else:
        raise unsupported(action.sql("mysql"))

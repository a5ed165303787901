"""SHOW and DESCRIBE."""

import re
from collections.abc import Sequence

from sqlglot import TokenType, exp

from mysql_mocker.columns.result_columns import made_up
from mysql_mocker.error import MySQLError, unknown_database, unsupported
from mysql_mocker.evaluation.binding import bind
from mysql_mocker.evaluation.virtual import rows_as_table
from mysql_mocker.sql.result import Rows
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.value import Row
from mysql_mocker.state import gtid_table
from mysql_mocker.state.catalogue import Column
from mysql_mocker.state.engine import SYSTEM_SCHEMAS
from mysql_mocker.state.session import Session
from mysql_mocker.state.variables import shown
from mysql_mocker.statements import definition

_FIELDS = ("Field", "Type", "Null", "Key", "Default", "Extra")
_GTID_FIELDS = (
    ("source_uuid", "char(36)", "NO", "PRI", None, ""),
    ("interval_start", "bigint", "NO", "PRI", None, ""),
    ("interval_end", "bigint", "NO", "", None, ""),
    ("gtid_tag", "char(32)", "NO", "PRI", None, ""),
)
_PROCESSES = ("Id", "User", "Host", "db", "Command", "Time", "State", "Info")
_COLLATION = ("utf8mb4_0900_ai_ci", "utf8mb4", 255, "Yes", "Yes", 0, "NO PAD")
_COLLATION_NAMES = ("Collation", "Charset", "Id", "Default", "Compiled", "Sortlen",
                    "Pad_attribute")  # fmt: skip
_CHARSET_NAMES = ("Charset", "Description", "Default collation", "Maxlen")
_ENGINE_NAMES = ("Engine", "Support", "Comment", "Transactions", "XA", "Savepoints")
_FILE_NAMES = ("Log_name", "File_size", "Encrypted")
_BINLOG_NAMES = ("File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set")
_DIAGNOSTICS = ("Level", "Code", "Message")
_SKIPPED = ("GLOBAL", "SESSION", "LOCAL", "FULL", "EXTENDED", "STORAGE")
_IN_DICTIONARY = ("DATABASES", "TABLES", "COLUMNS", "INDEX", "INDEXES", "KEYS")
_KEYS = ("Table", "Non_unique", "Key_name", "Seq_in_index", "Column_name")

Table = tuple[Sequence[str], Sequence[Row]]


def like_pattern(pattern: str) -> re.Pattern[str]:
    """LIKE as a regular expression."""
    parts = re.split(r"(\\.|[%_])", pattern)
    known = {"%": ".*", "_": "."}
    text = "".join(known.get(part) or re.escape(part.removeprefix("\\")) for part in parts)
    return re.compile(text, re.I | re.S)


async def show(session: Session, statement: Statement) -> Rows:
    """SHOW in the forms that clients and monitors use.

    Raises:
        MySQLError: 1235 for other forms, or what is wrong with the names.
    """
    names, rows = _table(session, statement)
    rows = await _filtered(session, statement, names, rows)
    if _subject(statement) not in ("WARNINGS", "ERRORS"):
        session.found_rows = len(rows)
    if _subject(statement) in _IN_DICTIONARY:
        _read_dictionary(session)
    if _subject(statement).endswith(("VARIABLES", "STATUS")):
        session.trackers.note(performance_schema=True)
    names = [_with_pattern(statement, names[0]), *names[1:]]
    return Rows(made_up(names, rows), rows)


def _read_dictionary(session: Session) -> None:
    """The dictionary's tables are tables of InnoDB: reading them begins a transaction."""
    session.transaction.read()
    session.trackers.note(read=True)


def _subject(statement: Statement) -> str:
    """What is shown."""
    words = [word for word in statement.words[1:] if word not in _SKIPPED]
    subject = {"SCHEMAS": "DATABASES", "FIELDS": "COLUMNS"}.get(words[0], words[0])
    if subject in ("VARIABLES", "STATUS"):
        return f"{'GLOBAL' if 'GLOBAL' in statement.words else 'SESSION'} {subject}"
    return subject


def _with_pattern(statement: Statement, name: str) -> str:
    """The first column's name: SHOW TABLES and SHOW DATABASES add what LIKE looks for."""
    words = statement.words
    if "LIKE" not in words or _subject(statement) not in ("TABLES", "DATABASES"):
        return name
    return f"{name} ({statement.tokens[words.index('LIKE') + 1].text})"


def _table(session: Session, statement: Statement) -> Table:  # noqa: C901, PLR0912 one case per subject
    words = [word for word in statement.words[1:] if word not in _SKIPPED]
    subject = words[0] if words else ""
    match subject:
        case "VARIABLES":
            shared = "GLOBAL" in statement.words
            pairs = session.values(shared=shared)
            return ("Variable_name", "Value"), [(name, shown(value)) for name, value in pairs]
        case "STATUS":
            return ("Variable_name", "Value"), list(session.server.status().items())
        case "DATABASES" | "SCHEMAS":
            schemas = sorted((*SYSTEM_SCHEMAS, *session.catalogue.schemas()))
            return ("Database",), [(name,) for name in schemas]
        case "TABLES":
            return _tables(session, statement)
        case "COLUMNS" | "FIELDS":
            return _columns(session, _named_table(session, statement))
        case "INDEX" | "INDEXES" | "KEYS":
            return _indexes(session, _named_table(session, statement))
        case "CREATE" if words[1:2] == ["USER"]:
            account = f"CREATE USER `{session.user}`@`%` REQUIRE NONE ACCOUNT UNLOCK"
            return (f"CREATE USER for {session.user}@%",), [(account,)]
        case "CREATE":
            return _create(session, statement)
        case "WARNINGS" | "ERRORS":
            lines = [d for d in session.diagnostics if subject == "WARNINGS" or d.level == "Error"]
            return _DIAGNOSTICS, [(d.level, d.code, d.message) for d in lines]
        case "COUNT":
            kind = "error" if "ERRORS" in words else "warning"
            count = session.variable(f"{kind}_count")
            return (f"@@session.{kind}_count",), [(count,)]
        case "PROCESSLIST":
            return _PROCESSES, session.server.clients.processes()
        case "ENGINES":
            return _ENGINE_NAMES, [("InnoDB", "DEFAULT", "SQLite below", "YES", "YES", "YES")]
        case "COLLATION":
            return _COLLATION_NAMES, [_COLLATION]
        case "CHARSET" | "CHARACTER":
            return _CHARSET_NAMES, [("utf8mb4", "UTF-8 Unicode", "utf8mb4_0900_ai_ci", 4)]
        case "BINARY":
            files = session.server.logs.files
            if "LOGS" in words:
                return _FILE_NAMES, [(file.name, len(file.data), "No") for file in files]
            executed = str(session.server.gtids.executed)
            return _BINLOG_NAMES, [(files[-1].name, len(files[-1].data), "", "", executed)]
        case "REPLICA":
            return _replica(session)
        case "GRANTS":
            grant = f"GRANT ALL PRIVILEGES ON *.* TO `{session.user}`@`%`"
            return (f"Grants for {session.user}@%",), [(grant,)]
    raise unsupported(statement.text)


async def _filtered(
    session: Session, statement: Statement, names: Sequence[str], rows: Sequence[Row]
) -> Sequence[Row]:
    """The rows that LIKE, on the first column, or WHERE let through."""
    words = statement.words
    if "LIKE" in words:
        pattern = like_pattern(statement.tokens[words.index("LIKE") + 1].text)
        return [row for row in rows if pattern.fullmatch(str(row[0]))]
    if "WHERE" not in words:
        return rows
    text = statement.source(words.index("WHERE") + 1, len(words) - 1)
    condition = Statement.of(f"SELECT 1 WHERE {text}", statement).parse().args["where"].this
    tree = exp.select("*").from_(rows_as_table(names, rows)).where(condition)
    bound = await bind(session, statement, tree)
    return session.storage.read(bound.sql, bound.parameters)[1]


def _schema(session: Session, statement: Statement) -> str:
    """The schema after the last FROM or IN, else the current one."""
    words = statement.words
    places = [i for i, word in enumerate(words) if word in ("FROM", "IN")]
    ends = [words.index(word) for word in ("LIKE", "WHERE") if word in words]
    places = [position for position in places if not ends or position < min(ends)]
    name = statement.tokens[places[-1] + 1].text if places else session.schema
    if name is None:
        raise MySQLError(1046, "3D000", "No database selected")
    return name


def _tables(session: Session, statement: Statement) -> Table:
    schema = _schema(session, statement)
    if schema not in SYSTEM_SCHEMAS and not session.catalogue.has_schema(schema):
        raise unknown_database(schema)
    tables = session.catalogue.tables(schema)
    if "FULL" in statement.words:
        return (f"Tables_in_{schema}", "Table_type"), tables
    return (f"Tables_in_{schema}",), [(name,) for name, _ in tables]


def _named_table(session: Session, statement: Statement) -> str:
    """Stored name of the table in ``FROM table [FROM schema]`` or ``FROM schema.table``."""
    words = statement.words
    position = next((i for i, word in enumerate(words) if word in ("FROM", "IN")), None)
    if position is None:
        raise unsupported(statement.text)
    tokens = statement.tokens
    table, schema = tokens[position + 1].text, ""
    if len(words) > position + 2 and words[position + 2] == ".":
        table, schema = tokens[position + 3].text, table
    elif len(words) > position + 3 and words[position + 2] in ("FROM", "IN"):
        schema = tokens[position + 3].text
    return session.stored(table, schema)


def _describe(column: Column) -> Row:
    extra = "auto_increment" if column.auto_increment else ""
    null = "NO" if column.not_null else "YES"
    default = column.default
    if default is not None and default.startswith("'"):
        default = default[1:-1].replace("''", "'")
    return (column.name, column.type.lower(), null, column.key, default, extra)


def _columns(session: Session, stored: str) -> Table:
    if stored == "mysql.gtid_executed":
        return _FIELDS, _GTID_FIELDS
    columns = session.catalogue.columns(stored)
    if not columns:
        raise session.unknown_table(stored)
    return _FIELDS, [_describe(column) for column in columns]


def _indexes(session: Session, stored: str) -> Table:
    columns = session.catalogue.columns(stored)
    if not columns:
        raise session.unknown_table(stored)
    table = stored.partition(".")[2]
    keys = [column.name for column in columns if column.key == "PRI"]
    rows: list[Row] = [(table, 0, "PRIMARY", i, name) for i, name in enumerate(keys, 1)]
    for index, unique, names in session.catalogue.indexes(stored):
        rows += [(table, int(not unique), index, i, name) for i, name in enumerate(names, 1)]
    return _KEYS, rows


def _create(session: Session, statement: Statement) -> Table:
    words = statement.words
    if words[2] in ("DATABASE", "SCHEMA"):
        name = statement.tokens[-1].text
        if not session.catalogue.has_schema(name):
            raise unknown_database(name)
        text = (
            f"CREATE DATABASE `{name}` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE "
            "utf8mb4_0900_ai_ci */ /*!80016 DEFAULT ENCRYPTION='N' */"
        )
        return ("Database", "Create Database"), [(name, text)]
    if words[2] != "TABLE":
        raise unsupported(statement.text)
    schema, table = definition.name_at(statement, 3)
    stored = session.stored(table, schema)
    if stored == "mysql.gtid_executed":
        return ("Table", "Create Table"), [(table, gtid_table.DEFINITION)]
    columns = session.catalogue.columns(stored)
    if not columns:
        raise session.unknown_table(stored)
    lines = []
    for column in columns:
        line = f"  `{column.name}` {column.type.lower()}{' NOT NULL' * column.not_null}"
        if column.default is not None or not column.not_null:
            line += f" DEFAULT {column.default or 'NULL'}"
        lines.append(line + " AUTO_INCREMENT" * column.auto_increment)
    keys = [f"`{column.name}`" for column in columns if column.key == "PRI"]
    lines += [f"  PRIMARY KEY ({','.join(keys)})"] * bool(keys)
    for index, unique, names in session.catalogue.indexes(stored):
        listed = ",".join(f"`{name}`" for name in names)
        lines.append(f"  {'UNIQUE ' * unique}KEY `{index}` ({listed})")
    body = ",\n".join(lines)
    text = f"CREATE TABLE `{table}` (\n{body}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    return ("Table", "Create Table"), [(table, text)]


def _replica(session: Session) -> Table:
    applier = session.server.applier
    names = ("Replica_IO_Running", "Replica_SQL_Running", "Last_SQL_Error",
             "Seconds_Behind_Source", "Executed_Gtid_Set")  # fmt: skip
    if applier is None:
        return names, []
    running = "Yes" if applier.running else "No"
    behind = int(applier.delay) if applier.running and applier.pending else 0
    error = "" if applier.error is None else applier.error.message
    lag = behind if applier.running else None
    return names, [("Yes", running, error, lag, str(session.server.gtids.executed))]


async def describe(session: Session, statement: Statement) -> Rows:
    """DESCRIBE table; there are no query plans.

    Raises:
        MySQLError: 1146, or 1235 for a query.
    """
    if statement.tokens[1].token_type is TokenType.SELECT:
        raise unsupported(statement.text)
    schema, table = definition.name_at(statement, 1)
    names, rows = _columns(session, session.stored(table, schema))
    session.found_rows = len(rows)
    _read_dictionary(session)
    return Rows(made_up(names, rows), rows)

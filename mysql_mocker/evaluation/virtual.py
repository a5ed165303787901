"""Tables whose rows are made when they are read: information_schema, performance_schema."""

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from mysql_mocker.error import unknown_table
from mysql_mocker.evaluation import replication_status
from mysql_mocker.sql.script import literal
from mysql_mocker.sql.value import Row
from mysql_mocker.state.engine import SYSTEM_SCHEMAS
from mysql_mocker.state.gtid_table import COLUMNS as _GTIDS
from mysql_mocker.state.session import Session
from mysql_mocker.state.variables import shown

VARIABLES: Final = ("VARIABLE_NAME", "VARIABLE_VALUE")
_APPLIER_FILTERS: Final = ("CHANNEL_NAME", "FILTER_NAME", "FILTER_RULE")
_SCHEMATA: Final = ("CATALOG_NAME", "SCHEMA_NAME", "DEFAULT_CHARACTER_SET_NAME",
                    "DEFAULT_COLLATION_NAME", "SQL_PATH", "DEFAULT_ENCRYPTION")  # fmt: skip
_TABLES: Final = ("TABLE_CATALOG", "TABLE_SCHEMA", "TABLE_NAME", "TABLE_TYPE", "ENGINE")
_COLUMNS: Final = ("TABLE_CATALOG", "TABLE_SCHEMA", "TABLE_NAME", "COLUMN_NAME",
                   "ORDINAL_POSITION", "COLUMN_DEFAULT", "IS_NULLABLE", "DATA_TYPE",
                   "COLUMN_TYPE", "COLUMN_KEY", "EXTRA")  # fmt: skip
_THREADS: Final = ("THREAD_ID", "NAME", "TYPE", "PROCESSLIST_ID", "PROCESSLIST_COMMAND",
                   "PROCESSLIST_STATE")  # fmt: skip
_PROCESSES: Final = ("ID", "USER", "HOST", "DB", "COMMAND", "TIME", "STATE", "INFO")


def rows_as_table(columns: Sequence[str], rows: Sequence[Row]) -> exp.Subquery:
    """Rows as a subquery that can be read like a table."""
    names = [exp.to_identifier(column, quoted=True) for column in columns]
    if not rows:
        nulls = [exp.alias_(exp.Null(), name) for name in names]
        return exp.select(*nulls).where("FALSE").subquery()
    tuples = [exp.Tuple(expressions=[literal(value) for value in row]) for row in rows]
    values = exp.Subquery(
        this=exp.Values(expressions=tuples),
        alias=exp.TableAlias(this=exp.to_identifier("made_up")),
    )
    picked = [exp.alias_(exp.column(f"column{i}"), name) for i, name in enumerate(names, 1)]
    return exp.select(*picked).from_(values).subquery()


def _variables(session: Session, *, shared: bool) -> list[Row]:
    return [(name, shown(value)) for name, value in session.values(shared=shared)]


def _schemata(session: Session) -> list[Row]:
    names = sorted((*SYSTEM_SCHEMAS, *session.catalogue.schemas()))
    return [("def", name, "utf8mb4", "utf8mb4_0900_ai_ci", None, "NO") for name in names]


def _tables(session: Session) -> list[Row]:
    return [
        ("def", schema, name, kind, "InnoDB" if kind == "BASE TABLE" else None)
        for schema in session.catalogue.schemas()
        for name, kind in session.catalogue.tables(schema)
    ]


def _columns(session: Session) -> list[Row]:
    found: list[Row] = []
    for schema in session.catalogue.schemas():
        for table, _ in session.catalogue.tables(schema):
            for ordinal, column in enumerate(session.catalogue.columns(f"{schema}.{table}"), 1):
                kind = column.type.lower()
                found.append(
                    ("def", schema, table, column.name, ordinal, column.default,
                     "NO" if column.not_null else "YES", kind.partition("(")[0], kind, column.key,
                     "auto_increment" if column.auto_increment else "")
                )  # fmt: skip
    return found


def table(  # noqa: C901, PLR0912 one case per table
    session: Session, schema: str, name: str
) -> exp.Subquery | None:
    """The table as a subquery; None if the schema is not the server's own.

    Raises:
        MySQLError: 1146 for a table of the server's schemas that the mocker does not have.
    """
    if schema.lower() not in SYSTEM_SCHEMAS:
        return None
    found: tuple[Sequence[str], Sequence[Row]] | None = None
    match f"{schema}.{name}".lower():
        case "performance_schema.global_status" | "performance_schema.session_status":
            found = VARIABLES, list(session.server.status().items())
        case "performance_schema.global_variables":
            found = VARIABLES, _variables(session, shared=True)
        case "performance_schema.session_variables":
            found = VARIABLES, _variables(session, shared=False)
        case "performance_schema.processlist" | "information_schema.processlist":
            found = _PROCESSES, session.server.clients.processes()
        case "mysql.gtid_executed":
            found = _GTIDS, session.server.engine.gtid_table.rows()
        case "performance_schema.threads":
            found = _THREADS, session.server.threads()
        case "performance_schema.replication_applier_filters":
            found = _APPLIER_FILTERS, []
        case "performance_schema.replication_connection_status":
            found = replication_status.CONNECTION, replication_status.connection(session.server)
        case "performance_schema.replication_applier_status_by_worker":
            found = replication_status.WORKER, replication_status.worker(session.server)
        case "information_schema.schemata":
            found = _SCHEMATA, _schemata(session)
        case "information_schema.tables":
            found = _TABLES, _tables(session)
        case "information_schema.columns":
            found = _COLUMNS, _columns(session)
    if found is None:
        raise unknown_table(f"{schema}.{name}")
    return rows_as_table(*found)

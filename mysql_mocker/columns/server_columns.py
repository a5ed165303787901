"""The column definitions of SHOW, DESCRIBE, ANALYZE TABLE and the like.

As measured on MySQL 9.7.4. Most of these results are read from one of the server's own tables, and
so have its names and flags.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mysql_mocker.columns import value_type
from mysql_mocker.columns.result_columns import computed
from mysql_mocker.columns.value_type import BINARY, NOT_NULL, UNSIGNED, ValueType
from mysql_mocker.sql.value import Row
from protocol.constants import FieldType
from protocol.resultset import ColumnDefinition41

_ENUM, _NO_DEFAULT, _BLOB = 0x100, 0x1000, 0x10
_TEXT, _STRING = FieldType.MYSQL_TYPE_BLOB, FieldType.MYSQL_TYPE_STRING


def _text(name: str, size: int, *, nullable: bool = False) -> ColumnDefinition41:
    """A column of text that belongs to no table."""
    return value_type.text(size, nullable=nullable).definition(name)


def _number(
    name: str, size: int, kind: int = FieldType.MYSQL_TYPE_LONG, *, unsigned: bool = True
) -> ColumnDefinition41:
    return ValueType(kind, size, unsigned=unsigned).definition(name)


def _of(
    table: str, org_table: str, name: str, size: int, flags: int = 0, schema: str = "",
    kind: int = FieldType.MYSQL_TYPE_VAR_STRING,
) -> ColumnDefinition41:  # fmt: skip
    """A column of text of the server's own table `table`."""
    return ColumnDefinition41(
        schema=schema, table=table, org_table=org_table, name=name, org_name=name,
        column_length=size, type=kind, flags=flags,
    )  # fmt: skip


def _pairs(table: str) -> list[ColumnDefinition41]:
    """A variable's or a counter's name and value."""
    schema = "performance_schema"
    return [
        _of(table, table, "Variable_name", 256, NOT_NULL | _NO_DEFAULT, schema),
        _of(table, table, "Value", 4096, 0, schema),
    ]


_LONGLONG: Final = FieldType.MYSQL_TYPE_LONGLONG
_NAME_FLAGS: Final = NOT_NULL | BINARY | _NO_DEFAULT
_FIELDS: Final = [
    _of("COLUMNS", "", "Field", 256),
    _of("COLUMNS", "columns", "Type", 67108860, _NAME_FLAGS | _BLOB, kind=_TEXT),
    _of("COLUMNS", "", "Null", 12, NOT_NULL),
    _of("COLUMNS", "columns", "Key", 12, _NAME_FLAGS | _ENUM, kind=_STRING),
    _of("COLUMNS", "columns", "Default", 262140, BINARY | _BLOB, kind=_TEXT),
    _of("COLUMNS", "", "Extra", 1024),
]
_DIAGNOSTICS: Final = [_text("Level", 28), _number("Code", 5), _text("Message", 2048)]

COLUMNS: Final[dict[str, Sequence[ColumnDefinition41]]] = {
    "TABLES": [
        _of("TABLES", "tables", "", 256, _NAME_FLAGS),
        _of("TABLES", "tables", "Table_type", 44, _NAME_FLAGS | _ENUM, kind=_STRING),
    ],
    "DATABASES": [_of("SCHEMATA", "schemata", "", 256, _NAME_FLAGS)],
    "COLUMNS": _FIELDS,
    "SESSION VARIABLES": _pairs("session_variables"),
    "GLOBAL VARIABLES": _pairs("global_variables"),
    "SESSION STATUS": _pairs("session_status"),
    "GLOBAL STATUS": _pairs("global_status"),
    "WARNINGS": _DIAGNOSTICS,
    "ERRORS": _DIAGNOSTICS,
    "COUNT": [replace(_number("", 21, _LONGLONG), flags=BINARY | UNSIGNED)],
    "CREATE": [_text("", 256), _text("", 4096)],
    "GRANTS": [_text("", 4096)],
    "PROCESSLIST": [
        _number("Id", 22, _LONGLONG, unsigned=False), _text("User", 128), _text("Host", 1020),
        _text("db", 256, nullable=True), _text("Command", 64),
        _number("Time", 8, unsigned=False), _text("State", 120, nullable=True),
        _text("Info", 400, nullable=True),
    ],
    "BINARY": [
        _text("File", 2048), _number("Position", 21, _LONGLONG), _text("Binlog_Do_DB", 1020),
        _text("Binlog_Ignore_DB", 1020), _text("Executed_Gtid_Set", 152),
    ],
    "MAINTENANCE": [
        _text("Table", 512, nullable=True), _text("Op", 40, nullable=True),
        _text("Msg_type", 40, nullable=True), _text("Msg_text", 1572864, nullable=True),
    ],
}  # fmt: skip
"""By what is shown; an empty name is replaced by the statement's own."""


def server_columns(
    subject: str, names: Sequence[str], rows: Sequence[Row]
) -> list[ColumnDefinition41]:
    """The definitions of a result about `subject`; unknown columns are described by the rows."""
    known = COLUMNS.get(subject, ())
    found = []
    for position, name in enumerate(names):
        if position < len(known) and known[position].name in ("", name):
            column = known[position]
            org_name = name if column.org_name or column.table else ""
            found.append(replace(column, name=name, org_name=org_name))
        else:
            found.append(computed(name, [row[position] for row in rows]))
    return found

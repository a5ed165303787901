"""Changed rows of a real server as statements on the mocker's tables."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from mysql_mocker.error import MySQLError
from mysql_mocker.sql.script import Statement
from mysql_mocker.sql.value import Value
from mysql_mocker.state.catalogue import Column
from mysql_mocker.statements import prepare
from protocol.binlog import column, rows
from protocol.binlog.column import ColumnType
from protocol.binlog.rows import RowsEvent
from protocol.binlog.table_map import TableMap


def statements(
    table: TableMap, changed: RowsEvent, columns: Sequence[Column]
) -> Iterator[Statement]:
    """One statement for each row.

    Args:
        table: the table as the source has it.
        changed: its rows.
        columns: the same table's columns here.

    Raises:
        MySQLError: 1677: the tables differ.
        MalformedPacketError: the rows contradict the table.
    """
    if len(columns) != len(table.columns):
        raise MySQLError(
            1677,
            "HY000",
            f"Table '{table.schema}.{table.table}' has {len(columns)} columns here and "
            f"{len(table.columns)} on the source",
        )
    name = f"{_quoted(table.schema)}.{_quoted(table.table)}"
    before_places, after_places = changed.places(changed.before), changed.places(changed.after)
    for before, after in changed.rows(table):
        old = _named(before, before_places, table, columns)
        new = _named(after, after_places, table, columns)
        if before is None:
            names = ", ".join(_quoted(key) for key in new)
            marks = ", ".join("?" for _ in new)
            sql = f"INSERT INTO {name} ({names}) VALUES ({marks})"  # noqa: S608 - names are quoted
            yield _statement(sql, new.values())
            continue
        keys = {own.name for own in columns if own.key}
        where = {key: value for key, value in old.items() if key in keys} or old
        limit = "" if keys else " LIMIT 1"  # of rows that are all the same any one will do
        found = " AND ".join(f"{_quoted(key)} <=> ?" for key in where)
        if after is None:
            sql = f"DELETE FROM {name} WHERE {found}{limit}"  # noqa: S608 - names are quoted
            yield _statement(sql, where.values())
        else:
            sets = ", ".join(f"{_quoted(key)} = ?" for key in new)
            sql = f"UPDATE {name} SET {sets} WHERE {found}{limit}"  # noqa: S608 - names are quoted
            yield _statement(sql, [*new.values(), *where.values()])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _statement(sql: str, values: Iterable[Value]) -> Statement:
    return prepare.one(sql, "", "").with_parameters(list(values))


def _named(
    row: rows.Row | None, places: Sequence[int], table: TableMap, columns: Sequence[Column]
) -> dict[str, Value]:
    if row is None:
        return {}
    return {
        columns[index].name: _value(value, table.columns[index], columns[index])
        for index, value in zip(places, row, strict=True)
    }


def _value(value: object, source_column: column.Column, own_column: Column) -> Value:
    """A value as the mocker keeps it."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int) and source_column.type in (ColumnType.ENUM, ColumnType.SET):
        words = source_column.words
        if not words:
            raise MySQLError(
                1677,
                "HY000",
                f"The log does not name the words of column '{own_column.name}'; the source shall"
                " have binlog_row_metadata = FULL",
            )
        if source_column.type == ColumnType.ENUM:
            return words[value - 1] if 0 < value <= len(words) else ""
        return ",".join(word for bit, word in enumerate(words) if value >> bit & 1)
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    raise MySQLError(1677, "HY000", f"Column '{own_column.name}' has a value of an unknown type")

"""Which schemas, tables and columns there are, as one connection sees them."""

import re
from dataclasses import dataclass

from mysql_mocker.state.storage import Storage


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        type: MySQL's type as it was declared, e.g. ``VARCHAR(20)``.
        default: SQL text, None if there is none.
        key: ``PRI``, ``UNI``, ``MUL`` or empty.
        indexed: it is part of any key.
        auto_increment: whether the server numbers it.
    """

    name: str
    type: str
    not_null: bool
    default: str | None
    key: str
    indexed: bool
    auto_increment: bool


class Catalogue:
    """Reads SQLite's own tables."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def schemas(self) -> list[str]:
        """The names of all schemas that clients created."""
        rows = self._storage.read('SELECT name FROM ".schemata" ORDER BY name')[1]
        return [str(name) for (name,) in rows]

    def has_schema(self, name: str) -> bool:
        """Whether there is such a schema."""
        return self._storage.value('SELECT 1 FROM ".schemata" WHERE name = ?', (name,)) == 1

    def tables(self, schema: str) -> list[tuple[str, str]]:
        """Names and kinds (``BASE TABLE``, ``VIEW``) of a schema's permanent tables."""
        rows = self._storage.read(
            "SELECT substr(name, ?), type FROM sqlite_master "
            "WHERE type IN ('table', 'view') AND substr(name, 1, ?) = ? ORDER BY name",
            (len(schema) + 2, len(schema) + 1, f"{schema}."),
        )[1]
        return [(str(name), "VIEW" if kind == "view" else "BASE TABLE") for name, kind in rows]

    def kind(self, stored: str) -> str | None:
        """``table``, ``view``, ``temporary``, or None if there is no such table."""
        for catalogue, kind in (("sqlite_temp_master", "temporary"), ("sqlite_master", "")):
            found = self._storage.value(
                f"SELECT type FROM {catalogue} WHERE name = ? AND type IN ('table', 'view')",  # noqa: S608 - both names stand above
                (stored,),
            )
            if found is not None:
                return kind or str(found)
        return None

    def columns(self, stored: str) -> list[Column]:
        """The columns of a table or view, empty if there is no such table."""
        rows = self._storage.read(
            'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (stored,)
        )[1]
        numbered = self._numbered_type(stored)
        keys, indexed = self._keys(stored)
        return [
            Column(
                str(name),
                numbered if numbered and key else str(type_),
                bool(not_null) or bool(key),
                None if default is None else str(default),
                "PRI" if key else keys.get(str(name), ""),
                bool(key) or str(name) in indexed,
                bool(numbered) and bool(key),
            )
            for name, type_, not_null, default, key in rows
        ]

    def _keys(self, stored: str) -> tuple[dict[str, str], set[str]]:
        """UNI or MUL for the columns that begin a secondary key, and all columns of such keys."""
        keys: dict[str, str] = {}
        indexed: set[str] = set()
        for _, unique, columns in self.indexes(stored):
            indexed.update(columns)
            if unique and len(columns) == 1:
                keys[columns[0]] = "UNI"
            elif columns:
                keys.setdefault(columns[0], "MUL")
        return keys, indexed

    def view(self, stored: str) -> str | None:
        """SQLite's SELECT of a view; None if there is no such view."""
        sql = self._storage.value(
            "SELECT sql FROM sqlite_master WHERE name = ? AND type = 'view'", (stored,)
        )
        return None if sql is None else str(sql).partition(" AS ")[2]

    def auto_increments(self, stored: str) -> bool:
        """Whether the table's key is AUTO_INCREMENT."""
        return bool(self._numbered_type(stored))

    def _numbered_type(self, stored: str) -> str:
        """MySQL's type of the AUTO_INCREMENT key, empty without one.

        SQLite numbers only an INTEGER, so MySQL's type is kept in a comment after that word.
        """
        for catalogue in ("sqlite_temp_master", "sqlite_master"):
            sql = self._storage.value(
                f"SELECT sql FROM {catalogue} WHERE name = ? AND type = 'table'",  # noqa: S608 - both names stand above
                (stored,),
            )
            if sql is not None:
                found = re.search(r"INTEGER /\*([A-Z ]+)\*/ PRIMARY KEY AUTOINCREMENT", str(sql))
                return found[1] if found else ""
        return ""

    def has_foreign_keys(self) -> bool:
        """Whether any table has one."""
        found = self._storage.value(
            "SELECT 1 FROM sqlite_master WHERE type = 'table' AND sql LIKE '%REFERENCES%'"
        )
        return found is not None

    def indexes(self, stored: str) -> list[tuple[str, bool, list[str]]]:
        """Name, whether unique, and columns of each index that is not the primary key."""
        found = []
        for name, unique, origin in self._storage.read(
            'SELECT name, "unique", origin FROM pragma_index_list(?)', (stored,)
        )[1]:
            columns = self._storage.read("SELECT name FROM pragma_index_info(?)", (name,))[1]
            if origin != "pk":
                names = [str(column) for (column,) in columns]
                label = str(name).rsplit(".", 1)[-1] if origin == "c" else names[0]
                found.append((label, bool(unique), names))
        return found

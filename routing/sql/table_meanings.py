"""What the names of tables and views mean: the base tables whose changes change what they show.

Those are the tables that reading from them reads, and the parents from which foreign keys cascade
to these: a log does not name a child that InnoDB has changed by itself, as it does on connections
that were reset (docs/mysql-behaviour.md, *COM_CHANGE_USER*).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from routing.servers.transaction_tables import TableName
from routing.sql.session_locks import quoted
from routing.sql.table_references import Name, TableNames

BaseTables = frozenset[TableName]

_MOST: Final = 64
"""Of more tables than these a read counts as one that may read anything: each is in its record."""
_NO_TABLES: Final[BaseTables] = frozenset()
_ENGINE: Final = "InnoDB"
"""Tables of other engines may show what is kept elsewhere, or is not replicated by rows."""


def tables_text(tables: BaseTables) -> str:
    """Base tables as SQL names them, in order, separated by commas."""
    return ",".join(f"{quoted(schema)}.{quoted(table)}" for schema, table in sorted(tables))


def folded(schema: str, table: str) -> Name:
    """A name as names are compared here: in lower case, though some servers tell cases apart."""
    return schema.lower(), table.lower()


class TableMeanings:
    """The tables and views that one account sees on the primary.

    Names that differ in nothing but case count as one, which means all of them.
    """

    def __init__(self, meanings: Mapping[Name, BaseTables | None]) -> None:
        """Each name, and the base tables it depends on; None where these are not certain."""
        self._meanings: Final = meanings

    def __len__(self) -> int:
        """How many names are known."""
        return len(self._meanings)

    def base_tables(self, names: TableNames, schema: str) -> BaseTables | None:
        """The base tables that a query may read; None if they are not certain.

        Args:
            names: those in the query.
            schema: the default schema.
        """
        known = self._meanings
        names = names.within(schema)
        if not names.references <= known.keys():
            return None
        tables: set[TableName] = set()
        for name in names.names | names.references:
            read = known.get(name, _NO_TABLES)
            if read is None:
                return None
            tables |= read
        return frozenset(tables) if len(tables) <= _MOST else None


NOTHING_KNOWN: Final = TableMeanings({})


def meanings(
    tables: Iterable[tuple[TableName, str]],
    views: Mapping[Name, Iterable[Name]],
    parents: Mapping[Name, Iterable[Name]],
) -> Iterator[TableMeanings | None]:
    """Find out what each name means, in steps: yields None after each, and the meanings at last.

    Args:
        tables: what is no view, and its engine.
        views: what each view reads from: tables, or other views.
        parents: of each child of foreign keys that cascade, the tables that they refer to.
    """
    found: dict[Name, BaseTables | None] = {}
    for table, engine in tables:
        name = folded(*table)
        others = found.get(name, _NO_TABLES)
        found[name] = None if others is None or engine != _ENGINE else others | {table}
        yield None
    found.update(dict.fromkeys(views.keys() & found.keys()))  # of one of them the case differs
    further = {child: parents[child] for child in parents if child in found} | {**views}
    meant = dict(found)
    for name in further:
        meant[name] = _under(name, further, found)
        yield None
    yield TableMeanings(meant)


def _under(
    name: Name, further: Mapping[Name, Iterable[Name]], found: Mapping[Name, BaseTables | None]
) -> BaseTables | None:
    """The base tables that a name depends on; None if they are not certain.

    Whoever sees a table sees its foreign keys, and so all that they refer to. A table that is not
    seen may have parents of its own. More than `_MOST` are as good as all.

    Args:
        name: of a table or view.
        further: what each view reads from, and the parents of tables that are found.
        found: each base table, None where its name is not certain.
    """
    tables: set[TableName] = set()
    seen = {name}
    ahead = [name]
    while ahead:
        name = ahead.pop()
        own = found.get(name, _NO_TABLES)
        if own is None or (name not in found and name not in further) or len(tables) > _MOST:
            return None
        tables |= own
        more = set(further.get(name, ())) - seen
        seen |= more
        ahead += more
    return frozenset(tables)

"""Which views are plain: what they show does not depend on the session or on the server.

A view may hide what a statement's text would show: a call of a stored function, `CONNECTION_ID()`,
a user variable in an XPath expression. A server's information_schema.VIEWS has the definitions of
those views that an account may see, in one canonical form. Each is classified like any statement;
what a view reads from may be such a view again.

A view counts as plain only if all that it reads from can be seen, too: what an account cannot see
may be a view as well.
"""

import json
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Final

from routing.servers.transaction_tables import TableName
from routing.sql import grammar
from routing.sql.diagnostics import PARTS
from routing.sql.identifiers import identifier
from routing.sql.lexer import MODE_UTF8, QUOTED, Tokens, lex
from routing.sql.session_locks import Act, PinReason, SessionLock
from routing.sql.statement import MAX_TEXT, Statement, StatementClass, StatementReason
from routing.sql.table_meanings import NOTHING_KNOWN, TableMeanings, folded, meanings
from routing.sql.table_references import Name
from routing.sql.user_variables import ALL
from routing.sql.verdict import Verdict

PLAIN: Final = 0
CALLS: Final = 1
"""May call a stored function, or it is not known what it does."""
LOCKS: Final = 2
"""Takes a named lock."""
BOUND: Final = 4
"""Shows what belongs to the session or to the server."""
ASKS: Final = 8
"""Asks about the statement before."""
VARIABLES: Final = 16
"""May read any user variable."""
DICTIONARY: Final = 32
"""Reads the replicated dictionary, by way of information_schema."""

MOST_GONE: Final = 1000
"""So many views that are not visible any more are remembered, the last ones."""

_NAMED_LOCK: Final = SessionLock(Act.ACQUIRE, PinReason.NAMED_LOCK)

_BEFORE_TABLE: Final = frozenset({b"FROM", b"JOIN", b"STRAIGHT_JOIN"})
_BEHIND_TABLE: Final = _BEFORE_TABLE | frozenset(
    {b"LEFT", b"RIGHT", b"INNER", b"CROSS", b"NATURAL", b"ON", b"USE", b"FORCE", b"IGNORE"}
    | {b"PARTITION", b"TABLESAMPLE"}
) - {b"FROM"}


class CatalogueError(ValueError):
    """A server's answer about its views cannot be read."""


class Definition:
    """What a view's definition touches.

    Attributes:
        touched: a sum of the flags above.
        tables: what it reads from.
    """

    __slots__ = ("tables", "touched")

    def __init__(self, text: bytes) -> None:
        """Read a definition in the form of information_schema.VIEWS; "" is one that is hidden."""
        tokens = lex(text, MODE_UTF8) if text and len(text) <= MAX_TEXT else None
        if tokens is None:
            self.touched = CALLS
            self.tables: frozenset[Name] = frozenset()
        else:
            self.touched = _touched(grammar.verdict(tokens))
            self.tables = frozenset(_tables(tokens))


class Catalogue:
    """The views that are not plain, by what they touch.

    Attributes:
        names: of them, as `routing.sql.identifiers` compares names, without a schema.
        tables: which base tables each name reads, of whatever view; nothing if that was not asked.
    """

    def __init__(
        self,
        views: dict[Name, int],
        tables: TableMeanings = NOTHING_KNOWN,
        gone: dict[Name, int] | None = None,
    ) -> None:
        """`gone` are views that are not visible any more."""
        self._views = views
        self._gone = gone or {}
        touched: dict[bytes, int] = {}
        for (_, table), flags in (*views.items(), *self._gone.items()):
            if flags:
                name = identifier(table.encode())
                touched[name] = touched.get(name, PLAIN) | flags
        self._touched = touched
        self.names = frozenset(touched)
        self.tables: Final = tables

    def following(self, former: "Catalogue") -> "Catalogue":
        """The same with those of a former one's views that are not plain and not visible any more.

        They may be gone, or be hidden by a REVOKE. A session that logged in before the REVOKE keeps
        its right, and reads them still.
        """
        gone = {
            name: flags
            for name, flags in (*former._gone.items(), *former._views.items())
            if flags and name not in self._views
        }
        for name in [*gone][:-MOST_GONE]:
            del gone[name]
        return Catalogue(self._views, self.tables, gone) if gone != self._gone else self

    def touched(self, statement: Statement) -> int:
        """What a statement touches through the views that it may name."""
        names = self.names & statement.identifiers
        flags = PLAIN
        for name in names:
            flags |= self._touched[name]
        return flags


def through(statement: Statement, touched: int) -> Statement:
    """The statement as it would be if what it touches stood in its own text."""
    if touched == PLAIN:
        return statement
    kind = statement.kind
    reason = statement.reason
    if touched & CALLS:
        kind, reason = StatementClass.WRITE, StatementReason.UNKNOWN_FUNCTION
    elif kind not in (StatementClass.WRITE, StatementClass.PIN):
        if touched & LOCKS:
            kind, reason = StatementClass.PIN, StatementReason.LOCK_FUNCTION
        elif touched & (BOUND | ASKS):
            kind, reason = StatementClass.SESSION, StatementReason.SESSION_FUNCTION
        elif kind is StatementClass.READ:
            reason = (
                StatementReason.METADATA if touched & DICTIONARY else StatementReason.USER_VARIABLE
            )
    return replace(
        statement,
        kind=kind,
        reason=reason,
        may_write=statement.may_write or touched & CALLS != 0,
        holds=(*statement.holds, _NAMED_LOCK) if touched & LOCKS else statement.holds,
        user_variables=(
            (*statement.user_variables, ALL) if touched & VARIABLES else statement.user_variables
        ),
        asks=PARTS if touched & ASKS else statement.asks,
        tables=None,
    )


def read(
    views: bytes | None,
    usages: bytes | None,
    define: Callable[[bytes], Definition] = Definition,
    base_tables: bytes | None = None,
    foreign_keys: bytes | None = None,
) -> Iterator[Catalogue | None]:
    """Make a catalogue in steps: yields None after each view, and the catalogue at last.

    Args:
        views: a JSON array of `[schema, table, definition]`; None if there are none.
        usages: one of `[schema, table, schema read from, table read from]`, likewise.
        define: reads a definition.
        base_tables: one of `[schema, table, engine]`, of all that are no views; None if these were
            not asked for.
        foreign_keys: one of `[schema, table, schema referred to, table referred to]`, of those that
            cascade; None if it is not known which there are.

    Raises:
        CatalogueError: it is something else.
    """
    visible: dict[Name, set[Name]] = {}
    for schema, table, of_schema, of_table in _rows(usages, 4):
        visible.setdefault((schema, table), set()).add((of_schema, of_table))
        yield None
    touched: dict[Name, int] = {}
    tables: dict[Name, frozenset[Name]] = {}
    for schema, table, text in _rows(views, 3):
        name = (schema, table)
        definition = define(text.encode("utf-8", "surrogatepass"))
        hidden = not definition.tables <= visible.get(name, set())
        touched[name] = definition.touched | (CALLS if hidden else PLAIN)
        tables[name] = definition.tables
        yield None
    changed = True
    while changed:
        changed = False
        for name, others in tables.items():
            flags = touched[name]
            for other in others:
                flags |= touched.get(other, PLAIN)
            if flags != touched[name]:
                touched[name] = flags
                changed = True
        yield None
    known = NOTHING_KNOWN
    if base_tables is not None and foreign_keys is not None:
        parents = yield from _parents(foreign_keys)
        known = yield from _table_meanings(base_tables, tables, visible, parents)
    yield Catalogue(touched, known)


def _table_meanings(
    base_tables: bytes,
    views: dict[Name, frozenset[Name]],
    visible: dict[Name, set[Name]],
    parents: dict[Name, set[Name]],
) -> Generator[None, None, TableMeanings]:
    """Find out in steps what names mean.

    Args:
        base_tables: as of `read`.
        views: what each view reads from, by its definition.
        visible: the same by the server's word, as far as the account sees it.
        parents: as of `meanings`.
    """
    engines: list[tuple[TableName, str]] = []
    for schema, table, engine in _rows(base_tables, 3):
        engines.append((TableName(schema, table), engine))
        yield None
    under: dict[Name, set[Name]] = {}
    for view, others in views.items():
        both = others | visible.get(view, frozenset())
        under.setdefault(folded(*view), set()).update([folded(*other) for other in both])
    known = NOTHING_KNOWN
    for found in meanings(engines, under, parents):
        known = found or known
        yield None
    return known


def _parents(foreign_keys: bytes) -> Generator[None, None, dict[Name, set[Name]]]:
    """The tables that the foreign keys of each table refer to, found in steps."""
    found: dict[Name, set[Name]] = {}
    for schema, table, of_schema, of_table in _rows(foreign_keys, 4):
        found.setdefault(folded(schema, table), set()).add(folded(of_schema, of_table))
        yield None
    return found


_DECODER: Final = json.JSONDecoder()
_MARK: Final = re.compile(r"\s*(\[\s*\]|[\[,\]])\s*")


def _rows(array: bytes | None, columns: int) -> Iterator[list[str]]:
    """The rows of a JSON array, each read when it is asked for: all at once can take long."""
    if array is None:
        return
    position = 0
    try:
        text = array.decode()
        while mark := _MARK.match(text, position):
            if mark[1].endswith("]"):
                return
            row: object
            row, position = _DECODER.raw_decode(text, mark.end())
            if not isinstance(row, list) or len(row) != columns:
                break
            yield ["" if value is None else str(value) for value in row]
    except ValueError as error:
        raise CatalogueError(str(error)) from error
    raise CatalogueError(f"no array of rows of {columns} values: {array[:100]!r}")


def _touched(verdict: Verdict) -> int:
    """What a definition touches."""
    kind = verdict.kind
    flags = ASKS if verdict.asks else PLAIN
    if kind is StatementClass.READ:
        flags |= DICTIONARY if verdict.reason is StatementReason.METADATA else PLAIN
        return flags | (VARIABLES if verdict.user_variables else PLAIN)
    if kind is StatementClass.PIN and verdict.reason is StatementReason.LOCK_FUNCTION:
        return flags | LOCKS | BOUND
    if kind is StatementClass.SESSION or kind is StatementClass.DIAGNOSTIC:
        return flags | BOUND
    return flags | CALLS


def _tables(tokens: Tokens) -> Iterator[Name]:
    """What a definition in canonical form reads from: names with a schema, where a table stands."""
    kinds = tokens.kinds
    words = tokens.words
    for index in range(len(tokens) - 2):
        if kinds[index] != QUOTED or words[index + 1] != b"." or kinds[index + 2] != QUOTED:
            continue
        before = words[index - 1] if index else b""
        behind = words[index + 3]
        if before == b"." or behind == b".":
            continue
        aliased = kinds[index + 3] == QUOTED
        if before in _BEFORE_TABLE or aliased or behind in _BEHIND_TABLE:
            yield _text(words[index]), _text(words[index + 2])


def _text(quoted: bytes) -> str:
    return quoted[1:-1].replace(b"``", b"`").decode("utf-8", "replace")

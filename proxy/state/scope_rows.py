"""The rows of scopes in a scope file: what is kept of each, as intervals.

New intervals are inserted; rows of scopes that have many are merged, a few scopes at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.gtid import EMPTY, GtidSet
from protocol.wire import decode_text, encode_text
from proxy.state.sqlite_file import Transaction
from routing.consistency.decision import Scope
from routing.consistency.gtid_rows import GtidRow, from_rows, rows
from routing.consistency.scope import KeptScope

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

_PURPOSES: Final = ("own", "observed", "lost")
_COMPRESS_ABOVE: Final = 32
"""A scope is compressed if it has more rows than its sets need, and this many more."""
_COMPRESSED_AT_ONCE: Final = 16
_MOST_ROWS: Final = 1_000_000
"""How many rows a start reads; scopes that were used too long ago to be among them are deleted."""


class Change(NamedTuple):
    """A scope to keep.

    Attributes:
        number: its own, from 1.
        kept: what to keep.
        used_us: `kept.used_at` as UTC µs.
    """

    number: int
    kept: KeptScope
    used_us: int


class Found(NamedTuple):
    """A scope that was kept; `kept.used_at` is 0.

    Attributes:
        number: its own.
        kept: what was kept of it; unknown if it may require more.
        used_us: when it was used last, UTC µs.
    """

    number: int
    kept: KeptScope
    used_us: int


class Written(NamedTuple):
    """What a `ScopeFile.write` did: rows that it inserted, and rows that it compressed away."""

    inserted: int
    compressed: int


@dataclass(slots=True)
class _Held:
    """What the file has of a scope: its sets, in the order of `_PURPOSES`, and how many rows."""

    sets: list[GtidSet] = field(default_factory=lambda: [EMPTY, EMPTY, EMPTY])
    rows: int = 0

    @property
    def needed(self) -> int:
        return sum([gtids.interval_count for gtids in self.sets])


class ScopeRows:
    """The rows of all scopes, over a connection to the file. Its calls raise `sqlite3.Error`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._held: dict[int, _Held] = {}
        self._long: dict[int, None] = {}  # scopes with many rows, in order

    def read(self, count: int, is_marked: Callable[[int], bool]) -> list[Found]:
        """Read the scopes, last used first; delete those beyond `_MOST_ROWS` rows or `count`.

        Args:
            count: scopes may have the numbers 1..count.
            is_marked: whether the scope of a number may require more than is kept.

        Raises:
            MalformedGtidSetError, ValueError, TypeError: Tidegate did not write what is there.
        """
        scopes: list[Found] = []
        left = _MOST_ROWS
        rows_of = self._read_rows()
        forgotten = []
        for number, kind, name, unknown, missing_trackers, used_us in self._connection.execute(
            "SELECT number, kind, name, is_unknown, lost_untold, used_us FROM scopes"
            " ORDER BY used_us DESC"
        ).fetchall():
            found = rows_of.get(number, {})
            held = _Held(rows=sum(map(len, found.values())))
            left -= held.rows
            if left < 0 or not 1 <= number <= count:
                forgotten.append(number)
                continue
            held.sets = [from_rows(found.get(purpose, ())) for purpose in _PURPOSES]
            self._held[number] = held
            marked = is_marked(number)
            own, observed, lost = held.sets
            is_unknown = bool(unknown) or marked
            kept = KeptScope(
                Scope(kind),
                decode_text(bytes(name)),
                own,
                observed,
                lost,
                lost_untold=bool(missing_trackers),
                unknown=is_unknown,
                used_at=0.0,
            )
            scopes.append(Found(number, kept, int(used_us)))
        self._forget(forgotten)
        return scopes

    def _read_rows(self) -> dict[int, dict[str, list[GtidRow]]]:
        """All rows, by scope number and purpose."""
        found: dict[int, dict[str, list[GtidRow]]] = {}
        for number, purpose, uuid, tag, start, end in self._connection.execute(
            "SELECT number, purpose, source_uuid, gtid_tag, interval_start, interval_end"
            " FROM scope_gtids"
        ):
            of_scope = found.setdefault(number, {})
            of_scope.setdefault(purpose, []).append((uuid, tag, start, end))
        return found

    def discard(self) -> None:
        """Delete all scopes."""
        with Transaction(self._connection):
            self._connection.execute("DELETE FROM scopes")
            self._connection.execute("DELETE FROM scope_gtids")
        self._held.clear()
        self._long.clear()

    def write(self, changes: Sequence[Change], removed: Sequence[int]) -> Written:
        """Write scopes; delete those with the numbers `gone`, which other scopes may then get."""
        written: dict[int, _Held] = {}
        new: list[tuple[int, str, str, str, int, int]] = []
        with Transaction(self._connection):
            self._forget(removed)
            for number, kept, _ in changes:
                written[number] = self._change(number, kept, new)
            self._connection.executemany(
                # An earlier attempt that failed may have written some of these, or all.
                "INSERT OR REPLACE INTO scope_gtids VALUES (?, ?, ?, ?, ?, ?)",
                new,
            )
            self._connection.executemany(
                "INSERT INTO scopes VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE SET"
                " is_unknown = excluded.is_unknown, lost_untold = excluded.lost_untold,"
                " used_us = excluded.used_us",
                [
                    (
                        *(number, kept.kind.value, encode_text(kept.key)),
                        *(kept.unknown, kept.lost_untold, used_us),
                    )
                    for number, kept, used_us in changes
                ],
            )
        for number in removed:
            self._held.pop(number, None)
            self._long.pop(number, None)
        self._held.update(written)
        for number, held in written.items():
            if held.rows > held.needed + _COMPRESS_ABOVE:
                self._long[number] = None
        return Written(len(new), self._compress())

    def _change(
        self, number: int, kept: KeptScope, new: list[tuple[int, str, str, str, int, int]]
    ) -> _Held:
        """Add to `new` the rows that the file lacks of a scope; return what it will have of it."""
        before = self._held.get(number) or _Held()
        after = _Held([kept.own, kept.observed, kept.lost], before.rows)
        for purpose, had, has in zip(_PURPOSES, before.sets, after.sets, strict=True):
            if had is has:
                continue
            added = has - had
            if not had <= has:
                after.rows -= self._connection.execute(
                    "DELETE FROM scope_gtids WHERE number = ? AND purpose = ?", (number, purpose)
                ).rowcount
                added = has
            added_rows = rows(added)
            after.rows += len(added_rows)
            new += [(number, purpose, *row) for row in added_rows]
        return after

    def _compress(self) -> int:
        """Merge the rows of some scopes with many; return by how many rows the file shrank."""
        numbers = list(self._long)[:_COMPRESSED_AT_ONCE]
        if not numbers:
            return 0
        less = 0
        with Transaction(self._connection):
            for number in numbers:
                held = self._held[number]
                self._connection.execute("DELETE FROM scope_gtids WHERE number = ?", (number,))
                self._connection.executemany(
                    "INSERT INTO scope_gtids VALUES (?, ?, ?, ?, ?, ?)",
                    [
                        (number, purpose, *row)
                        for purpose, gtids in zip(_PURPOSES, held.sets, strict=True)
                        for row in rows(gtids)
                    ],
                )
        for number in numbers:
            held = self._held[number]
            less += held.rows - held.needed
            held.rows = held.needed
            del self._long[number]
        return less

    def _forget(self, numbers: Sequence[int]) -> None:
        named = [(number,) for number in numbers]
        self._connection.executemany("DELETE FROM scopes WHERE number = ?", named)
        self._connection.executemany("DELETE FROM scope_gtids WHERE number = ?", named)

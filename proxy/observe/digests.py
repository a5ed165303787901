"""Statements by their digest: how many, how long, where. One table for each worker.

What costs something, the text without literals, is made once, when a digest is first seen. After
that a statement costs one look into a dict and a few additions.

The table is bounded: it has two generations of `GENERATION` entries, and what was not seen for as
long as it took to fill one is added up in one entry, "others".
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from protocol.command import query_text_offset
from protocol.errors import MalformedPacketError
from routing.sql.digest_text import UNREADABLE, digest_text

if TYPE_CHECKING:
    from mypy_extensions import i64  # an int in Python; when compiled, an unboxed number

    from routing.request.command import Command

GENERATION: Final = 512
"""Entries of each of the two halves; one has at most 1 KiB of text."""
OTHERS: Final = "others"


class DigestEntry:
    """What statements of one digest have in common.

    Attributes:
        digest: 16 hex digits, or "others".
        text: without literals.
        count: how many there were.
        total_us, longest_us: how long they took, from their arrival to their end.
        rows: how many they gave, as far as these were counted.
        on_replicas: how many of them a replica answered.
        waits, wait_us: how many of them waited for a replica, and how long all together.
        errors: how many of them ended in an error.
    """

    def __init__(self, digest: str, text: str) -> None:
        self.digest: Final = digest
        self.text: Final = text
        self.count: i64 = 0
        self.total_us: i64 = 0
        self.longest_us: i64 = 0
        self.rows: i64 = 0
        self.on_replicas: i64 = 0
        self.waits: i64 = 0
        self.wait_us: i64 = 0
        self.errors: i64 = 0

    def add(self, took_us: i64, rows: i64, on_replica: bool, wait_us: i64, failed: bool) -> None:
        """Count one."""
        self.count += 1
        self.total_us += took_us
        if took_us > self.longest_us:
            self.longest_us = took_us
        self.rows += rows
        if on_replica:
            self.on_replicas += 1
        if wait_us:
            self.waits += 1
            self.wait_us += wait_us
        if failed:
            self.errors += 1

    def take(self, other: DigestEntry) -> None:
        """Add what another entry has counted."""
        self.count += other.count
        self.total_us += other.total_us
        self.longest_us = max(self.longest_us, other.longest_us)
        self.rows += other.rows
        self.on_replicas += other.on_replicas
        self.waits += other.waits
        self.wait_us += other.wait_us
        self.errors += other.errors

    @property
    def row(self) -> list[str | int | float | bool | None]:
        """What is shown of it; times in ms."""
        return [
            self.digest,
            self.text or None,
            self.count,
            self.total_us / 1000,
            self.longest_us / 1000,
            self.rows,
            self.on_replicas,
            self.waits,
            self.wait_us / 1000,
            self.errors,
        ]


class Digests:
    """The table of one worker.

    Attributes:
        young: the entries of the present generation, by digest.
    """

    def __init__(self) -> None:
        self.young: dict[str, DigestEntry] = {}
        self._old: dict[str, DigestEntry] = {}
        self._others = DigestEntry(OTHERS, "")

    def find(self, digest: str, command: Command, mode_flags: int) -> DigestEntry:
        """The entry for what is not in `young`, which then has it.

        Args:
            digest: that of the command's statement.
            command: one with that digest.
            mode_flags: those of its session, a sum of `routing.sql.lexer.MODE_…`.
        """
        entry = self._old.pop(digest, None)
        if entry is None:
            entry = DigestEntry(digest, text_of(digest, command, mode_flags))
        if len(self.young) >= GENERATION:
            for forgotten in self._old.values():
                self._others.take(forgotten)
            self._old = self.young
            self.young = {}
        self.young[digest] = entry
        return entry

    @property
    def rows(self) -> list[list[str | int | float | bool | None]]:
        """All of it, what took the longest together first."""
        entries = [*self.young.values(), *self._old.values()]
        entries.sort(key=_total, reverse=True)
        found = [entry.row for entry in entries]
        if self._others.count:
            found.insert(0, self._others.row)  # where rows are left out, it must not be
        return found


def text_of(digest: str, command: Command, mode_flags: int) -> str:
    """The text of a command's statement without literals.

    A packet does not tell whether its client puts attributes in front of a text: what has the
    digest is the text.
    """
    if command.is_query:
        packet = command.packet
        texts = [packet[5:]]
        with suppress(MalformedPacketError):
            texts.append(packet[4 + query_text_offset(packet[4:], True) :])
    else:
        texts = [b"" if command.prepared is None else command.prepared.sql]
    for text in texts:
        found = digest_text(text, mode_flags, digest)
        if found is not None:
            return found
    return UNREADABLE


def _total(entry: DigestEntry) -> int:
    return entry.total_us

"""The memory in which the workers of a proxy tell each other what wide scopes require.

Theory of operation
===================

Each scope hashes to a *row*; scopes that share one require more than they must, and never less. In
each row every worker has a *slot*, which only it writes: what its sessions have added. A write is
in its worker's slot before its client is told, so any later read finds it there: reading takes no
lock, and no message has to arrive first. (The way from one worker to the other leads through
clients, and so through system calls, which order memory.)

A row is written only once somebody reads it: the first read of a scope sets a flag, and then asks
the primary. A write that did not see the flag had been committed by then, so the answer has it.

Slots carry a checksum. One that is written while it is read, or was left half written by a worker
that died, is *torn*: its reader asks the primary. A slot belongs to one *generation* of its worker;
the next generation does not know what the last one was about to add, so each new generation is a
doubt in all scopes.

A slot holds what was written (`own`), what of it later primaries lack (`lost`), and two numbers: of
the last *doubt* about writes without a known GTID, and of the last answer that was *shown*, which
is counted only in rows that are read at a level that remembers.

This file only has the bytes; `proxy.state.scope_memory` shares them, `sharing` says what they mean.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from zlib import crc32

from protocol.errors import MalformedGtidSetError
from protocol.gtid import EMPTY, GtidSet
from protocol.wire import encode_text
from routing.servers.topology import RESTART_SLACK_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from routing.consistency.scope import ScopeKey

_ROWS: Final = 8192
_SLOTS: Final = 16 * _ROWS
"""The most slots: with many workers there are fewer rows, so that the board stays small."""
_FLAGS: Final = 16_384
"""Flags of scopes with writes without a GTID, by a hash that does not depend on the worker
count."""
_SLOT: Final = 512
_HEAD: Final = struct.Struct("=QQQIddHH")
"""Of a slot: version, doubts, shows, incarnation, lengths of `own` and of `lost`."""
_CHECKSUM: Final = struct.Struct("=I")
_TEXTS: Final = _HEAD.size + _CHECKSUM.size
ROOM: Final = _SLOT - _TEXTS
"""Bytes for the texts of a slot's sets."""

_MAGIC: Final = b"TGSCOPE1"
_LINE: Final = 64
"""Bytes that processors share at a time."""
_ALL_UNLOGGED: Final = len(_MAGIC)
_UNLOGGED: Final = _LINE
_READS: Final = _UNLOGGED + _FLAGS
_REMEMBERS: Final = _READS + _ROWS
_GENERATIONS: Final = _REMEMBERS + _ROWS
_ATTEMPTS: Final = 3
_GENERATION_BITS: Final = 31
_VERSION_BITS: Final = 32


class Incarnation(NamedTuple):
    """A primary, from its start to its end, as all workers know it.

    Attributes:
        uuid: a checksum of its `@@server_uuid`; 0 if nobody knows.
        earliest, latest: when it started, s since the epoch.
    """

    uuid: int
    earliest: float
    latest: float

    @classmethod
    def of(cls, uuid: str, started: tuple[float, float]) -> Incarnation:
        """That of a server (`routing.servers.topology.Server`)."""
        return cls(crc32(encode_text(uuid)), *started)

    def may_be(self, other: Incarnation) -> bool:
        """Whether the two are one, as far as clocks tell."""
        return (
            self.uuid == other.uuid
            and self.earliest - other.latest <= RESTART_SLACK_S
            and other.earliest - self.latest <= RESTART_SLACK_S
        )


UNKNOWN: Final = Incarnation(0, 0.0, 0.0)

READER: Final = -1
"""In place of a worker's number: a process of another proxy, which only reads the board."""

Mark: TypeAlias = tuple[int, int]
"""A worker's generation, and the version of one of its slots, which may be of an older one."""


def is_written(mark: Mark) -> bool:
    """Whether a worker's present generation has written the slot."""
    generation, version = mark
    return version >> _VERSION_BITS == generation


class Slot(NamedTuple):
    """What one worker has added to one row.

    Attributes:
        version: greater each time it is written.
        doubts, shows: the numbers of the last ones.
        incarnation: the primary whose sets these are, or were last compared with.
        own, lost: what was acknowledged, and what of it is gone.
    """

    version: int
    doubts: int
    shows: int
    incarnation: Incarnation
    own: GtidSet
    lost: GtidSet


NOTHING: Final = Slot(0, 0, 0, UNKNOWN, EMPTY, EMPTY)


def size(workers: int) -> int:
    """Bytes that a board for so many workers takes."""
    return _slots(workers) + workers * _rows(workers) * _SLOT


def prepare(memory: memoryview, unlogged: bytes = b"") -> None:
    """Make a board of memory that is zero; `unlogged` are flags that an earlier one had."""
    memory[: len(unlogged)] = unlogged
    memory[: len(_MAGIC)] = _MAGIC


def unlogged_flags(memory: bytes | memoryview) -> bytes:
    """The flags of a board, for the next one or for `is_flagged`; empty if there is none."""
    if len(memory) < _READS or bytes(memory[: len(_MAGIC)]) != _MAGIC:
        return b""
    return bytes(memory[:_READS])


def absorb_flags(memory: memoryview, flags: bytes) -> None:
    """Add the flags of another board (`unlogged_flags`) to those of this one."""
    for at in range(_ALL_UNLOGGED, len(flags)):
        if flags[at]:
            memory[at] = 1


def flag_of(key: ScopeKey) -> int:
    """Which flag of writes without a GTID is a scope's."""
    return _hash(key) % _FLAGS


def is_flagged(flags: bytes, key: ScopeKey) -> bool:
    """Whether something without a GTID may have been written in a scope."""
    return bool(flags) and (flags[_ALL_UNLOGGED] != 0 or flags[_UNLOGGED + flag_of(key)] != 0)


class ScopeBoard:
    """One worker's view.

    Args:
        memory: what all workers share, prepared.
        workers: how many there are.
        worker: the number of this one, from 0; `READER` for one that has no slots there.

    Attributes:
        others: the numbers of the others.

    Raises:
        ValueError: the memory is no board, or one of another size.
    """

    def __init__(self, memory: memoryview, workers: int, worker: int) -> None:
        if len(memory) != size(workers) or bytes(memory[: len(_MAGIC)]) != _MAGIC:
            raise ValueError(f"{len(memory)} bytes are no board for {workers} workers")
        self._memory = memory
        self._words = memory.cast("Q")
        self._worker = worker
        self._count = _rows(workers)
        self._slots = _slots(workers)
        self._written = 0
        self.others = tuple([other for other in range(workers) if other != worker])
        self._places = tuple(  # in words: of a worker's generation, and of its first slot
            [(_generation_at(other), self._slot_at(other, 0) // 8) for other in self.others]
        )
        self._base = 0
        if worker != READER:
            generation = self.generation(worker) % ((1 << _GENERATION_BITS) - 1) + 1
            self._base = generation << _VERSION_BITS
            self._words[_generation_at(worker)] = generation

    def close(self) -> None:
        """Let go of the memory."""
        self._words.release()
        self._memory.release()

    def row(self, key: ScopeKey) -> int:
        """Where a scope is."""
        return _hash(key) % self._count

    # Flags of rows, which are set by whoever comes first and stay

    def is_read(self, row: int) -> bool:
        """Whether any worker reads there."""
        return self._memory[_READS + row] != 0

    def begin_reading(self, row: int) -> None:
        """From now on workers write there."""
        self._memory[_READS + row] = 1

    def is_remembered(self, row: int) -> bool:
        """Whether any worker reads there at a level that remembers."""
        return self._memory[_REMEMBERS + row] != 0

    def begin_remembering(self, row: int) -> None:
        """From now on workers tell there what they show."""
        self._memory[_REMEMBERS + row] = 1

    def is_unlogged(self, flag: int) -> bool:
        """Whether something without a GTID may have been written in a scope with this flag."""
        memory = self._memory
        return memory[_UNLOGGED + flag] != 0 or memory[_ALL_UNLOGGED] != 0

    def add_unlogged(self, keys: Iterable[ScopeKey]) -> None:
        """Something without a GTID was written in these scopes; empty means in any."""
        flags = [flag_of(key) for key in keys]
        for flag in flags:
            self._memory[_UNLOGGED + flag] = 1
        if not flags:
            self._memory[_ALL_UNLOGGED] = 1

    # Slots

    def generation(self, worker: int) -> int:
        """Counts how often a worker has started; 0 if it never has."""
        return self._words[_generation_at(worker)]

    def news(self, row: int, seen: Sequence[Mark]) -> list[tuple[int, Mark]]:
        """The marks of a row's slots that have changed since `seen`: whose, and what they are now.

        `seen` is in the order of `others`.
        """
        words = self._words
        at = row * (_SLOT // 8)
        found = []
        for number, (generation_at, first_at) in enumerate(self._places):
            mark = words[generation_at], words[first_at + at]
            if mark != seen[number]:
                found.append((number, mark))
        return found

    def slot(self, worker: int, row: int) -> Slot | None:
        """What a worker has added there; None if it is torn."""
        at = self._slot_at(worker, row)
        for _ in range(_ATTEMPTS):
            data = bytes(self._memory[at : at + _SLOT])
            version, doubts, shows, uuid, earliest, latest, own, lost = _HEAD.unpack_from(data)
            end = _TEXTS + own + lost
            if (
                end <= _SLOT
                and _checksum(data[: _HEAD.size], data[_TEXTS:end])
                == (_CHECKSUM.unpack_from(data, _HEAD.size)[0])
            ):
                try:
                    sets = [GtidSet.parse(data[_TEXTS : _TEXTS + own])]
                    sets.append(GtidSet.parse(data[_TEXTS + own : end]))
                except MalformedGtidSetError:
                    return None
                return Slot(version, doubts, shows, Incarnation(uuid, earliest, latest), *sets)
        return None

    def write(self, row: int, slot: Slot) -> None:
        """Let the others see this slot; its version is set here.

        Raises:
            ValueError: the sets are longer than `ROOM`.
        """
        own, lost = encode_text(slot.own.text), encode_text(slot.lost.text)
        texts = own + lost
        if len(texts) > ROOM:
            raise ValueError(f"{len(texts)} bytes of sets do not fit into {ROOM}")
        self._written += 1
        head = _HEAD.pack(
            self._base + self._written,
            slot.doubts,
            slot.shows,
            *slot.incarnation,
            len(own),
            len(lost),
        )
        data = head + _CHECKSUM.pack(_checksum(head, texts)) + texts
        at = self._slot_at(self._worker, row)
        self._memory[at : at + len(data)] = data

    def _slot_at(self, worker: int, row: int) -> int:
        return self._slots + (worker * self._count + row) * _SLOT


def _slots(workers: int) -> int:
    return _GENERATIONS + workers * _LINE


def _generation_at(worker: int) -> int:
    """In words."""
    return (_GENERATIONS + worker * _LINE) // 8


def _rows(workers: int) -> int:
    return min(_ROWS, _SLOTS // max(1, workers))


def _hash(key: ScopeKey) -> int:
    kind, name = key
    return crc32(encode_text(f"{kind.value} {name}"))


def _checksum(head: bytes, texts: bytes) -> int:
    return crc32(texts, crc32(head))

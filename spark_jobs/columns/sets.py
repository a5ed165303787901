"""Parses many GTID sets at once, into arrays of numbers.

Texts in the form that servers and proxies write are parsed byte by byte, all texts together: the
places of ``:`` and ``,`` show where tokens begin and end, and a token's first byte shows what it
is. Any other text (with capitals, blanks, intervals out of order, a UUID twice) is *odd*. Nothing
is concluded from odd texts here: `spark_jobs.gtid` reads them, or finds them malformed.
"""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import Bytes, Flags, Numbers, ragged

_UUID: Final = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_TAG: Final = re.compile(rb"[a-z_][a-z0-9_]{0,31}")
_UUID_BYTES: Final = 36

_DIGITS: Final = 18
"""Numbers of more digits make a set odd; no server has counted so far yet."""

_MOST_SOURCES: Final = 256
"""UUIDs in one chunk at most; sets with further ones are odd."""

_COLON, _COMMA, _DASH, _ZERO, _NINE = b":,-09"


@dataclass(frozen=True, slots=True)
class Sets:
    """Sets by number; a source is a UUID, with its tag if there is one.

    Attributes:
        begins: for each set, the place of its first interval; and the end of the last set.
        source: for each interval, the place of its source in `sources`.
        low: the first number of each interval.
        high: the last number of each interval.
        odd: whether each set is odd. Odd sets have no interval.
        sources: the sources that occur.
        tags: how many tags each set names.
    """

    begins: Numbers
    source: Numbers
    low: Numbers
    high: Numbers
    odd: Flags
    sources: tuple[str, ...]
    tags: Numbers

    @property
    def sizes(self) -> Numbers:
        """How many intervals each set has."""
        return np.diff(self.begins)

    @property
    def owner(self) -> Numbers:
        """For each interval, the number of its set."""
        return np.repeat(np.arange(len(self.odd)), self.sizes)

    def tops(self, source: int) -> Numbers:
        """The end of each set's last interval of a source; 0 if it has none."""
        return self._of(source, self.high, last=True)

    def prefixes(self, source: int) -> Numbers:
        """The n of each set's interval 1..n of a source; 0 if it has none."""
        low = self._of(source, self.low, last=False)
        return np.where(low == 1, self._of(source, self.high, last=False), 0)

    def lows(self, source: int) -> Numbers:
        """The begin of each set's first interval of a source; 0 if it has none."""
        return self._of(source, self.low, last=False)

    def _of(self, source: int, values: Numbers, *, last: bool) -> Numbers:
        found = np.zeros(len(self.odd), np.int64)
        its = np.flatnonzero(self.source == source)
        if last:  # of several values with the same index, NumPy keeps the last
            found[self.owner[its]] = values[its]
        else:
            found[self.owner[its][::-1]] = values[its][::-1]
        return found


def parse(texts: pa.Array) -> Sets:
    """Parse texts; null counts as an empty text.

    Args:
        texts: of type string.
    """
    count = len(texts)
    data, offsets = _bytes_of(texts)
    begins, ends = offsets[:-1], offsets[1:]
    odd = np.zeros(count, bool)
    filled = np.flatnonzero(ends > begins)
    if not len(filled):
        nothing = np.zeros(0, np.int64)
        zero = np.zeros(count, np.int64)
        return Sets(np.zeros(count + 1, np.int64), nothing, nothing, nothing, odd, (), zero)
    tokens = _Tokens(data, begins[filled], ends[filled])
    wrong, tags = tokens.read()
    odd[filled] = wrong
    tagged = np.zeros(count, np.int64)
    tagged[filled] = tags
    good = ~wrong[tokens.owner[tokens.interval]]
    owner = filled[tokens.owner[tokens.interval]][good]
    source, sources = _present(tokens.source[good], tokens.sources)
    return Sets(
        begins=np.searchsorted(owner, np.arange(count + 1)),
        source=source,
        low=tokens.low[good],
        high=tokens.high[good],
        odd=odd,
        sources=sources,
        tags=np.where(odd, 0, tagged),
    )


def _bytes_of(texts: pa.Array) -> tuple[Bytes, Numbers]:
    """The bytes of all texts, and where each text begins; also the end of the last."""
    texts = texts.fill_null("").cast(pa.large_string())
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return held[places[0] : places[-1]], places - places[0]


def _present(source: Numbers, names: list[str]) -> tuple[Numbers, tuple[str, ...]]:
    """Renumber sources, leaving out those that do not occur."""
    used = np.unique(source)
    return np.searchsorted(used, source), tuple(names[it] for it in used)


class _Tokens:
    """The tokens between ``:`` and ``,`` of texts that are not empty.

    Attributes:
        owner: for each token, the place of its text.
        interval: the places of the tokens that must be intervals.
        low, high, source: for each interval.
        sources: the names of the sources.
    """

    def __init__(self, data: Bytes, begins: Numbers, ends: Numbers) -> None:
        self._data, self._texts = data, len(begins)
        colon, comma = data == _COLON, data == _COMMA
        first = np.zeros(len(data) + 1, bool)
        first[begins] = True
        starts = first.copy()
        starts[np.flatnonzero(colon | comma) + 1] = True
        self._begin = begin = np.flatnonzero(starts[:-1])
        self.owner = np.searchsorted(begins, begin, "right") - 1
        last = np.append(self.owner[1:] != self.owner[:-1], True)
        self._end = np.where(last, ends[self.owner], np.append(begin[1:] - 1, 0))
        leads = first[begin] | comma[np.maximum(begin, 1) - 1]
        head = data[begin]
        digit = (head >= _ZERO) & (head <= _NINE)
        self._is_uuid = leads
        self._is_tag = ~leads & ~digit
        self._is_last = last
        self.interval = np.flatnonzero(~leads & digit)
        # A separator at the very end has no token after it.
        self._wrong = np.isin(data[ends - 1], (_COLON, _COMMA))
        self.low = self.high = self.source = np.zeros(0, np.int64)
        self.sources: list[str] = []

    def read(self) -> tuple[Flags, Numbers]:
        """Parse all tokens; returns which texts are odd, and how many tags each has."""
        uuid, names = self._uuids()
        tag, tags = self._tags()
        self._numbers()
        self._name(uuid, names, tag, tags)
        self._check_order(uuid, names)
        counts = np.bincount(self.owner[self._is_tag], minlength=self._texts)
        return self._wrong, counts.astype(np.int64)

    def _blame(self, tokens: Numbers) -> None:
        """Mark the texts of these tokens as odd."""
        self._wrong[self.owner[tokens]] = True

    def _uuids(self) -> tuple[Numbers, list[bytes]]:
        """For each token that must be a UUID, its place in the list of UUIDs; 0 if it is none."""
        where = np.flatnonzero(self._is_uuid)
        begin = self._begin[where]
        fits = self._end[where] - begin == _UUID_BYTES
        # A UUID must be followed by an interval or a tag.
        alone = self._is_last[where] | self._is_uuid[np.minimum(where + 1, len(self.owner) - 1)]
        self._blame(where[~fits | alone])
        at = np.where(fits, begin, 0)[:, None] + np.arange(_UUID_BYTES)
        its = np.minimum(at, len(self._data) - 1)
        words = np.ascontiguousarray(self._data[its]).view("<u4")
        place = np.zeros(len(where), np.int64)
        names: list[bytes] = []
        left = np.flatnonzero(fits)
        while len(left):
            word = words[left[0]]
            same = (words[left] == word).all(axis=1)
            if _UUID.fullmatch(word.tobytes()) and len(names) < _MOST_SOURCES:
                place[left[same]] = len(names)
                names.append(word.tobytes())
            else:
                self._blame(where[left[same]])
            left = left[~same]
        return place, names

    def _tags(self) -> tuple[Numbers, list[bytes]]:
        """For each token that must be a tag, its place in the list of tags; 0 if it is none."""
        where = np.flatnonzero(self._is_tag)
        if not len(where):
            return where, []
        follows = self._is_last[where] | ~np.isin(where + 1, self.interval)
        self._blame(where[follows])
        data = self._data.tobytes()
        texts = [data[a:b] for a, b in zip(self._begin[where], self._end[where], strict=True)]
        names: dict[bytes, int] = {}
        place = np.zeros(len(where), np.int64)
        for number, text in enumerate(texts):
            if _TAG.fullmatch(text):
                place[number] = names.setdefault(text, len(names))
            else:
                self._wrong[self.owner[where[number]]] = True
        return place, list(names)

    def _numbers(self) -> None:
        """Parse the intervals."""
        its = self.interval
        begin, end = self._begin[its], self._end[its]
        dashes = np.flatnonzero(self._data == _DASH)
        before = np.searchsorted(dashes, begin)
        many = np.searchsorted(dashes, end) - before
        dash = np.append(dashes, 0)[before]
        spans = many == 1
        middle = np.where(spans, dash, end)
        self.low, good = self._number(begin, middle)
        high, also = self._number(middle + 1, end, spans)
        self.high = np.where(spans, high, self.low)
        bad = ~good | (spans & ~also) | (many > 1) | (self.low > self.high)
        self._blame(its[bad])

    def _number(
        self, begin: Numbers, end: Numbers, where: Flags | None = None
    ) -> tuple[Numbers, Flags]:
        """Parse numbers without leading zeros; returns them, and which are well-formed."""
        size = end - begin if where is None else np.where(where, end - begin, 0)
        good = (size >= 1) & (size <= _DIGITS)
        size = np.where(good, size, 0)
        value, unit = np.zeros(len(begin), np.int64), 1
        left = np.flatnonzero(good)
        good[left] &= self._data[begin[left]] != _ZERO
        back = 0
        while len(left):
            digit = self._data[end[left] - 1 - back].astype(np.int64) - _ZERO
            wrong = (digit < 0) | (digit > 9)
            good[left[wrong]] = False
            value[left] += digit * unit
            back, unit = back + 1, unit * 10
            left = left[size[left] > back]
        return value, good

    def _name(self, uuid: Numbers, names: list[bytes], tag: Numbers, tags: list[bytes]) -> None:
        """Set the source of each interval."""
        tokens = np.arange(len(self.owner))
        last = np.maximum.accumulate(np.where(self._is_uuid, tokens, 0))
        which = np.zeros(len(tokens), np.int64)
        which[self._is_uuid] = uuid
        of_uuid = which[last[self.interval]]
        if not tags:
            self.source, self.sources = of_uuid, [name.decode() for name in names]
            return
        last_tag = np.maximum.accumulate(np.where(self._is_uuid | self._is_tag, tokens, 0))
        which_tag = np.zeros(len(tokens), np.int64)
        which_tag[self._is_tag] = tag + 1
        of_tag = which_tag[last_tag[self.interval]]
        both, self.source = np.unique(of_uuid * (len(tags) + 1) + of_tag, return_inverse=True)
        self.sources = []
        for its in both:
            place, number = divmod(int(its), len(tags) + 1)
            suffix = f":{tags[number - 1].decode()}" if number else ""
            self.sources.append(f"{names[place].decode()}{suffix}")

    def _check_order(self, uuid: Numbers, names: list[bytes]) -> None:
        """Mark texts as odd unless UUIDs, tags of a UUID, and intervals of a tag are in order."""
        rank = np.argsort(np.argsort(names)) if names else np.zeros(1, np.int64)
        where = np.flatnonzero(self._is_uuid)
        same = self.owner[where[1:]] == self.owner[where[:-1]]
        falls = same & (rank[uuid[1:]] <= rank[uuid[:-1]])
        self._blame(where[1:][falls])
        place = np.argsort(np.argsort(self.sources)) if self.sources else np.zeros(1, np.int64)
        owner, source = self.owner[self.interval], place[self.source]
        same = owner[1:] == owner[:-1]
        falls = same & (source[1:] < source[:-1])
        again = same & (source[1:] == source[:-1]) & (self.low[1:] <= self.high[:-1])
        self._blame(self.interval[1:][falls | again])


def covered_by(sets: Sets, which: Numbers, source: int, low: Numbers, high: Numbers) -> Flags:
    """Whether each set holds an interval, within one interval of its own.

    Args:
        sets: the sets.
        which: for each interval, the number of the set that must hold it.
        source: the place of the intervals' source in `sets.sources`; negative if it is not there.
        low: the first number of each interval.
        high: the last number of each interval.
    """
    found = np.zeros(len(which), bool)
    if source < 0:
        return found
    for rows, at in ragged(sets.begins, which):
        fits = (sets.low[at] <= low[rows]) & (high[rows] <= sets.high[at])
        fits &= sets.source[at] == source
        found[rows[fits]] = True
    return found

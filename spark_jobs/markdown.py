"""Formats numbers, times, texts and tables for Markdown."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BRIEF: Final = 200
_FILES: Final = 20
_SPECIAL: Final = re.compile(r"[\\`*\[\]<>|]")
_NUMBER: Final = re.compile(r"-?[0-9][0-9,.]*(%| µs| ms| s)?")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Make a table; columns that hold only numbers are aligned to the right."""
    body = [[_cell(value) for value in row] for row in rows]
    right = [all(_NUMBER.fullmatch(row[place]) for row in body) for place in range(len(heads))]
    rule = ["---:" if is_right else "---" for is_right in right]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in ([*heads], rule, *body))


def counted(number: int, noun: str) -> str:
    """``1 read``, ``1,234 reads``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def named(files: Sequence[str]) -> str:
    """The first few files of a list, and how many more there are."""
    more = f", and {len(files) - _FILES:,} more" if len(files) > _FILES else ""
    return ", ".join(map(code, files[:_FILES])) + more


def explained(files: Mapping[str, str]) -> str:
    """The first few files, each with a reason, and how many more there are."""
    more = f", and {len(files) - _FILES:,} more" if len(files) > _FILES else ""
    first = islice(files.items(), _FILES)
    return ", ".join(f"{code(file)} ({why})" for file, why in first) + more


def moment(microseconds: int) -> str:
    """Format UTC microseconds since the epoch as a date and a time."""
    return f"{_EPOCH + timedelta(microseconds=microseconds):%Y-%m-%d %H:%M:%S.%f}"


def span(microseconds: int) -> str:
    """Format a length of time in a suitable unit, to three digits."""
    if abs(microseconds) < 1_000:
        return f"{microseconds} µs"
    value, unit = microseconds / 1_000, "ms"
    if abs(value) >= 999.5:
        value, unit = value / 1_000, "s"
    digits = f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:#.3g}".rstrip(".")
    return f"{digits} {unit}"


def brief(text: str) -> str:
    """Cut a long text short."""
    return text if len(text) <= _BRIEF else f"{text[:_BRIEF]}…"


def plain(text: str) -> str:
    """A text from a log on one line, in which control and direction characters are escaped."""
    return "".join(map(_spelled, text))


def escaped(text: str) -> str:
    """A text from a log as part of a line of Markdown, without any markup."""
    return _SPECIAL.sub(r"\\\g<0>", plain(text))


def code(text: str) -> str:
    """A text from a log as a code span, in which nothing can be escaped."""
    told = plain(text)
    if "`" not in told:
        return f"`{told}`"
    fence = "`" * (1 + max(map(len, re.findall("`+", told))))
    return f"{fence} {told} {fence}"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else escaped(str(value))


def _spelled(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp"):
        return character.encode("unicode_escape").decode("ascii")
    return character

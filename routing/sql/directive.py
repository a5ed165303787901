"""The comment to Tidegate with which a text may begin: settings for this one statement."""

import re
from typing import Final

from routing.consistency.adjustment import (
    NO_ADJUSTMENT,
    SETTINGS,
    Adjustment,
    SettingError,
    read_setting,
)
from routing.sql.tidegate_statement import LONGEST, WrongOwn, advice

# Anything that looks like a setting counts as one, perhaps a wrong one: an error is better than
# silence.
_COMMENT: Final = re.compile(
    rb"[\t-\r ]*+/\*[\t-\r ]*+tidegate(?![a-z0-9-])((?:[^*]++|\*(?!/))*+)\*/", re.IGNORECASE
)
_ITEM: Final = re.compile(
    r"""\s*+([^\s=]++)\s*+=\s*+(?:'((?:[^']|'')*+)'|"((?:[^"]|"")*+)"|([^\s'"=,;]++))(?!\S)""",
    re.ASCII,
)


def directive_comment(sql: bytes) -> bytes:
    """The text up to the end of the comment to Tidegate that it begins with; mostly empty."""
    match = _COMMENT.match(sql)
    return b"" if match is None else match[0]


def directive(sql: bytes) -> Adjustment | WrongOwn | None:
    """Read the comment `/* tidegate name=value name='value' … */` with which a text may begin.

    Returns:
        None if it begins with no such comment, or with one that asks for nothing.
    """
    match = _COMMENT.match(sql)
    if match is None:
        return None
    try:
        body = match[1].decode().rstrip()
    except UnicodeDecodeError:
        return _wrong("it is not UTF-8")
    adjustment = NO_ADJUSTMENT
    position = 0
    while position < len(body):
        item = _ITEM.match(body, position)
        if item is None:
            return _wrong("want name=value, with quotes where the value has blanks")
        position = item.end()
        name = item[1].lower()
        if name not in SETTINGS:
            return _wrong(f"no setting {item[1][:LONGEST]}; {advice(name, SETTINGS)}")
        try:
            adjustment = adjustment.and_then(read_setting(name, _value(item)))
        except SettingError as error:
            return _wrong(f"{name}: {error}")
    return None if adjustment == NO_ADJUSTMENT else adjustment


def _value(item: re.Match[str]) -> str:
    if item[2] is not None:
        return item[2].replace("''", "'")
    return item[4] if item[3] is None else item[3].replace('""', '"')


def _wrong(problem: str) -> WrongOwn:
    return WrongOwn(f"in the comment to Tidegate: {problem}")

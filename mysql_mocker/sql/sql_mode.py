"""sql_mode: its modes as words and as bits."""

from typing import Final

from mysql_mocker.error import wrong_value
from mysql_mocker.sql.value import Value

MODES: Final = (
    "REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "", "ONLY_FULL_GROUP_BY",
    "NO_UNSIGNED_SUBTRACTION", "NO_DIR_IN_CREATE", "", "", "", "", "", "", "", "", "", "", "ANSI",
    "NO_AUTO_VALUE_ON_ZERO", "NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES",
    "NO_ZERO_IN_DATE", "NO_ZERO_DATE", "ALLOW_INVALID_DATES", "ERROR_FOR_DIVISION_BY_ZERO",
    "TRADITIONAL", "", "HIGH_NOT_PRECEDENCE", "NO_ENGINE_SUBSTITUTION",
    "PAD_CHAR_TO_FULL_LENGTH", "TIME_TRUNCATE_FRACTIONAL",
)  # fmt: skip
"""By the number of their bit, as a number for sql_mode and a binary log have them."""

_COMBINED: Final[dict[str, tuple[str, ...]]] = {
    "ANSI": ("REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE",
             "ONLY_FULL_GROUP_BY"),
    "TRADITIONAL": ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "NO_ZERO_IN_DATE", "NO_ZERO_DATE",
                    "ERROR_FOR_DIVISION_BY_ZERO", "NO_ENGINE_SUBSTITUTION"),
}  # fmt: skip


def stored(value: Value) -> str:
    """A value for sql_mode as the server stores it.

    Raises:
        MySQLError: 1231.
    """
    if isinstance(value, int):
        chosen = {name for bit, name in enumerate(MODES) if value >> bit & 1}
        if value >> len(MODES) or value < 0 or "" in chosen:
            raise wrong_value("sql_mode", value)
    else:
        chosen = set()
        for word in str(value).split(","):
            if word and word.upper() not in MODES:
                raise wrong_value("sql_mode", value if value is None else word)
            chosen.add(word.upper())
    for name, parts in _COMBINED.items():
        chosen.update(parts if name in chosen else ())
    return ",".join(name for name in MODES if name and name in chosen)


def bits(modes: str) -> int:
    """The number that stands for a stored sql_mode, as a binary log has it."""
    chosen = modes.split(",")
    return sum((mode in chosen) << bit for bit, mode in enumerate(MODES) if mode)


def mixes_strictness(mode: str) -> bool:
    """Whether a sql_mode has only a part of strict mode and its modes; the server warns of that."""
    words = set(mode.split(","))
    strict = bool(words & {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"})
    dated = len(words & {"NO_ZERO_DATE", "NO_ZERO_IN_DATE", "ERROR_FOR_DIVISION_BY_ZERO"})
    return dated != 3 * strict

"""Values as TOML writes them."""

import json
import re
from collections.abc import Iterable
from typing import Final, cast

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_UNPRINTABLE: Final = re.compile("[\x7f\ud800-\udfff]")


def written(value: object) -> str:
    """Write a number, a list, or anything else as a string.

    JSON's forms are valid TOML, except for DEL and surrogates in strings.
    """
    if isinstance(value, list | tuple):
        return "[" + ", ".join(written(item) for item in cast("Iterable[object]", value)) + "]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    text = json.dumps(str(value), ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def header(kind: str, name: str) -> str:
    """Write the line that begins a table, ``[kind.name]``."""
    return f"[{kind}.{name if _BARE_KEY.fullmatch(name) else written(name)}]"

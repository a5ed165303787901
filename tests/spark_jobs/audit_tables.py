"""The audit's tables as `docs/audit-tables.md` describes them."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PAGE: Final = Path(__file__).parents[2] / "docs" / "audit-tables.md"
_NAME: Final = re.compile("`([^`]+)`")
_TYPES: Final = {
    "bigint": "integer",
    "string": "text",
    "double": "fraction",
    "boolean": "flag",
    "timestamp": "timestamp",
}

_IN_SENTENCES: Final = {
    "unreported": {
        "gtid": "text",
        "original_at": "timestamp",
        "file": "text",
        "position": "integer",
    },
    "contradicted": {
        **dict.fromkeys(("proxy", "run", "server", "gtid", "file"), "text"),
        **dict.fromkeys(("worker", "seq", "session", "position", "claims"), "integer"),
        **dict.fromkeys(("claimed_at", "applied_at", "stamp_at"), "timestamp"),
    },
    "dependent": {
        **dict.fromkeys(("proxy", "run", "server", "why", "table", "gtid", "file"), "text"),
        **dict.fromkeys(("worker", "seq", "session", "position"), "integer"),
        "arrived_at": "timestamp",
    },
}
"""Tables whose columns the page names in a sentence."""


def documented(table: str) -> dict[str, str]:
    """The columns of a table with their types; {} if the page does not have the table."""
    if table in _IN_SENTENCES:
        return _IN_SENTENCES[table]
    for section in re.split("^###? ", _PAGE.read_text("utf-8"), flags=re.M)[1:]:
        title, _, text = section.partition("\n")
        if table not in _NAME.findall(title):
            continue
        found: dict[str, str] = {}
        for line in text.splitlines():
            cells = line.split(" | ")
            if line.startswith("| `") and not _is_of_another(cells[2], title, table):
                found |= dict.fromkeys(_NAME.findall(cells[0]), cells[1])
        return found
    return {}


def _is_of_another(meaning: str, title: str, table: str) -> bool:
    """Whether a column is said to be only in another table of the section."""
    others = [name for name in _NAME.findall(title) if name != table]
    return any(f"only in `{other}`" in meaning for other in others)


def columns(table: "DataFrame") -> dict[str, str]:
    """The columns of a table with their types, in the words of the page."""
    return {
        name: "array" if kind.startswith("array") else _TYPES[kind] for name, kind in table.dtypes
    }

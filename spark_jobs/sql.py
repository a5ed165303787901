"""Writes expressions of SQL as text.

An expression that is put together from Python takes several calls of Java for each of its parts; a
text takes few, however long it is. All values from outside go through `literal`.
"""

from collections.abc import Iterable


def literal(value: str) -> str:
    """A literal for a text; Spark would put the value of a variable in the place of ``${…}``."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"


def among(value: str, texts: Iterable[str]) -> str:
    """Whether a value is one of some texts; false if there are none."""
    listed = ", ".join(map(literal, texts))
    return f"({value} in ({listed}))" if listed else "false"


def all_of(conditions: Iterable[str]) -> str:
    """Whether all conditions hold."""
    return f"({' and '.join(conditions) or 'true'})"


def any_of(conditions: Iterable[str]) -> str:
    """Whether some condition holds."""
    return f"({' or '.join(conditions) or 'false'})"

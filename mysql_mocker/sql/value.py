"""The values that the engine knows, and how the text protocol writes them."""

from collections.abc import Sequence

Value = int | float | str | bytes | None
"""A value as SQLite stores it."""

Row = Sequence[Value]


def to_text(value: Value) -> bytes | None:
    """A value of a text row; None is NULL."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value
    if isinstance(value, float):
        return float_text(value).encode()
    return str(value).encode("utf-8", "surrogateescape")


def float_text(value: float) -> str:
    """A DOUBLE as the server prints it: no ``.0``, no ``+`` in the exponent."""
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return repr(value).replace("e+", "e")

"""Paths and URIs of files, as Spark takes and names them."""

import re
from collections.abc import Iterable
from typing import Final

_SCHEME: Final = re.compile("^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")


def escape(paths: Iterable[object]) -> list[str]:
    """Escape paths for Spark: Hadoop takes some characters for patterns.

    Raises:
        OSError: Hadoop cannot read a path, since it takes the part of a pattern that comes before a
            colon for a scheme; the message names the path.
    """
    return [_escape(str(path)) for path in paths]


def _escape(path: str) -> str:
    rest = without_scheme(path)
    escaped = re.sub(r"([\\{}\[\]*?])", r"\\\1", rest)
    if escaped != rest and ":" in rest:
        raise OSError(
            f"Spark cannot read {path}, which has a colon and one of {{}}[]*?\\ in its name: use a "
            "link of another name"
        )
    return path.removesuffix(rest) + escaped


def without_scheme(path: str) -> str:
    """The path of a URI; a path without a scheme as it is."""
    return _SCHEME.sub("", path)

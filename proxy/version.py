"""The version of Tidegate; a test compares it with pyproject.toml."""

import platform
from typing import Final

from protocol import compiled

VERSION: Final = "0.1.0"


def description() -> str:
    """One line for people: the version and what runs."""
    form = "compiled" if compiled() else "not compiled"
    return f"tidegate {VERSION} ({form}, Python {platform.python_version()})"

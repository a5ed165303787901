"""Chooses between a module's two forms: compiled by mypyc, if that exists, or plain Python.

Python prefers an extension module to the source beside it. `TIDEGATE_PURE=1` in the environment
reverses that for this project's packages. The choice must be made before the first of their modules
is loaded, so each package imports this file in its first line. No other code below `proxy/` reads
the environment.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType

_ABOVE = __name__.removesuffix("protocol._implementation")  # "tidegate." in a wheel
_PACKAGES = tuple(f"{_ABOVE}{name}." for name in ("protocol", "routing", "proxy"))


class _SourceFinder:
    """A finder in `sys.meta_path` that sees sources only."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of this project; leave every other to the finders behind this one."""
        if path is not None and name.startswith(_PACKAGES):
            for folder in path:
                finder = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
                if spec := finder.find_spec(name, target):
                    return spec
        return None


def compiled() -> bool:
    """Whether the compiled modules run in this process."""
    spec = find_spec(f"{_ABOVE}protocol.wire")
    return spec is not None and not str(spec.origin).endswith(".py")


if os.environ.get("TIDEGATE_PURE", "0") not in ("", "0"):
    sys.meta_path.insert(0, _SourceFinder)

"""All options, in the order in which they are shown.

`OPTIONS` is the only list of options. The command line, the file, the effective configuration that
``tidegate check`` prints and a test of ``docs/configuration.md`` are made from it.
"""

import difflib
from collections.abc import Iterable
from typing import Final

from proxy.config import (
    client_options,
    guarantee_options,
    operation_options,
    server_options,
    topology_options,
)
from proxy.config.option import Option

OPTIONS: Final[tuple[Option, ...]] = (
    *topology_options.OPTIONS,
    *guarantee_options.OPTIONS,
    *client_options.OPTIONS,
    *server_options.OPTIONS,
    *operation_options.OPTIONS,
)

BY_NAME: Final = {option.name: option for option in OPTIONS}


def did_you_mean(name: str, prefix: str = "", others: Iterable[str] = ()) -> str:
    """A clause that names the known name nearest to `name`, or all known names if none is near.

    Args:
        name: the unknown name.
        prefix: is put before each name.
        others: known names that are not options.
    """
    known = [*BY_NAME, *others]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {prefix}{near[0]}?"
    return f"; known are {', '.join(prefix + name for name in known)}"

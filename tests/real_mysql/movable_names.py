"""`tidegate` with a resolver that a test moves: a file in place of the network's names.

For tests only; it is run like ``proxy.cli``, as a module. The file, which the environment variable
TIDEGATE_TEST_NAMES names, has lines like those of /etc/hosts: an address, and a name. A name may
have several lines. Of several addresses in one line, with commas, each answer has the next one. A
name that the file lacks cannot be resolved; one with the address ``hang`` has no answer, ever.
"""

import os
import socket
import sys
import time
from itertools import count
from pathlib import Path

from proxy.cli import main

_resolve = socket.getaddrinfo
_turns = count()


def addresses(host: str) -> list[str]:
    """What the file says of a name."""
    lines = Path(os.environ["TIDEGATE_TEST_NAMES"]).read_text().splitlines()
    found = [address.split(",") for address, name in map(str.split, lines) if name == host]
    turn = next(_turns)
    return [in_turn[turn % len(in_turn)] for in_turn in found]


def getaddrinfo(host: object, *arguments: object, **more: object) -> object:
    """As `socket.getaddrinfo`, but for names of the domain ``test``."""
    if not isinstance(host, str) or not host.endswith(".test"):
        return _resolve(host, *arguments, **more)  # type: ignore[arg-type]
    found = addresses(host)
    while found == ["hang"]:
        time.sleep(3600)
    if not found:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [entry for address in found for entry in _resolve(address, *arguments, **more)]  # type: ignore[arg-type]


if __name__ == "__main__":
    socket.getaddrinfo = getaddrinfo  # type: ignore[assignment]
    sys.exit(main())

"""What an account's REQUIRE clause asks of its client's connection.

The primary sees the proxy's TLS in place of the client's, so it cannot enforce the clause itself.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

SHOW: Final = b"SHOW CREATE USER CURRENT_USER()"
"""Every account may ask this about itself; for a proxy user it shows the proxied account, whose
clause a server enforces, too."""
_CLAUSE: Final = re.compile(rb" REQUIRE (NONE|SSL|X509|SUBJECT|ISSUER|CIPHER)\b")
_LIMIT: Final = re.compile(rb" MAX_[A-Z_]+ [0-9]")


class Requirement(Enum):
    """What the client's connection must be."""

    NOTHING = "nothing"
    TLS = "TLS"
    CERTIFICATE = "a certificate, or a certain cipher"
    """Which no client can show to the server through a proxy."""


def read_requirement(text: bytes) -> Requirement:
    """Read it from the answer to SHOW CREATE USER.

    Names, the password's hash and a comment may hold anything, under ANSI_QUOTES and
    NO_BACKSLASH_ESCAPES in other quotes. So anything that looks like a clause counts, and the
    strictest wins; where nothing does, TLS is required.
    """
    found = set(_CLAUSE.findall(text))
    if found == {b"NONE"}:
        return Requirement.NOTHING
    return Requirement.TLS if found <= {b"NONE", b"SSL"} else Requirement.CERTIFICATE


def is_limited(text: bytes) -> bool:
    """Whether the account's connections, or its actions per hour, are limited.

    A name, a hash or a comment that looks like a limit counts as one.
    """
    return _LIMIT.search(text) is not None

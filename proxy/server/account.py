"""What an account's REQUIRE clause asks of its client's connection.

The primary sees the proxy's TLS in place of the client's, so it cannot hold the clause itself.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final

from proxy.server.errors import ServerRefusedError
from proxy.server.query import answer, query

if TYPE_CHECKING:
    from proxy.channel import PacketChannel
    from proxy.server.connection import ServerConnection

SHOW: Final = b"SHOW CREATE USER CURRENT_USER()"
"""Everybody may ask it of the own account; of a proxy user's it is the proxied one, whose clause a
server holds, too."""
_COMMIT: Final = b"COMMIT AND NO CHAIN NO RELEASE"
_CLAUSE: Final = re.compile(rb" REQUIRE (NONE|SSL|X509|SUBJECT|ISSUER|CIPHER)\b")
_NO_ACCOUNTS: Final = 1290
"""ER_OPTION_PREVENTS_STATEMENT: the server runs without accounts (--skip-grant-tables)."""
_IN_TRANS: Final = 0x0001


class Requirement(Enum):
    """What the client's connection must be."""

    NOTHING = "nothing"
    TLS = "TLS"
    CERTIFICATE = "a certificate, or a certain cipher"
    """Which no client can show to the server through a proxy."""


def read_requirement(text: bytes) -> Requirement:
    """Read it off the answer to SHOW CREATE USER.

    Names, the password's hash and a comment may hold anything, under ANSI_QUOTES and
    NO_BACKSLASH_ESCAPES in other quotes. So whatever looks like a clause counts, the strictest
    most; and where nothing does, TLS is required.
    """
    found = set(_CLAUSE.findall(text))
    if found == {b"NONE"}:
        return Requirement.NOTHING
    return Requirement.TLS if found <= {b"NONE", b"SSL"} else Requirement.CERTIFICATE


async def requirement_of(channel: PacketChannel, connection: ServerConnection) -> Requirement:
    """Learn what a server requires of the account that has logged in; it was asked to `SHOW` it.

    Raises:
        ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
    """
    try:
        row = await answer(channel, connection)
    except ServerRefusedError as error:
        if error.error.code == _NO_ACCOUNTS:
            return Requirement.NOTHING
        raise
    if connection.stream.status & _IN_TRANS:
        # Without autocommit it began a transaction, which would hold a lock on the accounts.
        await query(channel, connection, _COMMIT)
    return read_requirement(row[0] or b"" if row else b"")

"""Connection attributes of Tidegate's own: who is behind a connection, for who looks at a server.

A server shows them in performance_schema.session_connect_attrs. It has room for
performance_schema_session_connect_attrs_size bytes and drops whole attributes beyond it, and it
refuses a login with more than 64 KiB of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from protocol.handshake import serialise_attributes
from protocol.wire import Reader
from proxy.address import peer_name
from proxy.version import VERSION

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

CLIENT: Final = "tidegate_client"
SESSION: Final = "tidegate_session"
VERSION_OF: Final = "tidegate_version"
OWN: Final = (CLIENT, SESSION, VERSION_OF)
"""Names; no setting of Tidegate's begins so, since those have a dot."""

_ODD: Final = re.compile(r"[^A-Za-z0-9_.:/%\[\] -]", re.ASCII)
"""What stands in no address and in no name of a session."""

ROOM: Final = 512
"""Bytes that a server keeps unless it was told otherwise."""


def of_session(transport: asyncio.Transport, proxy_name: str, session_id: int) -> Mapping[str, str]:
    """What the connections of a session say of it."""
    return {CLIENT: peer_name(transport), SESSION: f"{proxy_name}/{session_id}"}


def told(own: Mapping[str, str]) -> bytes:
    """What tells the same of a session whose connection was lent: attributes stay as they were."""
    values = [f"@{name}=_latin1'{_ODD.sub('?', text)}'" for name, text in own.items()]
    return ("SET " + ",".join(values)).encode("ascii")


def joined(theirs: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """A client's attributes and behind them Tidegate's, as far as there is room.

    What a server shows of the client's is what it would show without Tidegate; what clients give
    themselves under names of Tidegate's is left out.
    """
    found = {name: value for name, value in theirs.items() if name not in OWN}
    size = _size(found)
    for name, value in {**own, VERSION_OF: VERSION}.items():
        longer = size + _size({name: value})
        if longer <= ROOM:
            found[name] = value
            size = longer
    return found


def _size(attributes: Mapping[str, str]) -> int:
    """Bytes of the names and values with their lengths."""
    return Reader(serialise_attributes(attributes)).lenenc_int()

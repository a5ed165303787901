"""Tidegate's own connection attributes: they show a server's operator whom a connection is for.

A server shows them in performance_schema.session_connect_attrs. It has room for
performance_schema_session_connect_attrs_size bytes and drops whole attributes beyond it, and it
refuses a login with more than 64 KiB of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from protocol.handshake import serialise_attributes
from protocol.wire import Reader
from proxy.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT: Final = "tidegate_client"
SESSION: Final = "tidegate_session"
VERSION_OF: Final = "tidegate_version"
OWN: Final = (CLIENT, SESSION, VERSION_OF)
"""Names; no setting of Tidegate's begins so, since those have a dot."""

_ODD: Final = re.compile(r"[^A-Za-z0-9_.:/%\[\] -]", re.ASCII)
"""Characters that no address and no name of a session has."""

ROOM: Final = 512
"""Bytes that a server keeps by default."""


def of_session(peer: str, proxy_name: str, session_id: int) -> Mapping[str, str]:
    """The attributes of a session's connections; `peer` is its client's address."""
    return {CLIENT: peer, SESSION: f"{proxy_name}/{session_id}"}


def assignment(own: Mapping[str, str]) -> bytes:
    """Says the same for a session with a lent connection, whose attributes cannot change."""
    values = [f"@{name}=_latin1'{_ODD.sub('?', text)}'" for name, text in own.items()]
    return ("SET " + ",".join(values)).encode("ascii")


def join(theirs: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
    """A client's attributes and after them Tidegate's, as far as there is room.

    A server shows as many of the client's as it would without Tidegate; attributes that clients
    send under Tidegate's names are left out.
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

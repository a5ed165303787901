"""Who logs in to a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability

if TYPE_CHECKING:
    from collections.abc import Mapping

NONE: Final = Capability(0)


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in, and with what.

    Attributes:
        username: as the client gave it.
        password: in clear; kept only in memory.
        capabilities: what the client negotiated, as far as it concerns statements.
        character_set: collation id of the handshake.
        database: default schema, or None.
        attributes: the client's connection attributes.
        own_attributes: Tidegate's own of the session, which every connection adds.
    """

    username: str
    password: bytes = field(repr=False)
    capabilities: Capability = NONE
    character_set: int = 255
    database: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    own_attributes: Mapping[str, str] = field(default_factory=dict)

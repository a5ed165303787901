"""The address of a server, a listener or a client: of TCP, or a Unix socket."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address, or a Unix socket: then the host is its absolute path, and the port 0.

    An IPv6 host is kept without its brackets.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, *, default_host: str, default_port: int | None) -> Self:
        """Read ``HOST:PORT``, ``HOST``, ``:PORT``, ``[IPV6]:PORT`` or ``[IPV6]``.

        Raises:
            ValueError: it is none of these; the message says what is allowed.
        """
        match = _ADDRESS.fullmatch(text.strip())
        if match is None:
            raise ValueError('want HOST:PORT, such as "db1.example:3306" or "[::1]:3306"')
        host = match["ipv6"] or match["host"] or default_host
        try:
            host.encode("idna")  # as every use of the name does
        except UnicodeError:
            raise ValueError(
                "want a host whose names between the dots have 1 to 63 characters"
            ) from None
        if match["port"] is None and default_port is None:
            raise ValueError("the port is missing: want HOST:PORT")
        port = default_port if match["port"] is None else int(match["port"])
        if port is None or port > 65535:
            raise ValueError("want a port of at most 65535")
        return cls(host.lower(), port)

    def __str__(self) -> str:
        if self.host.startswith("/"):
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def peer_name(transport: asyncio.Transport | None) -> str:
    """The address of a connection's peer."""
    peer = None if transport is None else transport.get_extra_info("peername")
    return str(Address(peer[0], peer[1])) if isinstance(peer, tuple) else "unknown"


def host_of(peer: str) -> str:
    """The host of a peer, ``HOST:PORT`` or `LOCALHOST`; an IPv6 address without its brackets."""
    host, _, port = peer.rpartition(":")
    return host.strip("[]") if host else port


LOCALHOST: Final = "localhost"
"""How MySQL names the host of a client at a Unix socket."""

_ADDRESS: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?)\]|(?P<host>[\w.-]*))"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)

"""TLS to servers: one context for each, which resumes the session of an earlier connection there.

A resumed handshake shows no certificate, and costs the server no signature. The handshake that made
the session vouches for the server. So a session belongs to one server, under one configuration; it
is taken only from full handshakes, and used for a limited time. A server that was restarted, or has
reloaded its certificate, knows no earlier sessions, and shows its certificate within the same
handshake (docs/mysql-behaviour.md, *Logins*).
"""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_AGE_S: Final = 300.0
"""How long a checked certificate vouches for sessions: as long as servers keep them by default
(ssl_session_cache_timeout)."""


class ServerContext(ssl.SSLContext):
    """The TLS of all connections to one server."""

    _session: ssl.SSLSession | None = None
    _made_at = 0.0

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin a connection, as asyncio's transports do; it resumes a session if there is one."""
        if session is None and time.monotonic() - self._made_at <= MAX_AGE_S:
            session = self._session
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def on_login(self, connection: object) -> None:
        """Take the session of a connection that has been read from, for later connections.

        Args:
            connection: the transport's `ssl_object`.
        """
        if isinstance(connection, ssl.SSLObject) and not connection.session_reused:
            # A TLS 1.3 server sends its tickets after the handshake.
            self._session = connection.session
            self._made_at = time.monotonic()

    def forget(self) -> None:
        """A handshake failed: the next one is a full one, whatever the cause was."""
        self._session = None


class ServerContexts:
    """The TLS contexts of a worker, by server."""

    def __init__(self, make: Callable[[], ServerContext]) -> None:
        """`make` makes one, or raises a ConfigError for a file that cannot be used."""
        self._make = make
        self._contexts: dict[str, ServerContext] = {}

    def to(self, server: str) -> ServerContext:
        """The one for a server by its name, ``host:port``.

        Raises:
            ConfigError: no temporary file can be written for what OpenSSL is to read.
        """
        context = self._contexts.get(server)
        if context is None:
            context = self._contexts[server] = self._make()
        return context

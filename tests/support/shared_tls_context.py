"""PyMySQL's connections share a TLS context.

Each would make one of its own, for which it reads all certificates that the machine trusts: 20 ms
of a connection's 25, though it verifies nothing unless a test says with which certificates.
"""

import ssl
from typing import Any

from pymysql.connections import Connection


def install() -> None:
    """Let all connections that are made from now on share it."""
    kind: Any = Connection  # whose private method no stub knows
    create = kind._create_ssl_ctx
    shared: ssl.SSLContext = create(None, {})
    kind._create_ssl_ctx = lambda connection, options: (
        create(connection, options) if options else shared
    )

"""Where servers of the mocker listen, and how."""

import ssl
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens; of a cluster, where its primary does.

    Attributes:
        port: 0 for any that is free. The replicas of a cluster have the ports above the primary's.
        host: the address to listen on.
        ssl_context: lets clients use TLS.
    """

    port: int = 0
    host: str = "127.0.0.1"
    ssl_context: ssl.SSLContext | None = None

    def of_replica(self, number: int) -> "Listening":
        """Where a cluster's replica listens; the first has the number 1."""
        return Listening(self.port and self.port + number, self.host, self.ssl_context)


ANYWHERE: Final = Listening()

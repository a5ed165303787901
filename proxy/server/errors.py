"""Why a server cannot be used."""

from protocol.response import ErrPacket


class ServerUnreachableError(Exception):
    """No connection to the server could be made, or it broke."""


class PacketLimitLoweredError(ServerUnreachableError):
    """A packet was larger than it now takes: its max_allowed_packet was lowered meanwhile."""


class ServerRefusedError(Exception):
    """The server answered a login, or a statement of the proxy's own, with an error.

    Attributes:
        error: its ERR packet.
    """

    def __init__(self, error: ErrPacket) -> None:
        super().__init__(str(error))
        self.error = error


class ServerFullError(ServerRefusedError):
    """Tidegate may have no more connections to the server, and none became free in time."""

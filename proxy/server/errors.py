"""Why a server cannot be used."""

from protocol.response import ErrPacket
from proxy import open_files
from proxy.error_text import error_text


class ServerUnreachableError(Exception):
    """No connection to the server could be made, or it broke."""


class NoDescriptorError(ServerUnreachableError):
    """This process can open no connection now (`proxy.open_files`); the server may well be up."""


class NoPrimaryError(ServerUnreachableError):
    """A session wants a connection to the primary, and there is no primary now."""


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


def unreachable(error: Exception) -> ServerUnreachableError:
    """What is raised where this error has ended an attempt to use a server."""
    if open_files.is_exhausted(error):
        open_files.report(error)
        return NoDescriptorError(error_text(error))
    return ServerUnreachableError(error_text(error))

"""Buffers that all connections of a thread, which has one event loop, use one after another.

Each is filled and emptied within one callback, so none has to belong to a connection: thousands of
connections that are idle hold none.
"""

import ssl
import threading
from typing import Final

CHUNK: Final = 1 << 14


class ThreadBuffers(threading.local):
    """The buffers of the thread that looks at them.

    Attributes:
        chunk: takes what a transport reads for a `proxy.channel.PacketChannel`.
        incoming: encrypted bytes on their way to OpenSSL (`proxy.tls.transport`).
        outgoing: encrypted bytes that come from it.
    """

    def __init__(self) -> None:
        self.chunk = bytearray(CHUNK)
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()


BUFFERS: Final = ThreadBuffers()

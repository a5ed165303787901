"""A small threaded HTTP server for a WSGI application, which no client can block.

Each connection carries one request. Its head is read here, within limits of time and size, before
anything parses it, and the answer is sent as soon as it is ready. So silence, slowness and resets
close a connection without a message, and the parser never waits for more input.
"""

import errno
import io
import logging
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from proxy import open_files
from proxy.address import Address

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

_log = logging.getLogger(__name__)

_REQUEST_S: Final = 5.0
"""Time within which a request's head must have arrived."""
_ANSWER_S: Final = 10.0
"""Time within which its answer must have been read."""
_LONGEST_HEAD: Final = 16 << 10
"""Limit of request line and headers, bytes."""
_CONNECTIONS: Final = 32
"""Most open connections. A further one replaces the one whose request has been awaited longest."""
_REST_S: Final = 1.0
"""How long it pauses if no more files can be opened."""
_RESERVE: Final = 4
"""Descriptors in reserve. Another thread may take one that was closed for a connection."""
_LACKING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What `accept` fails with then."""

_TOO_LARGE: Final = (
    f"HTTP/1.0 {HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE.value}"
    f" {HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE.phrase}\r\n\r\n".encode()
)


class HttpServer(ThreadingMixIn, WSGIServer):
    """Serves `application` at one address; `serve_forever` runs until `shutdown`.

    It answers where no descriptor is left, too: some are kept in reserve, further ones of the
    listening socket. One is closed for a connection to be accepted, and whichever connection ends
    next becomes a reserve, in one step, since other threads take what is free at once.

    Raises:
        OSError: the address cannot be used.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        address: Address,
        application: "WSGIApplication",
        listening: socket.socket | None = None,
    ) -> None:
        """`listening` is a socket that is bound there already, if there is one."""
        self.address_family, *_ = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self._lock = threading.Lock()
        self._requested: dict[Any, bool] = {}
        """Connections, oldest first, and whether their request is there."""
        self._reserve: list[int] = []
        self._closed = False
        self._descriptor_freed = threading.Event()
        where = address.host, address.port
        super().__init__(where, _Handler, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = listening
            self.socket.settimeout(None)
            self.socket.listen(self.request_queue_size)
            self._name()
        self.service_actions()
        self.set_app(application)

    def answering(self) -> int:
        """How many requests are being answered."""
        with self._lock:
            return sum(self._requested.values())

    def has_request(self, connection: socket.socket) -> None:
        """Note that a connection's request has arrived; from then on it is not replaced."""
        with self._lock:
            if connection in self._requested:
                self._requested[connection] = True

    def server_bind(self) -> None:
        """Bind; `HTTPServer` would ask the resolver for this machine's name."""
        TCPServer.server_bind(self)
        self._name()

    def _name(self) -> None:
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection, with the reserve if no other descriptor is left."""
        self._descriptor_freed.clear()
        try:
            return super().get_request()
        except OSError as error:
            if error.errno not in _LACKING:
                raise
            lacking = error
        if open_files.is_exhausted(lacking):
            open_files.report(lacking)
        if self._give_reserve():
            with suppress(OSError):  # another thread took the descriptor
                return super().get_request()
        self._descriptor_freed.wait(_REST_S)  # else the loop would try again at once, without end
        raise lacking

    def _give_reserve(self) -> bool:
        """Close a reserve for one connection; False, and room is made, where none is left."""
        with self._lock:
            if not self._reserve:
                self._make_room()
                return False
            os.close(self._reserve.pop())
        return True

    def service_actions(self) -> None:
        """Have all reserves again, if that is possible; called twice a second."""
        with self._lock, suppress(OSError):
            while len(self._reserve) < _RESERVE:
                self._reserve.append(os.dup(self.fileno()))

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 the base's
        """Serve a connection in a thread of its own, if there is room for it."""
        with self._lock:
            if len(self._requested) >= _CONNECTIONS:
                self._make_room()
            there_is_room = len(self._requested) < _CONNECTIONS
            if there_is_room:
                self._requested[request] = False
        if there_is_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _make_room(self) -> None:
        """Close the oldest connection without a request, if there is one; its thread wakes up."""
        for connection, requested in self._requested.items():
            if not requested:
                del self._requested[connection]
                with suppress(OSError):  # its client has closed it already
                    connection.shutdown(socket.SHUT_RDWR)
                return

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 the base's
        """Close a connection."""
        with self._lock:
            self._requested.pop(request, None)
        super().shutdown_request(request)

    def close_request(self, request: Any) -> None:  # noqa: ANN401 the base's
        """Close a connection, or let its descriptor become a reserve."""
        with self._lock:
            lacking = len(self._reserve) < _RESERVE and not self._closed
            if lacking and request.fileno() >= 0:
                descriptor = request.detach()
                os.dup2(self.fileno(), descriptor, inheritable=False)  # closes the connection
                self._reserve.append(descriptor)
        request.close()
        self._descriptor_freed.set()

    def server_close(self) -> None:
        """Close the port."""
        with self._lock:
            self._closed = True
            while self._reserve:
                os.close(self._reserve.pop())
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 the base's
        """Log what went wrong, in one line."""
        _log.error("a request for metrics failed: %r", sys.exception())


class _Handler(WSGIRequestHandler):
    server: HttpServer

    def setup(self) -> None:
        self.connection = self.request
        self.wfile = self._answer = io.BytesIO()
        self._head = self._read_head()
        self.rfile = io.BytesIO(self._head)

    def handle(self) -> None:
        if self._head:
            self.server.has_request(self.connection)
            super().handle()

    def finish(self) -> None:
        with suppress(OSError):  # the client left, or does not read it
            self.connection.settimeout(_ANSWER_S)
            self.connection.sendall(self._answer.getbuffer())

    def _read_head(self) -> bytes:
        """The request up to the empty line after its headers, and whatever came with that.

        It is empty if the client left, took too long, or sent too much, which is answered with an
        error.
        """
        until = time.monotonic() + _REQUEST_S
        head = b""
        with suppress(OSError):
            while (left := until - time.monotonic()) > 0:
                self.connection.settimeout(left)
                data: bytes = self.connection.recv(_LONGEST_HEAD)
                head += data
                if len(head) > _LONGEST_HEAD:
                    self._answer.write(_TOO_LARGE)
                    break
                if b"\r\n\r\n" in head or b"\n\n" in head:
                    return head
                if not data:
                    break
        return b""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing; scrapes come every few seconds."""

    def address_string(self) -> str:
        return str(self.client_address[0])

"""TLS between a TCP transport and the protocol object that uses it.

Theory of operation
===================

To the transport below it is the protocol object, to the protocol object above it is the transport;
that one may be replaced, as with any other transport.

The TLS of asyncio and of uvloop holds for each connection two memory BIOs, which never shrink, and
a read buffer (256 KB in uvloop 0.23), though a connection that is idle needs none. Here all
connections of a thread use the same two BIOs (`proxy.thread_buffers`). Received bytes are put into
the one, and OpenSSL is called until it has taken them all: it keeps the beginning of a record that
is not complete. What it writes is taken out of the other at once. Between two calls both are empty
(seen with OpenSSL 3.0 and 3.5).

No protocol object is called while a BIO holds something, so the bytes of two connections never
meet. If they did, both connections would break, and neither would disclose anything: their records
are encrypted, and authenticated, with keys of their own.

Nothing is buffered here. What is received is passed on at once, and reading is paused below. What
is written goes to the transport below, whose high-water mark is that of the connection. Only while
the peer renegotiates (TLS 1.2), OpenSSL takes nothing to write; that waits for the peer's answer.

A connection is closed by a close_notify, and then for a while what the peer still sends is read,
and thrown away: TCP would answer it with a reset, and that can overtake what was written last. The
end of TCP without a close_notify ends the connection like one with it, since many clients send
none; a packet that was cut off is found by its length.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Final, cast

from proxy.former_protocol import forget_protocol
from proxy.thread_buffers import BUFFERS

if TYPE_CHECKING:
    from proxy.stream_protocol import StreamProtocol

_HANDSHAKE: Final = 0
_OPEN: Final = 1
_CLOSING: Final = 2  # a close_notify is sent, and that of the peer awaited
_CLOSED: Final = 3

_RECORD: Final = 1 << 14
"""The most that a record holds, bytes (RFC 8446, 5.1): OpenSSL returns no more at once."""
_SLICE: Final = 1 << 18
"""How much is encrypted at once, bytes; the BIO, which never shrinks, holds a little more."""
_CLOSE_NOTIFY_S = 1.0  # not Final, which would be compiled in: tests shorten it
"""How long the peer's close_notify is awaited. Clients that never read must not delay a stop of the
proxy."""


class TlsTransport:
    """Encrypts what the protocol above writes, and decrypts what comes from below.

    It has the methods of `asyncio.Transport` that this project uses, and is no subclass since it is
    compiled.
    """

    def __init__(
        self,
        below: asyncio.Transport,
        above: StreamProtocol,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        hostname: str | None,
    ) -> None:
        """`hostname` is what a server's certificate has to name, if `context` checks that."""
        self._incoming = BUFFERS.incoming
        self._outgoing = BUFFERS.outgoing
        self._tls: ssl.SSLObject = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=hostname
        )
        self._below: asyncio.Transport | None = below
        self._above: StreamProtocol | None = above
        self._state: int = _HANDSHAKE
        self._handshake: asyncio.Future[None] | None = None
        self._ended = False  # by a close_notify of the peer's
        self._unsent = b""
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def do_handshake(self) -> None:
        """Take the connection over from the protocol object below, and do the handshake.

        What the peer sends behind it may reach the protocol above before this returns.

        Raises:
            ssl.SSLError, OSError: it failed; the connection is closed.
        """
        below = self._below
        if below is None:
            raise ConnectionResetError("the connection is closed")
        self._handshake = asyncio.get_running_loop().create_future()
        try:
            below.pause_reading()
            forget_protocol(below)
            # Compiled classes cannot inherit from asyncio's; its transports only call methods.
            below.set_protocol(cast("asyncio.BaseProtocol", self))
            self._advance()
            below.resume_reading()
            await self._handshake
        except BaseException:
            self.abort()
            raise
        finally:
            self._handshake = None

    # What the protocol above calls

    def set_protocol(self, protocol: StreamProtocol) -> None:
        """Deliver to `protocol` from now on."""
        self._above = protocol

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._state != _OPEN:
            return
        if self._unsent:
            self._unsent += data
        elif len(data) <= _SLICE:
            self._encrypt(data)
        else:
            for start in range(0, len(data), _SLICE):
                self.write(data[start : start + _SLICE])

    def pause_reading(self) -> None:
        """Stop reading from the peer."""
        if self._state == _OPEN and self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        """Read from the peer again."""
        if self._state == _OPEN and self._below is not None:
            self._below.resume_reading()

    def is_closing(self) -> bool:
        """Whether the connection has ended or is being closed."""
        return self._state > _OPEN or self._below is None or self._below.is_closing()

    def can_write_eof(self) -> bool:
        """TLS has no end of one direction alone."""
        return False

    def close(self) -> None:
        """Close after what was written is sent."""
        if self._state == _OPEN and self._below is not None:
            self._state = _CLOSING
            try:
                self._tls.unwrap()
            except ssl.SSLWantReadError:
                self._flush()
                self._timer = asyncio.get_running_loop().call_later(_CLOSE_NOTIFY_S, self._end)
                self._below.resume_reading()
            except OSError:
                self._end()  # the peer renegotiates
            else:
                self._end()
        elif self._state == _HANDSHAKE:
            self.abort()

    def abort(self) -> None:
        """Drop the connection at once."""
        self._state = _CLOSED
        if self._below is not None:
            self._below.abort()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""
        waiting = 0 if self._below is None else self._below.get_write_buffer_size()
        return waiting + len(self._unsent)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What the transport below returns for `name`; `ssl_object` is the TLS connection."""
        if name == "ssl_object":
            return self._tls
        return default if self._below is None else self._below.get_extra_info(name, default)

    # What the transport below calls

    def data_received(self, data: bytes) -> None:
        """Take encrypted bytes."""
        if self._state == _CLOSED:
            return
        incoming = self._incoming
        incoming.write(data)
        if self._state == _HANDSHAKE:
            self._advance()
            if self._state != _OPEN or not incoming.pending:
                return
        try:
            received = self._decrypt(min(len(data), _RECORD))
        except OSError as error:
            self._fail(error)
            return
        self._flush()  # answers to a new key, or to a renegotiation
        if self._unsent:
            unsent, self._unsent = self._unsent, b""
            self.write(unsent)
        self._deliver(received)

    def eof_received(self) -> bool:
        """Take the end of TCP: what was written is still sent."""
        above = self._above
        if self._state == _OPEN and above is not None:
            self._state = _CLOSED
            above.eof_received()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        self._state = _CLOSED
        self._cancel_timer()
        error = error if self._error is None else self._error
        self._settle(error or ConnectionResetError("the connection was closed"))
        above = self._above
        self._below = self._above = self._error = None  # they refer to this transport
        if above is not None:
            above.connection_lost(error)

    def pause_writing(self) -> None:
        """The peer reads slower than it is written to."""
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """The peer can be written to again."""
        if self._above is not None:
            self._above.resume_writing()

    # Between the two

    def _advance(self) -> None:
        """Go on with the handshake."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except OSError as error:
            self._fail(error)
        else:
            self._state = _OPEN
            self._flush()
            self._settle(None)

    def _settle(self, error: Exception | None) -> None:
        """Tell who waits for the handshake how it ended."""
        handshake = self._handshake
        if handshake is None or handshake.done():
            return
        if error is None:
            handshake.set_result(None)
        else:
            handshake.set_exception(error)

    def _encrypt(self, data: bytes) -> None:
        try:
            self._tls.write(data)
        except ssl.SSLWantReadError:  # the peer renegotiates
            self._unsent = data
        except OSError as error:
            self._fail(error)
            return
        self._flush()

    def _flush(self) -> None:
        """Send what OpenSSL has written."""
        if self._outgoing.pending:
            data = self._outgoing.read()
            if self._below is not None:
                self._below.write(data)

    def _decrypt(self, size: int) -> bytes:
        """All bytes of records that are complete; `size` is the most for the first of them.

        Raises:
            ssl.SSLError: the peer has broken TLS.
        """
        incoming, tls = self._incoming, self._tls
        parts: list[bytes] = []
        try:
            part = tls.read(size)
            while part:
                parts.append(part)
                if not incoming.pending and not tls.pending():
                    break
                part = tls.read(_RECORD)
            else:
                self._ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:  # instead of no bytes, once a close_notify was sent
            self._ended = True
        if self._ended and incoming.pending:
            incoming.read()  # bytes behind the peer's last ones
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _deliver(self, data: bytes) -> None:
        if self._state == _CLOSING:
            if self._ended:
                self._end()
            return
        if data and self._above is not None:
            self._above.data_received(data)
        if self._ended and self._state == _OPEN:
            if self._above is not None:
                self._above.eof_received()
            self.close()

    def _fail(self, error: Exception) -> None:
        """Break the connection, and tell the peer why if it can be told at once."""
        self._state = _CLOSED
        self._error = error
        if self._incoming.pending:
            self._incoming.read()
        alert = self._outgoing.read()
        below = self._below
        if below is not None:
            if alert and not below.get_write_buffer_size():
                below.write(alert)
                below.close()
            else:
                below.abort()
        self._settle(error)

    def _end(self) -> None:
        """Close TCP after what was written is sent."""
        self._state = _CLOSED
        self._cancel_timer()
        self._flush()
        if self._below is not None:
            self._below.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""One connection to the control socket of a running proxy, from either side.

Both sides send *messages*: a length in four bytes, and a JSON object of that many bytes. File
descriptors may come with one (SCM_RIGHTS, unix(7)). The server sends the first message, its
`Hello`, so that a peer of another version can say so. Then the peer sends a message whose key
``command`` names what is to be done; what follows is that command's own.

All calls block; each connection has a thread.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.error_text import error_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PROTOCOL: Final = 1
"""The version of the messages and of what they lead to; another one is not understood."""

_LENGTH: Final = struct.Struct(">I")
_MOST_BYTES: Final = 1 << 20
_DESCRIPTOR_BYTES: Final = array.array("i").itemsize
MOST_DESCRIPTORS: Final = 200
"""In one message; Linux allows 253 (SCM_MAX_FD)."""
_CREDENTIALS: Final = struct.Struct("3i")
_OWNERS: Final = "only the proxy's own user, and root, may use it"
ANSWER_S: Final = 10.0
"""How long a peer may take to send a message that is due at once."""

Value = str | int | Sequence[str] | Sequence[int]
Message = dict[str, Value]


class ControlError(Exception):
    """A proxy cannot be told anything; the message says why, and what to do."""


class Hello(NamedTuple):
    """Who answers at the socket.

    Attributes:
        protocol: the version of its messages.
        version: its own.
        pid: its process.
        stopping: 1 if it lets its sessions go; else 0.
    """

    protocol: int
    version: str
    pid: int
    stopping: int


class ControlConnection:
    """One connection.

    Attributes:
        peer_pid: the process at the other end, as the kernel says (SO_PEERCRED, unix(7)).
        peer_uid: its user.
        stopping: it has said that it lets its sessions go.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.stopping = False
        self._socket = connected
        self._socket.settimeout(ANSWER_S)
        data = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.peer_pid, self.peer_uid, _ = _CREDENTIALS.unpack(data)

    def send(self, message: Mapping[str, Value], descriptors: Sequence[int] = ()) -> None:
        """Send a message.

        Raises:
            ControlError: the peer has gone.
        """
        data = json.dumps(message).encode()
        try:
            head = _LENGTH.pack(len(data))
            if descriptors:
                rights = array.array("i", descriptors)
                self._socket.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            else:
                self._socket.sendall(head)
            self._socket.sendall(data)
        except OSError as error:
            raise ControlError(f"the other process does not listen: {error_text(error)}") from error

    def receive(self, within: float | None = ANSWER_S) -> tuple[Message, list[int]]:
        """Wait for a message; return it with the descriptors that came with it.

        Args:
            within: how long to wait, s; None: as long as the peer lives.

        Raises:
            ControlError: none came, or something else.
        """
        descriptors: list[int] = []
        try:
            return self._receive(within, descriptors), descriptors
        except TimeoutError as error:
            close_all(descriptors)
            raise ControlError("the other process does not answer") from error
        except (OSError, ValueError, RecursionError) as error:  # JSON may be nested too deeply
            close_all(descriptors)
            raise ControlError(f"the connection broke off: {error_text(error)}") from error
        except ControlError:
            close_all(descriptors)
            raise

    def receive_plain(self, within: float | None = ANSWER_S) -> Message:
        """Wait for a message with which no descriptors are to come (`receive`)."""
        message, descriptors = self.receive(within)
        close_all(descriptors)
        return message

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def _receive(self, within: float | None, descriptors: list[int]) -> Message:
        self._socket.settimeout(within)
        room = socket.CMSG_SPACE(MOST_DESCRIPTORS * _DESCRIPTOR_BYTES)
        head, ancillary, flags, _ = self._socket.recvmsg(_LENGTH.size, room)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(data[: len(data) - len(data) % _DESCRIPTOR_BYTES])
                descriptors += found
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if flags & socket.MSG_CTRUNC:
            raise ControlError("not all file descriptors arrived: see ulimit -n")
        self._socket.settimeout(ANSWER_S)
        (length,) = _LENGTH.unpack(head + self._exactly(_LENGTH.size - len(head)))
        if length > _MOST_BYTES:
            raise ControlError(f"a message of {length} bytes")
        message = json.loads(self._exactly(length))
        if not isinstance(message, dict):
            raise ControlError("a message that is no object")
        return message

    def _exactly(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            more = self._socket.recv(length - len(data))
            if not more:
                raise ControlError("the other process has ended, or closed the connection")
            data += more
        return bytes(data)


def connect(path: Path) -> ControlConnection | None:
    """Connect to the proxy whose control socket that is; None if no proxy is there.

    Raises:
        ControlError: it does not answer, is another user's, or does not understand this process.
    """
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(ANSWER_S)
        with short_path(path) as short:
            connected.connect(short)
    except (FileNotFoundError, ConnectionRefusedError):
        connected.close()
        return None
    except PermissionError as error:
        connected.close()
        raise ControlError(f"the control socket {path} cannot be reached: {_OWNERS}") from error
    except OSError as error:
        connected.close()
        raise ControlError(
            f"the control socket {path} cannot be reached: {error_text(error)}"
        ) from error
    connection = ControlConnection(connected)
    try:
        _greet(connection, path)
    except ControlError:
        connection.close()
        raise
    return connection


def _greet(connection: ControlConnection, path: Path) -> None:
    """Raise ControlError if the proxy that was reached cannot be talked to."""
    user = os.geteuid()
    if user and connection.peer_uid not in (user, 0):
        raise ControlError(
            f"the control socket {path} is that of a process of user {connection.peer_uid}:"
            f" {_OWNERS}"
        )
    hello = connection.receive_plain()
    if hello.get("protocol") != PROTOCOL:
        raise ControlError(
            f"the proxy that runs (process {hello.get('pid')}, version {hello.get('version')}) has"
            f" version {hello.get('protocol')} of the control protocol, this one has {PROTOCOL}:"
            " use the program of its version, or stop it and start this one"
        )
    connection.stopping = bool(hello.get("stopping"))


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A path to the same file, however long it is: that of a Unix socket has at most 107 bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors that nobody wants."""
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)

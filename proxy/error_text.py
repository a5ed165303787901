"""A sentence for any exception: some have no text, such as a TimeoutError of asyncio."""

import asyncio
import os
import socket
import ssl
from typing import Final

from proxy import open_files

_SENTENCES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (socket.gaierror, "the name cannot be resolved"),
    (ssl.SSLError, "the TLS connection broke"),
    (TimeoutError, "no answer in time"),
    (asyncio.CancelledError, "it was cancelled"),
    (ConnectionRefusedError, "the connection was refused"),
    (ConnectionResetError, "the peer reset the connection"),
    (ConnectionAbortedError, "the connection was aborted"),
    (BrokenPipeError, "the peer closed the connection"),
    (ConnectionError, "the connection broke"),
    (EOFError, "the peer closed the connection"),
    (MemoryError, "this process has no memory left"),
)
"""The first kind that fits counts."""


def error_text(error: BaseException) -> str:
    """What an exception says, or stands for where it says nothing; never empty."""
    if open_files.is_exhausted(error):
        return open_files.advice(error)
    number: int | None = None
    text = str(error).strip()
    if isinstance(error, OSError) and error.errno is not None and not error.strerror:
        number, text = error.errno, ""  # it says "[Errno 104] "
    if text:
        return text
    for kind, sentence in _SENTENCES:
        if isinstance(error, kind):
            return sentence
    if number:
        return os.strerror(number)
    return type(error).__name__

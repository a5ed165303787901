"""The limit of files that this process may have open, sockets included (RLIMIT_NOFILE).

Where it is reached, no connection can be accepted or opened, whatever the servers are: so no server
is to be blamed for it, and the log names the limit, and how it is raised.
"""

import errno
import logging
import os
import resource
import socket
import threading
import time
from typing import Final

_log = logging.getLogger(__name__)

_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE})
_REPORT_EVERY_S: Final = 1.0


def is_exhausted(error: BaseException) -> bool:
    """Whether an error came because no file can be opened now."""
    if isinstance(error, socket.gaierror):
        return _cannot_open()  # the resolver needs files, too, and does not say that it lacked them
    return isinstance(error, OSError) and error.errno in _NONE_LEFT


def advice(error: BaseException) -> str:
    """The sentence about an error that `is_exhausted`."""
    if isinstance(error, OSError) and error.errno == errno.ENFILE:
        return "this machine has no file descriptor left: raise fs.file-max"
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"this process has no descriptor left: it may have {limit} files and connections open;"
        " raise LimitNOFILE= of its service, or ulimit -n where it is started"
    )


def system_error(error: OSError) -> str:
    """What the system says of a file or an address, without its name; never empty."""
    if is_exhausted(error):
        return advice(error)
    return error.strerror or str(error) or type(error).__name__


class _Report:
    """What was logged last, by whichever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logged_at = float("-inf")

    def is_due(self) -> bool:
        now = time.monotonic()
        with self._lock:
            if now - self._logged_at < _REPORT_EVERY_S:
                return False
            self._logged_at = now
            return True


_report: Final = _Report()


def report(error: BaseException) -> None:
    """Log an error that `is_exhausted`, at most once a second."""
    if _report.is_due():
        _log.error("no connection can be opened or accepted: %s", advice(error))


def _cannot_open() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in _NONE_LEFT
    return False

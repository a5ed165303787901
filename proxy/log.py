"""Messages to stderr: one line each, UTC, the worker's number where there are several.

Names and errors in a message may be a client's or a server's own text: unprintable characters are
escaped, so that no such text can add lines to the log.
"""

import logging
import time
from typing import Final

from proxy.config.words import LogLevel

_FORMAT: Final = "%(asctime)s.%(msecs)03dZ %(levelname)s {worker}%(name)s: %(message)s"


class Formatter(logging.Formatter):
    """Escapes unprintable characters in a message; a traceback after it keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's name for it
        """Return the message's line, escaped."""
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        return "".join(
            character if character.isprintable() else ascii(character)[1:-1] for character in line
        )


def configure(level: LogLevel, worker: int | None = None) -> None:
    """Send this process's messages to stderr; `worker` is None where there is only one process."""
    formatter = Formatter(
        _FORMAT.format(worker="" if worker is None else f"[worker {worker}] "),
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

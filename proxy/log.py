"""Messages to stderr: one line each, UTC, the worker's number where there are several.

Names and errors in a message may be a client's or a server's own text: unprintable characters are
escaped, so that no such text can add lines to the log.
"""

import json
import logging
import time
from typing import Final

from proxy.config.words import LogFormat, LogLevel

_FORMAT: Final = "%(asctime)s.%(msecs)03dZ %(levelname)s {worker}%(name)s: %(message)s"
_TIME: Final = "%Y-%m-%dT%H:%M:%S"


class Formatter(logging.Formatter):
    """Escapes unprintable characters in a message; a traceback after it keeps its lines."""

    def __init__(self, worker: int | None, form: str = _FORMAT) -> None:
        name = "" if worker is None else f"[worker {worker}] "
        super().__init__(form.format(worker=name), datefmt=_TIME)
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's name for it
        """Return the message's line, escaped."""
        line = super().formatMessage(record)
        if line.isprintable():
            return line
        return "".join(
            character if character.isprintable() else ascii(character)[1:-1] for character in line
        )


class JsonFormatter(logging.Formatter):
    """Writes each message as an object of JSON, on one line.

    Its keys: `time` (RFC 3339, UTC, milliseconds), `level`, `logger`, `worker` (where there are
    several), `message`, `template` (the message without what was put into it: the same for all
    messages of one kind), and `exception` (a traceback, where there is one).
    """

    def __init__(self, worker: int | None) -> None:
        super().__init__(datefmt=_TIME)
        self.converter = time.gmtime
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        found: dict[str, object] = {
            "time": f"{self.formatTime(record, _TIME)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if self._worker is not None:
            found["worker"] = self._worker
        found["message"] = record.getMessage()
        found["template"] = str(record.msg)
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found)  # ASCII: nothing in it is unprintable


def configure(level: LogLevel, form: LogFormat = "text", worker: int | None = None) -> None:
    """Send this process's messages to stderr; `worker` is None where there is only one process."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(worker) if form == "json" else Formatter(worker))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

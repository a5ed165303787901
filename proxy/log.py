"""Messages to stderr: one line each, UTC, the worker's number where there are several."""

import logging
import time
from typing import Final

from proxy.options import LogLevel

_FORMAT: Final = "%(asctime)s.%(msecs)03dZ %(levelname)s {worker}%(name)s: %(message)s"


def configure(level: LogLevel, worker: int | None = None) -> None:
    """Send this process's messages to stderr; `worker` is None where there is only one process."""
    formatter = logging.Formatter(
        _FORMAT.format(worker="" if worker is None else f"[worker {worker}] "),
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    formatter.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

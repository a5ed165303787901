"""The time of day, in UTC."""

import time
from typing import Final

utc_ns: Final = time.time_ns
"""Nanoseconds since the epoch, UTC."""


def utc_us() -> int:
    """Microseconds since the epoch, UTC."""
    return utc_ns() // 1000

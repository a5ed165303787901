"""What time it is, for the log."""

import time
from typing import Final

_TIME_NS: Final = time.time_ns  # looked up once


def utc_us() -> int:
    """Microseconds since the epoch, UTC."""
    return _TIME_NS() // 1000

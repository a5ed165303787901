"""Waiting for what another thread will do, without asserting how long it takes."""

import time
from collections.abc import Callable

PATIENCE = 20.0


def until(condition: Callable[[], bool], what: str) -> None:
    """Looks until `condition` holds.

    Raises:
        AssertionError: it never did.
    """
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.005)

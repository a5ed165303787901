"""Waiting for what another thread or program will do, without asserting how long it takes."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0


def eventually(condition: Callable[[], T | None]) -> T:
    """What comes at last that is neither None nor False.

    Raises:
        AssertionError: nothing came.
    """
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return found


def until(condition: Callable[[], bool], description: str | Callable[[], str]) -> None:
    """Looks until `condition` holds; `description` says what that is.

    Raises:
        AssertionError: it never did.
    """
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            condition_text = description if isinstance(description, str) else description()
            raise AssertionError(f"waited in vain until {condition_text}")
        time.sleep(0.005)

"""What some tests need beside Python: a MySQL server, and Spark with its Java.

A fixture that starts one is decorated with `needs`. Each test that uses it, through however
many others, then has the marker of the service; a test that starts one without a fixture is marked
by hand. `--fast` leaves out what is marked.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

SERVICES = frozenset({"real_mysql", "spark"})

_LEFT_OUT = "/left-out-by---fast/mark-this-test-or-decorate-its-fixture"

Fixture = TypeVar("Fixture", bound=Callable[..., object])


def needs(service: str) -> Callable[[Fixture], Fixture]:
    """Say, below `pytest.fixture`, which service a fixture starts."""
    assert service in SERVICES

    def declare(fixture: Fixture) -> Fixture:
        fixture.service = service  # type: ignore[attr-defined]
        return fixture

    return declare


def services(item: pytest.Item) -> set[str]:
    """The services that a test needs, by its markers and its fixtures."""
    fixtures: Any = getattr(item, "_fixtureinfo", None)
    used = fixtures.name2fixturedefs.values() if fixtures else ()
    declared = {getattr(fixture.func, "service", None) for found in used for fixture in found}
    return set(SERVICES & (declared | {marker.name for marker in item.iter_markers()}))


def hide() -> None:
    """Let a test that starts a service in spite of `--fast` fail, with a path that says why."""
    os.environ["TIDEGATE_MYSQLD"] = os.environ["JAVA_HOME"] = _LEFT_OUT

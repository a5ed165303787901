"""What every application here does: pages are looked at, and now and then one writes.

Two threads serve requests in turns, each with connections of its own, as the workers of a web
server do. So what one request has written, the next one looks for over another connection.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

PAGES = int(os.environ["PAGES"])
EVERY_S = int(os.environ["EVERY_MS"]) / 1000
"""From the begin of a page to that of the next."""
WRITES_EVERY = 25
"""Pages between two that write."""
READS = 10
"""Statements of a page, at least."""


class Application(Protocol):
    """One framework's."""

    def install(self) -> None:
        """Make its tables."""

    def publish(self, title: str) -> None:
        """Serve a request that writes."""

    def page(self) -> list[str]:
        """Serve a page: all titles, by `READS` statements."""


def serve(application: Application) -> None:
    """Serve pages, and print what became of them as JSON."""
    application.install()
    workers = [ThreadPoolExecutor(1), ThreadPoolExecutor(1)]
    published: list[str] = []
    stale = 0
    times_ms: list[float] = []
    begun = time.monotonic()
    for number in range(PAGES):
        time.sleep(max(0.0, begun + number * EVERY_S - time.monotonic()))
        if number % WRITES_EVERY == 0:
            title = f"title {number}"
            workers[number % 2].submit(application.publish, title).result()
            published.append(title)
        asked = time.monotonic()
        titles = workers[(number + 1) % 2].submit(application.page).result()
        times_ms.append((time.monotonic() - asked) * 1000)
        stale += sorted(titles) != sorted(published)
    json.dump({"stale": stale, "times_ms": times_ms}, sys.stdout)


def recipe(name: str, namespace: dict[str, object]) -> None:
    """Run an application's lines of docs/applications.md, or those of its framework's defaults."""
    exec(os.environ[f"RECIPE_{name}"], namespace)  # noqa: S102 - lines of this project's own page

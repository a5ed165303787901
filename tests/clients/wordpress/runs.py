"""The ways in which WordPress is run, and what was seen on each."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.clients.wordpress.blog import Blog
from tests.clients.wordpress.site import site
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import MONITOR_USER

PAGE = Path(__file__).resolve().parents[3] / "docs" / "web-applications.md"
"""Where the settings stand that are tested here."""


@dataclass(frozen=True)
class Way:
    """How WordPress reaches its database.

    Attributes:
        name: for the table; Markdown.
        settings: Tidegate's configuration file; None: there is no proxy.
        stale: whether pages have to be stale on it; on others none may be.
    """

    name: str
    settings: str | None
    stale: bool = False


@dataclass(frozen=True)
class Seen:
    """What became of one run.

    Attributes:
        way: how it was run.
        pages: how many were loaded.
        stale: which did not show what had been done before.
        errors: of the database, as WordPress tells them.
        reads: SELECTs that Tidegate got.
        on_replicas: how many of these a replica answered.
    """

    way: Way
    pages: int
    stale: list[str]
    errors: list[str]
    reads: int = 0
    on_replicas: int = 0

    @property
    def wrong(self) -> str | None:
        """What must not be, in words."""
        if self.way.stale:
            return None if self.stale else "no page was stale: so the others prove nothing"
        if self.stale or self.errors:
            return f"stale: {'; '.join(self.stale)}; errors: {'; '.join(self.errors[:10])}"
        if self.way.settings is not None and not self.on_replicas:
            return "no replica answered a read"
        return None


def ways() -> list[Way]:
    """The primary itself, each of the page's settings, and another, where pages are stale.

    Raises:
        ValueError: the page gives no settings.
    """
    blocks = re.findall(
        r"^```toml\n# tidegate.toml: (.*)\n((?:.*\n)*?)```$", PAGE.read_text(), re.M
    )
    if not blocks:
        raise ValueError(f"{PAGE} gives no settings")
    settings = [
        Way(f"{name}: {', '.join(f'`{line}`' for line in text.splitlines())}", text)
        for name, text in blocks
    ]
    narrow = 'scope = "connection"'
    return [Way("directly", None), *settings, Way(f"`{narrow}`", f"{narrow}\n", stale=True)]


def run(cluster: Cluster, way: Way, posts: int) -> Seen:
    """Run WordPress once, on a database of its own, with replicas that are 1 s late.

    Raises:
        RuntimeError: WordPress does not do what it is asked for, or Tidegate told of an exception
            or of a stale read.
    """
    cluster.primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    for replica in cluster.replicas:
        replica.set_source_delay(1)
    if way.settings is None:
        return Seen(way, *_write(cluster, cluster.primary.port, posts, lambda: True, at_once=True))
    configuration = cluster.scratch.path / "tidegate.toml"
    configuration.write_text(way.settings)
    name = f"wordpress-{uuid.uuid4().hex[:8]}"
    # On a slow machine, tests wait longer than a proxy does by default: here that would be seen.
    options: dict[str, str | None] = {"config": str(configuration), "wait_budget": "250ms"}
    options |= {"scope": None, "table_dependencies": None}  # as the file says, or by default
    proxy = RunningProxy(cluster, name, options)
    try:
        pages, stale, errors = _write(
            *(cluster, proxy.port, posts),
            lambda: proxy.metric("tidegate_statements_total", role="replica", reason="read") > 0,
            at_once=not way.stale,
        )
        proven = proxy.metric("tidegate_stale_reads_proven_total")
    finally:
        proxy.stop()
    if proven or "Traceback" in proxy.stderr:
        raise RuntimeError(f"{proven:.0f} stale reads, and:\n{proxy.stderr[-4000:]}")
    reads = [record for record in proxy.records() if record["class"] == "read"]
    on_replicas = sum(record["role"] == "replica" for record in reads)
    return Seen(way, pages, stale, errors, len(reads), on_replicas)


def _write(
    cluster: Cluster, port: int, posts: int, answered: Callable[[], bool], *, at_once: bool
) -> tuple[int, list[str], list[str]]:
    """Fill a blog.

    Args:
        cluster: the servers.
        port: where WordPress connects to.
        posts: how many are written.
        answered: whether a replica has answered a read. On a busy machine none may have.
        at_once: as of `Blog.open`.

    Returns:
        How many pages were loaded, which of them were stale, and WordPress's errors.
    """
    with site(cluster, port) as wordpress:
        blog = Blog(wordpress.url, cluster.wait_caught_up)
        blog.open(at_once=at_once)
        for number in range(1, posts + 1):
            blog.post(number)
        cluster.wait_caught_up()
        blog.visit(answered)
        return blog.pages, blog.stale, wordpress.errors


def table(seen: Iterable[Seen]) -> str:
    """The runs in Markdown."""
    lines = ["| way | pages | stale | reads | of these on replicas |", "|---|---|---|---|---|"]
    for run in seen:
        share = f"{run.on_replicas / run.reads:.0%}" if run.reads else ""
        lines.append(
            f"| {run.way.name} | {run.pages} | {len(run.stale) or 'none'} | {run.reads or ''}"
            f" | {share} |"
        )
    return "\n".join(lines) + "\n"

"""Runs applications at a real cluster: where their pages were read, and which were stale."""

from __future__ import annotations

import json
import math
import tomllib
import uuid
from dataclasses import dataclass

from tests.applications.recipes import Recipe
from tests.applications.runtimes import BY_PROXY, PER_REQUEST, served
from tests.clients.suite import PASSWORD, USER
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import MONITOR_USER

PAGES = 200
EVERY_MS = 100
"""From the begin of a page to that of the next: a visitor's, in short."""

_AS_BY_DEFAULT = (
    "scope",
    "table_dependencies",
    "table_dependencies_rate",
    "wait_budget",
    "connection_sharing_delay",
)
"""Options to which other tests give values of their own."""


@dataclass(frozen=True)
class Seen:
    """What became of one run.

    Attributes:
        recipe: what was run.
        lateness: of the replicas, s; None without Tidegate, at the primary.
        times_ms: how long each page took, in ascending order.
        stale: how many pages lacked something.
        reads, on_replicas: the proxy's.
    """

    recipe: Recipe
    lateness: int | None
    times_ms: list[float]
    stale: int
    reads: int = 0
    on_replicas: int = 0

    @property
    def share(self) -> float:
        """Of the reads, those on replicas."""
        return self.on_replicas / self.reads if self.reads else 0.0

    def quantile(self, share: float) -> float:
        """Within how many ms this share of the pages was there."""
        return self.times_ms[max(0, math.ceil(share * len(self.times_ms)) - 1)]

    @property
    def where(self) -> str:
        """At what it was run, in words."""
        if self.lateness is None:
            return "direct"
        return f"{self.lateness} s late" if self.lateness else "free"


def run(cluster: Cluster, recipe: Recipe, lateness: int | None) -> Seen:
    """Run an application once, on a database of its own, with the options' defaults.

    Args:
        cluster: where.
        recipe: what.
        lateness: of the replicas, s; None to run it without Tidegate, at the primary.

    Raises:
        RuntimeError: the proxy told of an exception, or of a stale read.
        subprocess.CalledProcessError: the application failed; what it printed was printed.
    """
    for replica in cluster.replicas:
        replica.set_source_delay(lateness or 0)
    primary = cluster.primary
    primary.query("DROP DATABASE IF EXISTS pages")
    primary.query("CREATE DATABASE pages")
    cluster.wait_caught_up()
    if lateness is None:
        result = json.loads(_served(recipe, primary.port))
        return Seen(recipe, None, sorted(result["times_ms"]), result["stale"])
    primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    options: dict[str, str | None] = dict.fromkeys(_AS_BY_DEFAULT)
    if recipe.framework in BY_PROXY:
        for name, value in tomllib.loads(recipe.lines).items():
            options[name.replace("-", "_")] = str(value)
    proxy = RunningProxy(cluster, f"pages-{uuid.uuid4().hex[:8]}", options)
    try:
        result = json.loads(_served(recipe, proxy.port))
        proven = proxy.metric("tidegate_stale_reads_proven_total")
    finally:
        proxy.stop()
    if proven or "Traceback" in proxy.stderr:
        raise RuntimeError(f"{proven:.0f} stale reads, and:\n{proxy.stderr[-4000:]}")
    records = proxy.records()
    if recipe.framework in PER_REQUEST:  # edits, and the installation, are no pages
        wrote = {record["session"] for record in records if record["class"] == "write"}
        records = [record for record in records if record["session"] not in wrote]
    reads = [record for record in records if record["class"] == "read"]
    on_replicas = sum(record["role"] == "replica" for record in reads)
    times_ms = sorted(result["times_ms"])
    return Seen(recipe, lateness, times_ms, result["stale"], len(reads), on_replicas)


def _served(recipe: Recipe, port: int) -> str:
    """What the application prints."""
    environment = {
        "PAGES": str(PAGES),
        "EVERY_MS": str(EVERY_MS),
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "USER": USER,
        "PASSWORD": PASSWORD,
        "NAME": "pages",
        "URL": f"mysql+pymysql://{USER}:{PASSWORD}@127.0.0.1:{port}/pages",
    }
    return served(recipe.framework, recipe.lines, environment)


def table(seen: list[Seen]) -> str:
    """The runs in Markdown."""
    lines = ["| framework | settings | replicas | stale pages | reads on replicas | p50, p99, ms |"]
    lines.append("|---|---|---|---:|---:|---:|")
    for run in seen:
        lines.append(
            f"| {run.recipe.framework} | {run.recipe.title} | {run.where}"
            f" | {run.stale or 'none'} of {len(run.times_ms)} | {run.share:.0%}"
            f" | {run.quantile(0.5):.1f}, {run.quantile(0.99):.1f} |"
        )
    return "\n".join(lines) + "\n"

"""Runs applications at a real cluster: where their pages were read, and which were stale."""

from __future__ import annotations

import json
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


@dataclass(frozen=True)
class Seen:
    """What became of one run.

    Attributes:
        recipe: what was run.
        lateness: of the replicas, s.
        pages, stale: how many were looked at, and how many of them lacked something.
        reads, on_replicas: the proxy's.
    """

    recipe: Recipe
    lateness: int
    pages: int
    stale: int
    reads: int
    on_replicas: int

    @property
    def share(self) -> float:
        """Of the reads, those on replicas."""
        return self.on_replicas / self.reads


def run(cluster: Cluster, recipe: Recipe, lateness: int) -> Seen:
    """Run an application once, on a database of its own, with the default scope, `user`.

    Raises:
        RuntimeError: the proxy told of an exception, or of a stale read.
        subprocess.CalledProcessError: the application failed; what it printed was printed.
    """
    for replica in cluster.replicas:
        replica.set_source_delay(lateness)
    primary = cluster.primary
    primary.query("DROP DATABASE IF EXISTS pages")
    primary.query("CREATE DATABASE pages")
    cluster.wait_caught_up()
    primary.query(f"GRANT REPLICATION SLAVE ON *.* TO {MONITOR_USER}")
    options: dict[str, str | None] = {"scope": None, "table_dependencies": None}
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
    return Seen(recipe, lateness, result["pages"], result["stale"], len(reads), on_replicas)


def _served(recipe: Recipe, port: int) -> str:
    """What the application prints."""
    environment = {
        "PAGES": str(PAGES),
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
    lines = ["| framework | settings | replicas | stale pages | reads on replicas |"]
    lines.append("|---|---|---|---|---|")
    for run in seen:
        late = f"{run.lateness} s late" if run.lateness else "free"
        lines.append(
            f"| {run.recipe.framework} | {run.recipe.title} | {late}"
            f" | {run.stale or 'none'} of {run.pages} | {run.share:.0%} |"
        )
    return "\n".join(lines) + "\n"

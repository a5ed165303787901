"""Runs applications at a real cluster: where their pages were read, and which were stale."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from tests.applications.recipes import Recipe
from tests.clients import versions
from tests.clients.environment import Environment, quietly
from tests.clients.suite import PASSWORD, USER
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.running_proxy import RunningProxy

INSIDE = Path(__file__).parent / "inside"
PAGES = 200
_NEEDS = {
    "sqlalchemy": [versions.SQLALCHEMY, versions.PYMYSQL],
    "django": [versions.DJANGO, versions.PYMYSQL],
    "peewee": [versions.PEEWEE, versions.PYMYSQL],
}
_AUTHENTICATION = "cryptography==46.0.3"  # PyMySQL's, where there is no TLS


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
    """Run an application once, on a database of its own, with scope `user`.

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
    proxy = RunningProxy(cluster, f"pages-{uuid.uuid4().hex[:8]}", {"scope": "user"})
    try:
        told = json.loads(_served(recipe, proxy.port))
        proven = proxy.metric("tidegate_stale_reads_proven_total")
    finally:
        proxy.stop()
    if proven or "Traceback" in proxy.stderr:
        raise RuntimeError(f"{proven:.0f} stale reads, and:\n{proxy.stderr[-4000:]}")
    reads = [record for record in proxy.records() if record["class"] == "read"]
    on_replicas = sum(record["role"] == "replica" for record in reads)
    return Seen(recipe, lateness, told["pages"], told["stale"], len(reads), on_replicas)


def _served(recipe: Recipe, port: int) -> str:
    """What the application prints."""
    environment = {
        f"RECIPE_{recipe.framework}": recipe.lines,
        "PAGES": str(PAGES),
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "USER": USER,
        "PASSWORD": PASSWORD,
        "NAME": "pages",
        "URL": f"mysql+pymysql://{USER}:{PASSWORD}@127.0.0.1:{port}/pages",
    }
    if recipe.framework == "knex":
        return _served_by_node(environment)
    here = Environment(f"pages-{recipe.framework}")
    here.install(*_NEEDS[recipe.framework], _AUTHENTICATION)
    program = INSIDE / f"{recipe.framework}_app.py"
    return quietly(str(here.python), str(program), extra=environment, cwd=here.folder)


def _served_by_node(environment: dict[str, str]) -> str:
    here = Environment("pages-knex")
    here.install(versions.NODE)
    programs = here.python.parent
    path = f"{programs}:{os.environ['PATH']}"
    modules = here.folder / "node_modules"
    if not (modules / "knex").exists():
        install = [str(programs / "npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        packages = [versions.KNEX, versions.MYSQL2]
        quietly(*install, "--prefix", str(here.folder), *packages, extra={"PATH": path})
    return quietly(
        str(programs / "node"),
        str(INSIDE / "knex_app.cjs"),
        extra={**environment, "NODE_PATH": str(modules), "PATH": path},
        cwd=here.folder,
    )


def table(seen: list[Seen]) -> str:
    """The runs in Markdown."""
    lines = ["| framework | settings | replicas | stale pages | reads on replicas |"]
    lines.append("|---|---|---|---|---|")
    for one in seen:
        late = f"{one.lateness} s late" if one.lateness else "free"
        lines.append(
            f"| {one.recipe.framework} | {one.recipe.what} | {late}"
            f" | {one.stale or 'none'} of {one.pages} | {one.share:.0%} |"
        )
    return "\n".join(lines) + "\n"

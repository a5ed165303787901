"""Node's mysql2. Its package holds no tests, so these are ours: `inside/mysql2.cjs`."""

from __future__ import annotations

from tests.clients import versions
from tests.clients.environment import INSIDE, Environment, quietly
from tests.clients.suite import Door, Invocation, Suite

_HERE = Environment("mysql2")


def _prepare() -> None:
    _HERE.install(versions.NODE)
    programs = _HERE.python.parent
    modules = _HERE.folder / versions.MYSQL2
    if not (modules / "node_modules" / "mysql2").exists():
        install = [str(programs / "npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        path = {"PATH": f"{programs}:/usr/bin:/bin"}
        quietly(*install, "--prefix", str(modules), versions.MYSQL2, extra=path)


def _invocation(door: Door) -> Invocation:
    return Invocation(
        (str(_HERE.python.with_name("node")), str(INSIDE / "mysql2.cjs")),
        folder=_HERE.folder,
        environment={
            **door.variables,
            "NODE_PATH": str(_HERE.folder / versions.MYSQL2 / "node_modules"),
        },
        seconds=300,
    )


SUITE = Suite(
    name="mysql2",
    what="its package holds no tests: ours, with and without TLS and compression",
    versions=f"{versions.MYSQL2} on {versions.NODE}",
    statements=("CREATE DATABASE test", "CREATE DATABASE test2"),
    prepare=_prepare,
    invocation=_invocation,
)

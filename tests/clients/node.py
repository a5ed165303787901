"""Node's drivers, mysql2 and MariaDB's. Their packages hold no tests: `inside/node.cjs` is ours."""

from __future__ import annotations

from tests.clients import versions
from tests.clients.environment import INSIDE, Environment, quietly
from tests.clients.suite import Invocation, Suite, Target


def _suite(name: str, driver_name: str, version: str) -> Suite:
    here = Environment(name)
    driver = version.partition("@")[0]
    modules = here.folder / version / "node_modules"

    def prepare() -> None:
        here.install(versions.NODE)
        programs = here.python.parent
        if not (modules / driver).exists():
            install = [programs / "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            path = {"PATH": f"{programs}:/usr/bin:/bin"}
            quietly(*map(str, install), "--prefix", str(modules.parent), version, extra=path)

    def invocation(target: Target) -> Invocation:
        return Invocation(
            (str(here.python.with_name("node")), str(INSIDE / "node.cjs"), driver),
            folder=here.folder,
            environment={**target.variables, "NODE_PATH": str(modules)},
            seconds=300,
        )

    return Suite(
        name=name,
        title=f"{driver_name}, whose package holds no tests: ours, with and without TLS"
        " and compression",
        versions=f"{version} on {versions.NODE}",
        statements=("CREATE DATABASE test", "CREATE DATABASE test2"),
        prepare=prepare,
        invocation=invocation,
    )


MYSQL2 = _suite("mysql2", "Node's mysql2", versions.MYSQL2)
MARIADB = _suite("mariadb-node", "MariaDB's connector for Node", versions.MARIADB_NODE)

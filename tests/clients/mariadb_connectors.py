"""MariaDB's connectors for Java and Node. Their packages hold no tests: `inside` has ours."""

from __future__ import annotations

import shutil

from tests.clients import debian, versions
from tests.clients.environment import INSIDE, Environment, quietly
from tests.clients.suite import Door, Invocation, Suite

_NODE = Environment("mariadb-node")
_JAVA = Environment("connector-j")
_JAR = "/usr/share/java/mariadb-java-client.jar"


def _prepare_node() -> None:
    _NODE.install(versions.NODE)
    programs = _NODE.python.parent
    modules = _NODE.folder / versions.MARIADB_NODE
    if not (modules / "node_modules" / "mariadb").exists():
        install = [str(programs / "npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        path = {"PATH": f"{programs}:/usr/bin:/bin"}
        quietly(*install, "--prefix", str(modules), versions.MARIADB_NODE, extra=path)


def _at_node(door: Door) -> Invocation:
    modules = _NODE.folder / versions.MARIADB_NODE / "node_modules"
    return Invocation(
        (str(_NODE.python.with_name("node")), str(INSIDE / "mariadb.cjs")),
        folder=_NODE.folder,
        environment={**door.variables, "NODE_PATH": str(modules)},
        seconds=300,
    )


def _prepare_java() -> None:
    debian.install(["libmariadb-java", "default-jdk-headless"])
    _JAVA.folder.mkdir(parents=True, exist_ok=True)


def _at_java(door: Door) -> Invocation:
    java = shutil.which("java") or "java"
    return Invocation(
        (java, "-cp", _JAR, str(INSIDE / "ConnectorJ.java")),
        folder=_JAVA.folder,
        environment=door.variables,
        seconds=300,
    )


_WAYS = "ours, at its default settings, with TLS and with compression"
_DATABASES = ("CREATE DATABASE test",)

NODE = Suite(
    name="mariadb-node",
    what=f"MariaDB's connector for Node: {_WAYS}",
    versions=versions.MARIADB_NODE,
    statements=_DATABASES,
    prepare=_prepare_node,
    invocation=_at_node,
)
JAVA = Suite(
    name="connector-j",
    what=f"MariaDB's Connector/J: {_WAYS}",
    versions="Debian's libmariadb-java",
    statements=_DATABASES,
    prepare=_prepare_java,
    invocation=_at_java,
)

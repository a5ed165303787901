"""MariaDB's Connector/J. Its package holds no tests: `inside/Jdbc.java` is ours.

MySQL's own Connector/J is in neither Debian's archive nor another that the suites come from. What
it sends for READ ONLY transactions, MariaDB's sends, too, if it is told to (``assureReadOnly``).
"""

from __future__ import annotations

import shutil

from tests.clients import debian
from tests.clients.environment import INSIDE, Environment
from tests.clients.suite import Invocation, Suite, Target

_HERE = Environment("mariadb-java")
_JAR = "/usr/share/java/mariadb-java-client.jar"


def _prepare() -> None:
    debian.install(["libmariadb-java", "default-jdk-headless"])
    _HERE.folder.mkdir(parents=True, exist_ok=True)


def _invocation(target: Target) -> Invocation:
    java = shutil.which("java") or "java"
    return Invocation(
        (java, "-cp", _JAR, str(INSIDE / "Jdbc.java"), "mariadb"),
        folder=_HERE.folder,
        environment=target.variables,
        seconds=300,
    )


SUITE = Suite(
    name="mariadb-java",
    title="MariaDB's Connector/J, whose package holds no tests: ours, at its default settings, with"
    " TLS, with compression and with statements prepared at the server",
    versions="Debian's libmariadb-java",
    statements=("CREATE DATABASE test",),
    prepare=_prepare,
    invocation=_invocation,
)

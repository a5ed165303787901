"""Ruby's mysql2, on MariaDB's Connector/C.

Its own tests are in its source package alone, which Debian's archive lists and does not have:
`inside/mysql2.rb` is ours.
"""

from __future__ import annotations

import shutil

from tests.clients import debian
from tests.clients.environment import INSIDE, Environment
from tests.clients.suite import Invocation, Suite, Target

_HERE = Environment("ruby-mysql2")


def _prepare() -> None:
    debian.install(["ruby", "ruby-mysql2"])
    _HERE.folder.mkdir(parents=True, exist_ok=True)


def _invocation(target: Target) -> Invocation:
    return Invocation(
        (shutil.which("ruby") or "ruby", str(INSIDE / "mysql2.rb")),
        folder=_HERE.folder,
        environment=target.variables,
        seconds=300,
    )


SUITE = Suite(
    name="ruby-mysql2",
    title="Ruby's mysql2, on MariaDB's Connector/C: ours, with and without TLS and compression",
    versions="Debian's ruby-mysql2",
    statements=("CREATE DATABASE test", "CREATE DATABASE test2"),
    prepare=_prepare,
    invocation=_invocation,
)

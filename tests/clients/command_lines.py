"""The `mysql` client and MariaDB's. Neither comes with tests for a server: `inside` has ours."""

from __future__ import annotations

import json
import sys

from tests.clients import debian, versions
from tests.clients.environment import INSIDE, Environment
from tests.clients.suite import Invocation, Suite, Target
from tests.real_mysql.template import find_mysqld

_HERE = Environment("command_lines")
_MARIADB = _HERE.folder / "mariadb"


def _prepare() -> None:
    debian.unpack(versions.MARIADB_PACKAGES, _MARIADB)


def _invocation(target: Target) -> Invocation:
    mysqld = find_mysqld()
    assert mysqld is not None
    (library,) = _MARIADB.rglob("libmariadb.so.3")
    (plugins,) = _MARIADB.rglob("libmariadb3/plugin")
    libraries = f"LD_LIBRARY_PATH={library.parent}"
    clients = {
        "mysql": [str(mysqld.with_name("mysql"))],
        "mariadb": [
            "env",
            libraries,
            f"MARIADB_PLUGIN_DIR={plugins}",
            str(_MARIADB / "usr/bin/mariadb"),
        ],
    }
    return Invocation(
        (sys.executable, str(INSIDE / "command_lines.py")),
        folder=_HERE.folder,
        environment={**target.variables, "TIDEGATE_CLIENTS": json.dumps(clients)},
        seconds=600,
    )


SUITE = Suite(
    name="command-lines",
    title="the `mysql` client and MariaDB's: ours, with and without TLS and compression",
    versions="mysql 9.7, mariadb 10.11",
    statements=("CREATE DATABASE test", "CREATE DATABASE test2"),
    prepare=_prepare,
    invocation=_invocation,
)

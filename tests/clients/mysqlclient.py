"""mysqlclient's own tests, built with MariaDB's Connector/C."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.clients import debian, versions
from tests.clients.environment import Environment, adapt
from tests.clients.suite import PASSWORD, USER, Invocation, Suite, Target

_HERE = Environment("mysqlclient")
_LIBRARY = _HERE.folder / "connector-c"

_DEFAULTS = """\
[MySQLdb-tests]
host = {target.host}
port = {target.port}
user = {user}
password = {password}
database = test
default-character-set = utf8mb4
local-infile = 1
"""


def build() -> tuple[str, dict[str, str]]:
    """What pip is to install as mysqlclient, and the variables that its build and its use need."""
    debian.unpack(["libmariadb-dev", "libmariadb3"], _LIBRARY)
    (client,) = _LIBRARY.rglob("libmariadb.so.3")
    (header,) = _LIBRARY.rglob("mariadb/mysql.h")
    return versions.MYSQLCLIENT, {
        "MYSQLCLIENT_CFLAGS": f"-I{header.parent}",
        "MYSQLCLIENT_LDFLAGS": f"-L{client.parent} -lmariadb -Wl,-rpath,{client.parent}",
        "MARIADB_PLUGIN_DIR": str(client.parent / "libmariadb3" / "plugin"),
    }


def _prepare() -> None:
    requirement, variables = build()
    _HERE.install(requirement, *versions.TOOLS, extra=variables)


def _invocation(target: Target, autocommit: bool = False) -> Invocation:
    _, variables = build()
    source = _HERE.source(versions.MYSQLCLIENT, extra=variables)
    defaults = Path(source, "tests", "tidegate.cnf")
    defaults.write_text(_DEFAULTS.format(target=target, user=USER, password=PASSWORD))
    if autocommit:
        adapt(
            source / "tests" / "configdb.py",
            "connect_kwargs = {",
            'connect_kwargs = {"autocommit": True,',
        )
    return Invocation(
        _HERE.pytest("tests"),
        folder=source,
        environment={**variables, "TESTDB": str(defaults)},
    )


SUITE = Suite(
    name="mysqlclient",
    title="its own tests, on MariaDB's Connector/C",
    versions=versions.MYSQLCLIENT,
    statements=("CREATE DATABASE test DEFAULT CHARACTER SET utf8mb4",),
    prepare=_prepare,
    invocation=_invocation,
)

AUTOCOMMIT = replace(
    SUITE,
    name="mysqlclient-autocommit",
    title="the same in autocommit, so that replicas answer the reads",
    invocation=partial(_invocation, autocommit=True),
)

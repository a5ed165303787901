"""Languages and programs whose drivers no other suite has; `inside` has a program for each.

Erlang's p1_mysql, Racket's db, Bun's client and connectorx (on Rust's mysql) implement the protocol
themselves. Tcl's, Lua's, R's and ODBC's drivers and sysbench are on MariaDB's Connector/C.
"""

from __future__ import annotations

import json
import shutil
import sys

from tests.clients import debian, versions
from tests.clients.environment import INSIDE, Environment
from tests.clients.suite import Invocation, Suite, Target

_HERE = Environment("languages")
_PACKAGES = [
    *("erlang-p1-mysql", "erlang-ssl", "racket", "tcl", "mysqltcl", "lua5.4", "lua-sql-mysql"),
    *("r-base-core", "r-cran-rmysql", "unixodbc", "odbc-mariadb", "sysbench"),
]
_TLS = ("TLS", "no TLS")
"""TLS comes first: without it and a key, Racket lets nobody in whose digest is not known."""


def _prepare() -> None:
    debian.install(_PACKAGES)
    _HERE.install(versions.BUN, versions.PYODBC, *versions.CONNECTORX)


def _programs() -> dict[str, dict[str, list[str]]]:
    """The commands, by the programs and their ways."""
    python = str(_HERE.python)
    bun = str(_HERE.python.with_name("bun"))
    odbc = {
        "TLS": "FORCETLS=1",
        "no TLS": "",
        "rows as they are asked for": "NO_CACHE=1;FORWARDONLY=1",
    }
    return {
        "Erlang": {way: _command("escript", "p1_mysql.escript", way) for way in _TLS},
        "Racket": {way: _command("racket", "racket.rkt", way) for way in _TLS},
        "Bun": {way: _command(bun, "bun.ts", way) for way in _TLS},
        "Tcl": {way: _command("tclsh", "mysqltcl.tcl", way) for way in (*_TLS, "compression")},
        "Lua": {"no TLS": _command("lua5.4", "luasql.lua")},
        "R": {"no TLS": _command("Rscript", "rmysql.R")},
        "ODBC": {way: _command(python, "odbc.py", settings) for way, settings in odbc.items()},
        "connectorx": {way: _command(python, "connector_x.py", way) for way in ("binary", "text")},
    }


def _command(interpreter: str, program: str, *arguments: str) -> list[str]:
    return [shutil.which(interpreter) or interpreter, str(INSIDE / program), *arguments]


def _invocation(target: Target) -> Invocation:
    return Invocation(
        (sys.executable, str(INSIDE / "languages.py")),
        folder=_HERE.folder,
        environment={**target.variables, "TIDEGATE_PROGRAMS": json.dumps(_programs())},
        seconds=1200,
    )


SUITE = Suite(
    name="languages",
    title="Erlang's p1_mysql, Racket's db, Bun's SQL client and connectorx (on Rust's `mysql`),"
    " which implement the protocol themselves; Tcl's mysqltcl, LuaSQL, R's RMySQL, MariaDB's ODBC"
    " driver and sysbench, on MariaDB's Connector/C: ours, with and without TLS where a driver lets"
    " one choose",
    versions=f"{versions.BUN}, {versions.PYODBC}, {versions.CONNECTORX[0]}, the others Debian's",
    statements=("CREATE DATABASE test DEFAULT CHARACTER SET utf8mb4", "CREATE DATABASE test2"),
    prepare=_prepare,
    invocation=_invocation,
)

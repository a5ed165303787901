"""Go's driver with its own tests, by Debian's compiler."""

from __future__ import annotations

import shutil
import sys

from tests.clients import debian
from tests.clients.environment import CACHE, INSIDE
from tests.clients.suite import PASSWORD, USER, Invocation, Suite, Target

_FOLDER = CACHE / "clients" / "go"
_PACKAGE = "golang-github-go-sql-driver-mysql"


def _prepare() -> None:
    debian.install(["golang-go"])
    debian.source(_PACKAGE, _FOLDER)


def _invocation(target: Target) -> Invocation:
    (source,) = (_FOLDER / "unpacked-source").iterdir()
    go = shutil.which("go") or "go"
    return Invocation(
        (sys.executable, str(INSIDE / "golang.py"), go, "test", "-json", "-count=1", "."),
        folder=source,
        environment={
            "GOFLAGS": "-mod=mod",
            "GOPROXY": "off",
            "GOCACHE": str(_FOLDER / "cache"),
            "GOPATH": str(_FOLDER / "path"),
            "MYSQL_TEST_USER": USER,
            "MYSQL_TEST_PASS": PASSWORD,
            "MYSQL_TEST_PROT": "tcp",
            "MYSQL_TEST_ADDR": f"{target.host}:{target.port}",
            "MYSQL_TEST_DBNAME": "gotest",
        },
        seconds=900,
    )


SUITE = Suite(
    name="go",
    title="the own tests of Go's `go-sql-driver/mysql`",
    versions=f"Debian's {_PACKAGE}",
    statements=("CREATE DATABASE gotest",),
    prepare=_prepare,
    invocation=_invocation,
)

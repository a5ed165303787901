"""PHP's mysqli and PDO, on mysqlnd, with their own tests."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from tests.clients import debian
from tests.clients.environment import CACHE, INSIDE
from tests.clients.suite import PASSWORD, USER, Invocation, Suite, Target

_FOLDER = CACHE / "clients" / "php"
_TESTS = {"php-mysqli": "ext/mysqli/tests", "php-pdo": "ext/pdo_mysql/tests"}


def _package() -> str:
    """The source package of Debian's PHP."""
    php = Path(shutil.which("php") or "php").resolve()
    return php.name  # /usr/bin/php8.2


def _prepare() -> None:
    debian.install(["php-cli", "php-mysql", "php-xml"])
    debian.source(_package(), _FOLDER)


def _suite(name: str) -> Suite:
    def invocation(target: Target) -> Invocation:
        (source,) = (_FOLDER / "unpacked-source").iterdir()
        php = shutil.which("php") or "php"
        dsn = f"mysql:host={target.host};port={target.port};dbname=test"
        return Invocation(
            (sys.executable, str(INSIDE / "phpt.py"), php, "run-tests.php", _TESTS[name]),
            folder=source,
            environment={
                "MYSQL_TEST_HOST": target.host,
                "MYSQL_TEST_PORT": str(target.port),
                "MYSQL_TEST_USER": USER,
                "MYSQL_TEST_PASSWD": PASSWORD,
                "MYSQL_TEST_DB": "test",
                "PDO_MYSQL_TEST_DSN": dsn,
                "PDO_MYSQL_TEST_HOST": target.host,
                "PDO_MYSQL_TEST_PORT": str(target.port),
                "PDO_MYSQL_TEST_USER": USER,
                "PDO_MYSQL_TEST_PASS": PASSWORD,
                "PDO_MYSQL_TEST_DB": "test",
            },
            seconds=1500,
        )

    return Suite(
        name=name,
        title=f"the tests of PHP's `{_TESTS[name].split('/')[1]}`, on mysqlnd, with `scope = user`,"
        " since they write on one connection and read on another",
        versions="Debian's php-mysql",
        statements=("CREATE DATABASE test",),
        prepare=_prepare,
        invocation=invocation,
        options={"scope": "user"},
    )


MYSQLI = replace(
    _suite("php-mysqli"),
    known={
        "mysqli_pam_sha256_public_key_option": "tests that encrypt the password for the key that"
        " SHOW STATUS names, which is the primary's. Tidegate has one of its own, which clients"
        " get if they ask as they log in, unless `rsa-key` names the primary's.",
        "mysqli_connect_twice": "a test that connects once more and expects another connection id."
        " A client that logs in where another one has just left may get that one's connection to"
        " the primary, and its id. `kept-connections = 0` gives each login an id of its own.",
    },
)
PDO = _suite("php-pdo")

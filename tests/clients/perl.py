"""Perl's DBD::mysql and DBD::MariaDB, both on MariaDB's Connector/C, with their own tests."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.clients import debian
from tests.clients.environment import CACHE, INSIDE
from tests.clients.suite import PASSWORD, USER, Invocation, Suite, Target


def _suite(driver: str, package: str, left_out: dict[str, str]) -> Suite:
    folder = CACHE / "clients" / driver

    def prepare() -> None:
        debian.install(["perl", "libdbi-perl", package, "libtest-deep-perl", "libnet-ssleay-perl"])
        debian.source(package, folder)

    def invocation(target: Target) -> Invocation:
        (source,) = (path.parent for path in folder.glob("unpacked-source/*/t"))
        files = sorted(str(path.relative_to(source)) for path in source.glob("t/*.t"))
        files = [file for file in files if Path(file).stem not in left_out]
        dsn = f"DBI:{driver}:database=test;host={target.host};port={target.port}"
        settings = source / "t" / f"{driver}.mtest"
        settings.write_text(_SETTINGS.format(target=target, dsn=dsn, user=USER, password=PASSWORD))
        perl = shutil.which("perl") or "perl"
        return Invocation(
            (sys.executable, str(INSIDE / "tap.py"), perl, "-I.", "-It", "--", *files),
            folder=source,
            environment={
                "DBI_DSN": dsn,
                "DBI_USER": USER,
                "DBI_PASS": PASSWORD,
                "PERL_HASH_SEED": "0",  # tests of a hash's keys are named and numbered in its order
            },
            seconds=1200,
        )

    return Suite(
        name=driver.lower().replace("mysql", "dbd-mysql").replace("mariadb", "dbd-mariadb"),
        title=f"the tests of Perl's DBD::{driver}, on MariaDB's Connector/C",
        versions=f"Debian's {package}",
        statements=("CREATE DATABASE test",),
        prepare=prepare,
        invocation=invocation,
    )


_SETTINGS = """\
$::test_host = '{target.host}';
$::test_port = '{target.port}';
$::test_db = 'test';
$::test_dsn = '{dsn}';
$::test_user = '{user}';
$::test_password = '{password}';
$::test_mysql_config = 'true';
$::test_force_embedded = 0;
1;
"""

_LEFT_OUT = {
    "manifest": "of the package",
    "pod": "of the documentation",
}

MYSQL = _suite("mysql", "libdbd-mysql-perl", _LEFT_OUT)
MARIADB = _suite("MariaDB", "libdbd-mariadb-perl", _LEFT_OUT)

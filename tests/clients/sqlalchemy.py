"""SQLAlchemy's tests of its MySQL dialect, by way of PyMySQL."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.clients import versions
from tests.clients.environment import Environment
from tests.clients.suite import PASSWORD, USER, Invocation, Suite, Target

_HERE = Environment("sqlalchemy")


def _prepare() -> None:
    _HERE.install(versions.SQLALCHEMY, versions.PYMYSQL, *versions.TOOLS)


def _invocation(target: Target, autocommit: bool = False) -> Invocation:
    more = "&autocommit=1" if autocommit else ""
    address = f"{USER}:{PASSWORD}@{target.host}:{target.port}"
    return Invocation(
        # Its tests hold objects in sets, in the order of the objects' addresses, and which fail
        # depends on it. So both runs have the same addresses.
        (
            "setarch",
            "-R",
            *_HERE.pytest(
                "--maxfail=10000",
                f"--dburi=mysql+pymysql://{address}/test?charset=utf8mb4{more}",
                "test/dialect/test_suite.py",
                "test/dialect/mysql",
            ),
        ),
        folder=_HERE.source(versions.SQLALCHEMY),
    )


SUITE = Suite(
    name="sqlalchemy",
    title="its dialect suite (`test/dialect/test_suite.py` and `test/dialect/mysql`) with PyMySQL",
    versions=f"{versions.SQLALCHEMY}, {versions.PYMYSQL}",
    statements=(
        "CREATE DATABASE test DEFAULT CHARACTER SET utf8mb4",
        "CREATE DATABASE test_schema DEFAULT CHARACTER SET utf8mb4",
        "CREATE DATABASE test_schema_2 DEFAULT CHARACTER SET utf8mb4",
    ),
    prepare=_prepare,
    invocation=_invocation,
)

# Its connections come from a pool: what one defines, another reads.
AUTOCOMMIT = replace(
    SUITE,
    name="sqlalchemy-autocommit",
    title="the same in autocommit, with `scope = user`, since its connections come from a pool",
    invocation=partial(_invocation, autocommit=True),
    options={"scope": "user"},
    known={
        "SAVEPOINT sa_savepoint_1 does not exist": (
            "tests that release a savepoint, which there is none of in autocommit. After one that "
            "fails so, others fail, too, directly and through Tidegate; which they are depends on "
            "where its objects are in memory."
        )
    },
)

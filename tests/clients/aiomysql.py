"""aiomysql's own tests."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.clients import versions
from tests.clients.environment import Environment, adapt
from tests.clients.suite import PASSWORD, USER, Invocation, Suite, Target

_HERE = Environment("aiomysql")


def _prepare() -> None:
    _HERE.install(versions.AIOMYSQL, *versions.AIOMYSQL_NEEDS, *versions.TOOLS)


def _invocation(target: Target, tests_of: str = "tests") -> Invocation:
    source = _HERE.source(versions.AIOMYSQL)
    tests = source / "tests"
    # The servers of this run have certificates of their own.
    adapt(tests / "conftest.py", "# ctx.verify_mode = ssl.CERT_NONE", "ctx.verify_mode = 0")
    # What is for 8.0 is for what came later, too.
    adapt(tests / "conftest.py", "server_version_tuple_short == (8, 0)", "True")
    adapt(tests / "test_sha_connection.py", "!= (8, 0)", "< (8, 0)")
    assert USER == "root", "the account that these tests use"
    return Invocation(
        _HERE.pytest(f"--mysql-address=tcp={target.host}:{target.port}", tests_of),
        folder=source,
        environment={"MYSQL_ROOT_PASSWORD": PASSWORD},
    )


SUITE = Suite(
    name="aiomysql",
    title="its own tests, with asyncio's event loop and uvloop's",
    versions=versions.AIOMYSQL,
    statements=(),
    prepare=_prepare,
    invocation=_invocation,
    known={
        "test_sha256_": "tests that ask which plugin an account has. Tidegate has no accounts and"
        " takes every password by caching_sha2_password; the login itself succeeds.",
        "test_sa_transaction": "tests that write on one connection and look for it on another,"
        " sooner than a replica has it; which of them fail is a matter of time. READ_OWN_WRITES"
        " with `scope = connection` does not promise that; `scope = user` does"
        " (see aiomysql-user).",
    },
)

USER_SCOPE = replace(
    SUITE,
    name="aiomysql-user",
    title="of the same, those that write on one connection and read on another (`tests/sa`), with"
    " Tidegate's option `scope = user`",
    invocation=partial(_invocation, tests_of="tests/sa"),
    options={"scope": "user"},
    known={},
)

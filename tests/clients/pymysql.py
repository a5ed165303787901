"""PyMySQL's own tests, with its newest release."""

import json
from dataclasses import replace
from functools import partial

from tests.clients import versions
from tests.clients.environment import Environment, adapt
from tests.clients.suite import PASSWORD, USER, Invocation, Suite, Target

_HERE = Environment("pymysql")

# What the tests import of the package that they came with, and later releases do not have.
_GONE = {
    "_compat.py": """\
PY2 = PYPY = JYTHON = IRONPYTHON = False
CPYTHON = True
text_type, long_type, range_type, str_type, unichr = str, int, range, str, chr
""",
    "util.py": """\
def int2byte(number):
    return bytes([number])
""",
}


def _prepare() -> None:
    _HERE.install(versions.PYMYSQL, *versions.TOOLS)


def _invocation(target: Target, autocommit: bool = False) -> Invocation:
    # Their imports say `pymysql.tests`: so they go into the newest release's package.
    packages = _HERE.packages()
    tests = packages / "pymysql" / "tests"
    _HERE.replace(_HERE.source(versions.PYMYSQL_TESTS) / "pymysql" / "tests", tests)
    (tests / "__init__.py").write_text("")  # it loads every module, so pytest would find all twice
    for name, text in _GONE.items():
        (packages / "pymysql" / name).write_text(text)
    account: dict[str, object] = {
        "host": target.host,
        "port": target.port,
        "user": USER,
        "passwd": PASSWORD,
    }
    if autocommit:
        account["autocommit"] = True
    databases = [
        {**account, "db": "test1", "use_unicode": True, "local_infile": True},
        {**account, "db": "test2"},
    ]
    (tests / "databases.json").write_text(json.dumps(databases))
    # The package lacks this file: as many rows as the tests expect.
    (tests / "data").mkdir(exist_ok=True)
    (tests / "data" / "load_local_data.txt").write_text("1,2\n" * 22_749)
    authentication = tests / "test_auth.py"
    authentication.write_bytes((_HERE.source(versions.PYMYSQL) / "tests/test_auth.py").read_bytes())
    adapt(authentication, "port = 3306", f"port = {target.port}")
    adapt(authentication, 'os.path.expanduser("~/ca.pem")', "None")
    return Invocation(
        _HERE.pytest("pymysql/tests"),
        folder=packages,
        environment={"USER": USER},
    )


SUITE = Suite(
    name="pymysql",
    title="the tests of PyMySQL 0.10.1, the last source package with all of them,"
    " and the newest one's tests of authentication",
    versions=versions.PYMYSQL,
    statements=(
        "CREATE USER user_sha256 IDENTIFIED WITH sha256_password"
        " BY 'pass_sha256_01234567890123456789'",
        "CREATE USER nopass_sha256 IDENTIFIED WITH sha256_password",
        "CREATE USER user_caching_sha2 IDENTIFIED WITH caching_sha2_password"
        " BY 'pass_caching_sha2_01234567890123456789'",
        "CREATE USER nopass_caching_sha2 IDENTIFIED WITH caching_sha2_password",
        "GRANT RELOAD ON *.* TO user_caching_sha2",
        "CREATE DATABASE test1 DEFAULT CHARACTER SET utf8mb4",
        "CREATE DATABASE test2 DEFAULT CHARACTER SET utf8mb4",
    ),
    prepare=_prepare,
    invocation=_invocation,
    known={
        "test_issue_36": "a test that compares the id it was greeted with to the process list's."
        " Clients that negotiate alike are greeted with the id of a kept connection. The first one"
        " that then negotiates something else (here no LOCAL INFILE) gets another connection; KILL"
        " of the id that it was told is translated. `kept-connections = 0` keeps ids the same.",
    },
)

AUTOCOMMIT = replace(
    SUITE,
    name="pymysql-autocommit",
    title="the same in autocommit, so that replicas answer the reads",
    invocation=partial(_invocation, autocommit=True),
)

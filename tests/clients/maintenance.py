"""What operators run at a server: dumps and their way back, and changes of tables in use.

None comes with tests for a server: `inside` has ours.
"""

from __future__ import annotations

import json
import sys

from tests.clients import debian
from tests.clients.environment import INSIDE, Environment
from tests.clients.suite import Invocation, Suite, Target
from tests.real_mysql.template import find_mysqld

_HERE = Environment("maintenance")
_PACKAGES = ["mydumper", "percona-toolkit"]


def _prepare() -> None:
    debian.install(_PACKAGES)
    _HERE.folder.mkdir(parents=True, exist_ok=True)


def _invocation(target: Target) -> Invocation:
    mysqld = find_mysqld()
    assert mysqld is not None
    programs = {name: str(mysqld.with_name(name)) for name in ("mysql", "mysqldump", "mysqladmin")}
    return Invocation(
        (sys.executable, str(INSIDE / "maintenance.py")),
        folder=_HERE.folder,
        environment={**target.variables, "TIDEGATE_PROGRAMS": json.dumps(programs)},
        seconds=600,
    )


SUITE = Suite(
    name="maintenance",
    title="`mysqldump`, `mysqladmin`, mydumper and myloader, and Percona Toolkit's"
    " `pt-online-schema-change`, `pt-archiver` and `pt-table-checksum`: ours",
    versions="mysqldump 9.7, Debian's mydumper and percona-toolkit",
    statements=("CREATE DATABASE test DEFAULT CHARACTER SET utf8mb4",),
    prepare=_prepare,
    invocation=_invocation,
)

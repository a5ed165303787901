"""MariaDB's regression scripts, by their client `mysqltest`, at a server that runs already.

Directly, each script runs twice, and passes if it prints the same both times. Through Tidegate it
passes if it prints that once more. The order of lines does not count: few scripts sort their rows.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from tidegate_recording import record

SCRIPTS, OUTPUTS = Path(os.environ["TIDEGATE_SCRIPTS"]), Path(os.environ["TIDEGATE_OUTPUTS"])
HOST, PORT = os.environ["TIDEGATE_HOST"], int(os.environ["TIDEGATE_PORT"])
USER, PASSWORD = os.environ["TIDEGATE_USER"], os.environ["TIDEGATE_PASSWORD"]
SECONDS = 10 if os.environ["TIDEGATE_TARGET"] == "direct" else 60
"""Scripts that take longer directly are left out; through Tidegate one may be as slow as a machine
that does other things makes it."""
SKIPPED = 62
"""The exit status of `mysqltest` if a script says that it cannot run here."""
SCHEMAS = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA"
ACCOUNTS = "SELECT CONCAT(QUOTE(User), '@', QUOTE(Host)) FROM mysql.user"
VARIABLES = "SELECT * FROM performance_schema.global_variables"
READ_ONLY = {"gtid_executed", "gtid_owned", "gtid_purged", "timestamp"}


@dataclass(frozen=True)
class State:
    """What is there before the first script: schemas, accounts, global variables."""

    schemas: set[str]
    accounts: set[str]
    variables: dict[str, str]

    @classmethod
    def read(cls, cursor: Cursor) -> State:
        """Ask the server."""
        answers = []
        for question in (SCHEMAS, ACCOUNTS, VARIABLES):
            cursor.execute(question)
            answers.append(cursor.fetchall())
        schemas, accounts, variables = answers
        return cls({name for (name,) in schemas}, {name for (name,) in accounts}, dict(variables))

    def restore(self, connection: Connection[Cursor]) -> None:
        """Drop what was made since, change variables back, and have an empty schema `test`."""
        with connection.cursor() as cursor:
            now = State.read(cursor)
            for name, value in self.variables.items():
                if now.variables.get(name, value) != value and name not in READ_ONLY:
                    literal = value if re.fullmatch(r"-?\d+(\.\d+)?|ON|OFF", value) else repr(value)
                    cursor.execute(f"SET GLOBAL {name} = {literal}")
            for schema in {*(now.schemas - self.schemas), "test"}:
                cursor.execute(f"DROP DATABASE IF EXISTS `{schema.replace('`', '``')}`")
            for account in now.accounts - self.accounts:
                cursor.execute(f"DROP USER {account}")
            cursor.execute("CREATE DATABASE test")


def connect() -> Connection[Cursor]:
    """Log in as the scripts do."""
    return pymysql.connect(
        host=HOST,
        port=PORT,
        user=USER,
        password=PASSWORD,
        autocommit=True,
        init_command="SET lock_wait_timeout = 60",  # a script that was ended may hold locks
    )


@dataclass(frozen=True)
class Printed:
    """What a run of a script printed, and how it ended: an exit status, or None if it hung."""

    lines: list[str]
    status: int | None


def run(script: Path, state: State) -> Printed:
    """Run a script, from the state that all begin with."""
    connection = connect()
    state.restore(connection)
    connection.close()
    written = OUTPUTS / "written"
    shutil.rmtree(written, ignore_errors=True)
    written.mkdir(parents=True)
    command = json.loads(os.environ["TIDEGATE_MYSQLTEST"])
    command += [f"--host={HOST}", f"--port={PORT}", f"--user={USER}", f"--password={PASSWORD}"]
    command += [f"--test-file={script}", f"--tmpdir={written}", f"--logdir={written}"]
    environment = {
        "MYSQLTEST_VARDIR": str(written),
        "MYSQL_TMP_DIR": str(written),
        "MYSQL_TEST_DIR": str(SCRIPTS),
        "MASTER_MYPORT": str(PORT),
    }
    try:
        done = subprocess.run(
            [*command, "test"],
            cwd=SCRIPTS,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Printed([], None)
    servers = str(Path(state.variables["datadir"]).parent)  # another folder in each run of a suite
    output = done.stdout.decode("latin-1").replace(servers, "SERVERS")
    return Printed(output.splitlines(), done.returncode)


def judge(name: str, state: State) -> tuple[str, str]:
    """Run a script at the target; its outcome, and what differs if it did not pass."""
    script, kept = SCRIPTS / "main" / f"{name}.test", OUTPUTS / f"{name}.json"
    first = run(script, state)
    if first.status == SKIPPED:
        return "skipped", "\n".join(first.lines)
    if os.environ["TIDEGATE_TARGET"] == "direct":
        kept.unlink(missing_ok=True)
        if first.status is None:
            return "failed", f"not ended within {SECONDS} s"
        expected, found = first, run(script, state)
        kept.write_text(json.dumps([first.lines, first.status]))
    elif kept.exists():
        expected, found = Printed(*json.loads(kept.read_text())), first
    else:
        return "skipped", "it hangs directly"
    same = Counter(found.lines) == Counter(expected.lines) and found.status == expected.status
    difference = difflib.unified_diff(expected.lines, found.lines, "direct", "found", lineterm="")
    return ("passed", "") if same else ("failed", "\n".join(difference)[:4000])


def main() -> None:
    """Run all scripts that TIDEGATE_NAMES (JSON) names, in this order."""
    with connect().cursor() as cursor:
        state = State.read(cursor)
    for name in json.loads(os.environ["TIDEGATE_NAMES"]):
        record(name, *judge(name, state))


if __name__ == "__main__":
    main()

"""The regression scripts of MariaDB's own suite, run by their own client, `mysqltest`.

They are neither part of this repository nor copied into it: Debian's packages are fetched, and
adapted below ``.cache/clients``.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from tests.clients import debian, versions
from tests.clients.environment import INSIDE, Environment
from tests.clients.suite import PASSWORD, Invocation, Suite, Target

_HERE = Environment("mysqltest")
_PACKAGES = _HERE.folder / "packages"
_SCRIPTS = _HERE.folder / "scripts"

_LEFT_OUT = re.compile(
    # what is not there, or takes the server down
    rb"source +include/(restart|have_debug|have_perf|master|kill_|start_mysqld|big_test|have_ucs2"
    rb"|have_query_cache|have_sequence|mysql_upgrade|have_wsrep|have_example|switch_to_mysql"
    rb"|have_plugin|have_binlog|have_innodb_16|ipv6|ipv4)"
    rb"|restart_mysqld|shutdown|install (plugin|soname)|^[ -]*exec\b|^[ -]*perl;"
    # what concerns one server: its logs, its counters, its connections
    rb"|rpl_|reset (master|binary)|purge binary|show (master|binary|binlog)|general_log|slow_log"
    rb"|processlist|show (global |session )?status"
    # what writes past the binary log, or takes from the account what all scripts need
    rb"|sql_log_bin|read_only|set password|drop database mysql"
    rb"|mysql\.(user|db|global_priv|proc|tables_priv|columns_priv|event)\b"
    # MyISAM's merged tables: a replica applies writes to their parts in any order, and may stop
    rb"|engine *= *(mrg_)?(merge|mrg)|\bunion *= *\("
    # what leaves files on the server
    rb"|outfile|dumpfile"
    # what is random, or takes long
    rb"|\b(sysdate|uuid|uuid_short|rand|connection_id|sleep|benchmark)\(",
    re.IGNORECASE | re.MULTILINE,
)
_EMPTIED = {
    # what MySQL 9.7 has, but does not list as MariaDB does
    *("have_partition.inc", "have_innodb.inc", "have_geometry.inc", "not_embedded.inc"),
    *("no_view_protocol.inc", "default_optimizer_switch.inc", "not_valgrind.inc"),
    # waits for connections to end, which Tidegate keeps for the next client
    *("count_sessions.inc", "wait_until_count_sessions.inc", "wait_until_disconnected.inc"),
}


def _prepare() -> None:
    debian.unpack(versions.MYSQLTEST_PACKAGES, _PACKAGES)
    shutil.rmtree(_SCRIPTS, ignore_errors=True)
    (source,) = _PACKAGES.glob("usr/share/*/mysql-test")
    for folder in ("std_data", "suite"):
        _SCRIPTS.mkdir(parents=True, exist_ok=True)
        (_SCRIPTS / folder).symlink_to(source / folder)
    for folder in ("main", "include"):
        (_SCRIPTS / folder).mkdir()
        for file in source.joinpath(folder).iterdir():
            if file.suffix in (".test", ".inc"):
                text = b"" if file.name in _EMPTIED else _adapted(file.read_bytes())
                head = _HEAD if file.suffix == ".test" else b""
                (_SCRIPTS / folder / file.name).write_bytes(head + text)
            elif file.suffix != ".result":
                (_SCRIPTS / folder / file.name).symlink_to(file)


_HEAD = b"--disable_abort_on_error\n--enable_info\n"


def _adapted(script: bytes) -> bytes:
    """A script for MySQL: errors are other ones, and plans depend on statistics."""
    script = _ERROR.sub(b"", script)
    script = _EXPLAIN.sub(b"", script)
    return _CONNECT.sub(rb"\1," + PASSWORD.encode(), script)


_ERROR = re.compile(rb"^[ \t]*(--[ \t]*error\b.*$|error[ \t]+[A-Z0-9_, \t]+;)", re.M | re.I)
_EXPLAIN = re.compile(
    rb"^[ \t]*(eval[ \t]+)?(explain|analyze)\b(?!\s+table).*?;", re.M | re.I | re.S
)
_CONNECT = re.compile(
    rb"^([ \t-]*connect[ \t]*\(?[ \t]*[\w$]+[ \t]*,[^,;\n]*,[ \t]*root)[ \t]*(?:,[ \t]*)?(?=[,;)])",
    re.MULTILINE,
)


def _names() -> list[str]:
    """The scripts that are run, in the order of the alphabet."""
    scripts = sorted(_SCRIPTS.glob("main/*.test"))
    return [script.stem for script in scripts if not _LEFT_OUT.search(_with_sources(script))]


def _with_sources(script: Path) -> bytes:
    """A script's text, and that of the files that it reads."""
    text = script.read_bytes()
    for name in _SOURCE.findall(text):
        for file in (_SCRIPTS / name.decode(), script.parent / name.decode()):
            if file.is_file():
                text += _with_sources(file)
                break
    return text


_SOURCE = re.compile(rb"^[ \t-]*source[ \t]+['\"]?([\w./-]+)", re.MULTILINE | re.IGNORECASE)


def _invocation(target: Target) -> Invocation:
    (library,) = _PACKAGES.rglob("libpcre2-posix.so.3")
    (plugins,) = _PACKAGES.rglob("libmariadb3/plugin")
    command = [
        *("env", f"LD_LIBRARY_PATH={library.parent}", str(_PACKAGES / "usr/bin/mariadb-test")),
        *("--no-defaults", "--protocol=tcp", "--skip-ssl", f"--plugin-dir={plugins}"),
        *(f"--basedir={_SCRIPTS}", "--max-connect-retries=1"),
    ]
    return Invocation(
        (sys.executable, str(INSIDE / "mysqltest.py")),
        folder=_HERE.folder,
        environment={
            **target.variables,
            "TIDEGATE_MYSQLTEST": json.dumps(command),
            "TIDEGATE_SCRIPTS": str(_SCRIPTS),
            "TIDEGATE_OUTPUTS": str(_HERE.folder / "outputs"),
            "TIDEGATE_NAMES": json.dumps(_names()),
        },
    )


SUITE = Suite(
    name="mysqltest",
    title="the regression scripts of MariaDB's suite `main` that can run at a server that is there,"
    " run by their own client `mysqltest`. A script passes directly if it prints the same twice,"
    " errors included, and through Tidegate if it prints that once more. Tidegate runs with"
    " `consistency = STRONG`, since scripts write as a user and read as another, and with"
    " `explain = primary`",
    versions="Debian's mariadb-test",
    statements=(),
    # Or plans, and with them warnings, depend on when a server counts a table's rows.
    everywhere=("SET GLOBAL innodb_stats_auto_recalc = OFF",),
    prepare=_prepare,
    invocation=_invocation,
    options={"consistency": "STRONG", "explain": "primary"},
    known={
        "larger than max_allowed_packet": "scripts that make `max_allowed_packet` smaller with SET"
        " GLOBAL, which changes the primary alone; on replicas functions may give more.",
        "require_secure_transport": "a script that sets this variable of the primary. What clients"
        " need is told by `client-tls`.",
        "mysqltest_tracking_info": "a script that sets `session_track_system_variables` with SET"
        " GLOBAL, which has no effect on what clients are sent.",
        "Com_select": "a script that asks for a counter, in which questions of Tidegate's are.",
        "select_safe": "a script with `max_join_size`: whether a statement would examine too many"
        " rows is estimated, from statistics that each server has of its own.",
        "fulltext_left_join": "a script that shows the relevance of MATCH … AGAINST, for"
        " which each server has statistics of its own.",
        "alter_table_mdev539_maria": "a script in which a key is added to rows that break two of"
        " them. Which of the two the error names is a matter of chance, at a server, too.",
        "Lost connection to server at 'reading authorization packet'": "a script that prints the"
        " operating system's error behind a change of user that ended the connection.",
        "Cardinality": "a script that shows the cardinality of an index: the server decides when"
        " the rows are counted.",
        "Incorrect date value": "a script that prints the time.",
        "Create_time": "a script that prints the time.",
    },
)

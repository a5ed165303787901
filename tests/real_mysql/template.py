"""Where mysqld is, and a data directory with the tests' accounts that every test server copies."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.real_mysql.certificates import write_certificates

CACHE = Path(__file__).resolve().parents[2] / ".cache"

APP_USER, APP_PASSWORD = "app", "app-secret"
MONITOR_USER, MONITOR_PASSWORD = "monitor", "monitor-secret"
REPLICATION_USER, REPLICATION_PASSWORD = "replicator", "replicator-secret"

RIGHTS = f"""\
GRANT ALL ON app.* TO '{APP_USER}'@'%';
GRANT REPLICATION CLIENT ON *.* TO '{MONITOR_USER}'@'%';
GRANT SELECT ON performance_schema.* TO '{MONITOR_USER}'@'%';
"""

ACCOUNTS = f"""\
CREATE DATABASE app;
CREATE USER '{APP_USER}'@'%' IDENTIFIED WITH caching_sha2_password BY '{APP_PASSWORD}';
CREATE USER '{MONITOR_USER}'@'%' IDENTIFIED WITH caching_sha2_password BY '{MONITOR_PASSWORD}';
{RIGHTS}\
CREATE USER '{REPLICATION_USER}'@'%'
  IDENTIFIED WITH caching_sha2_password BY '{REPLICATION_PASSWORD}';
GRANT REPLICATION SLAVE ON *.* TO '{REPLICATION_USER}'@'%';
"""

NO_MYSQLD = "no mysqld 9: run scripts/install-mysql, or name one in TIDEGATE_MYSQLD"

BASE_OPTIONS = [
    "--no-defaults",
    "--user=root",  # ignored unless root starts it
    "--innodb-buffer-pool-size=64M",
    "--innodb-redo-log-capacity=32M",
]


def find_mysqld() -> Path | None:
    """The server program to test with: named, unpacked by scripts/install-mysql, or installed."""
    if named := os.environ.get("TIDEGATE_MYSQLD"):
        return Path(named)
    unpacked = Path(os.environ.get("TIDEGATE_MYSQL_DIR", CACHE / "mysql")) / "bin" / "mysqld"
    if unpacked.exists():
        return unpacked
    installed = shutil.which("mysqld") or shutil.which("/usr/sbin/mysqld")
    return Path(installed) if installed and version(Path(installed)).startswith("9.") else None


def version(mysqld: Path) -> str:
    """What the program says of itself, from its number on; where it lies does not matter."""
    output = subprocess.run(
        [mysqld, "--no-defaults", "--version"], check=True, capture_output=True, text=True
    ).stdout
    return output.partition(" Ver ")[2].strip()


def data_template(mysqld: Path) -> Path:
    """A data directory with accounts, schema `app` and certificates; made once per version.

    It has no auto.cnf, so a server started on a copy gives itself a server_uuid of its own.
    """
    ingredients = [version(mysqld), ACCOUNTS, *BASE_OPTIONS, Path(__file__).read_text()]
    key = hashlib.sha256("\0".join(ingredients).encode()).hexdigest()[:16]
    finished = CACHE / f"mysql-data-{key}"
    if finished.exists():
        return finished
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "making-data.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():  # as it does if another test run made it meanwhile
            _make_template(mysqld, finished)
    return finished


def _make_template(mysqld: Path, finished: Path) -> None:
    for outdated in CACHE.glob("mysql-data-*"):
        shutil.rmtree(outdated, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="making-data-", dir=CACHE) as folder:
        data, accounts, log = (Path(folder, name) for name in ("data", "accounts.sql", "log"))
        accounts.write_text("".join(f"{s.replace(chr(10), ' ')};\n" for s in statements(ACCOUNTS)))
        command = [str(mysqld), *BASE_OPTIONS, "--initialize-insecure", f"--datadir={data}"]
        command += [f"--init-file={accounts}", f"--log-error={log}", "--secure-file-priv="]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            error_log = log.read_text() if log.exists() else ""
            raise RuntimeError(
                f"mysqld --initialize failed:\n{done.stdout}{done.stderr}{error_log}"
            )
        (data / "auto.cnf").unlink()
        write_certificates(data)
        data.rename(finished)


def statements(script: str) -> list[str]:
    """The statements of a script in which no literal holds a semicolon."""
    return [s.strip() for s in script.split(";") if s.strip()]

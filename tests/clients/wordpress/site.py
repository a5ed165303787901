"""WordPress as Debian packages it, on PHP's own server."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from scripts.ports import reserve_port
from tests.clients import debian
from tests.clients.environment import CACHE, outside
from tests.real_mysql.cluster import Cluster

DATABASE, USER = "wordpress", "wordpress"

_FOLDER = CACHE / "clients" / "wordpress"
_ROOT = _FOLDER / "usr" / "share" / "wordpress"
_PACKAGES = ["wordpress", "wordpress-theme-twentytwentyone"]

# What the package's own file reads from /etc is said here; the rest keeps it from sending requests,
# since nobody else is to be asked, and PHP's server answers one at a time.
_CONFIGURATION = """<?php
define('DB_HOST', getenv('WORDPRESS_DB'));
define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_PASSWORD', getenv('WORDPRESS_PASSWORD'));
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {
    define($name . '_KEY', $name . getenv('WORDPRESS_PASSWORD'));
    define($name . '_SALT', getenv('WORDPRESS_PASSWORD') . $name);
}
define('WP_DEBUG', true);
define('WP_DEBUG_DISPLAY', false);
define('WP_DEBUG_LOG', getenv('WORDPRESS_LOG'));
define('WP_DEFAULT_THEME', 'twentytwentyone');
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('ABSPATH', __DIR__ . '/');
$table_prefix = 'wp_';
require_once ABSPATH . 'wp-settings.php';
"""
_SEND_NOTHING = """<?php
add_filter('pre_http_request', fn() => new WP_Error('http_request_failed', 'not here'));
"""


class Site:
    """A server of pages.

    Attributes:
        url: of its front page.
    """

    def __init__(self, port: int, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self._log = log

    @property
    def errors(self) -> list[str]:
        """What WordPress wrote down of errors of its database."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return [line for line in lines if "database error" in line or "mysqli" in line]


def prepare() -> None:
    """Fetch what is needed, and write the configuration."""
    debian.install(["php-cli", "php-mysql", "php-xml"])
    debian.unpack(_PACKAGES, _FOLDER)
    (_ROOT / "wp-config.php").write_text(_CONFIGURATION)
    plugins = _ROOT / "wp-content" / "mu-plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / "send-nothing.php").write_text(_SEND_NOTHING)


@contextlib.contextmanager
def site(cluster: Cluster, database_port: int) -> Iterator[Site]:
    """Run WordPress on a new, empty database for the length of a `with` block.

    Args:
        cluster: where the database is made; its replicas have it then.
        database_port: where WordPress connects, on 127.0.0.1.

    Raises:
        RuntimeError: PHP's server does not start.
    """
    password = secrets.token_hex(16)
    for statement in (
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE}",
        f"DROP USER IF EXISTS {USER}@'%'",
        f"CREATE USER {USER}@'%' IDENTIFIED BY '{password}'",
        f"GRANT ALL ON {DATABASE}.* TO {USER}@'%'",
    ):
        cluster.primary.query(statement)
    cluster.wait_caught_up()
    port = reserve_port()
    log = cluster.scratch.path / f"wordpress-{port}.log"
    output_path = cluster.scratch.path / f"php-{port}.txt"
    command = [shutil.which("php") or "php", "-S", f"127.0.0.1:{port}", "-t", str(_ROOT)]
    command += ["-d", "sendmail_path=/bin/true", "-d", "max_execution_time=300"]
    environment = {
        **outside(),
        "WORDPRESS_DB": f"127.0.0.1:{database_port}",
        "WORDPRESS_PASSWORD": password,
        "WORDPRESS_LOG": str(log),
    }
    with output_path.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    cluster.scratch.watch("php", process.pid)
    try:
        _wait_ready(process, port, output_path)
        yield Site(port, log)
    finally:
        process.kill()
        process.wait()
        cluster.scratch.unwatch("php")


def _wait_ready(process: subprocess.Popen[bytes], port: int, output_path: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(
                f"PHP's server did not start:\n{output_path.read_text(errors='replace')}"
            )
        time.sleep(0.05)

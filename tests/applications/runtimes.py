"""What runs the applications: Python, Node, Ruby, PHP and Java, with what each of them needs."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from scripts.ports import reserve_port
from tests.clients import debian, versions
from tests.clients.environment import Environment, quietly

INSIDE = Path(__file__).parent / "inside"
_PYTHON = {
    "sqlalchemy": [versions.SQLALCHEMY, versions.PYMYSQL],
    "django": [versions.DJANGO, versions.PYMYSQL],
    "peewee": [versions.PEEWEE, versions.PYMYSQL],
}
_NODE = {
    "knex": [versions.KNEX, versions.MYSQL2],
    "sequelize": [versions.SEQUELIZE, versions.MYSQL2],
}
_RUBY = ["ruby-activerecord", "ruby-mysql2"]  # this machine's Debian's own, and so below
_PHP = ["php-cli", "php-mysql", "php-illuminate-database"]
_JAVA = [
    *("libhikaricp-java", "libmariadb-java", "libspring-jdbc-java", "libspring-transaction-java"),
    *("libspring-core-java", "libspring-beans-java", "libslf4j-java", "libcommons-logging-java"),
]
_JARS = [
    *("HikariCP", "mariadb-java-client", "spring3-jdbc", "spring3-transaction", "spring3-core"),
    *("spring3-beans", "slf4j-api", "slf4j-nop", "commons-logging"),
]
_MEDIAWIKI = ["mediawiki", "php-cli", "php-mysql", "php-mbstring", "php-xml"]
_MEDIAWIKI += ["php-intl", "php-apcu"]
BY_PROXY = ("mediawiki",)
"""Those whose recipe is a setting of Tidegate's."""

PER_REQUEST = ("mediawiki",)
"""Those that connect anew for each request."""

_AUTHENTICATION = "cryptography==46.0.3"  # PyMySQL's, where there is no TLS


def served(framework: str, lines: str, environment: dict[str, str]) -> str:
    """What a framework's application prints that has these lines of its own.

    Raises:
        RuntimeError: what it runs on has to be installed first.
        subprocess.CalledProcessError: it failed; what it printed was printed.
    """
    environment = {f"RECIPE_{framework}": lines, **environment}
    if framework in _PYTHON:
        return _python(framework, environment)
    if framework in _NODE:
        return _node(framework, environment)
    if framework == "rails":
        return _installed("ruby", _RUBY, "rails_app.rb", environment)
    if framework == "mediawiki":
        debian.install(_MEDIAWIKI)
        program = str(INSIDE / "mediawiki_app.py")
        return quietly(
            sys.executable, program, extra={**environment, "SITE_PORT": str(reserve_port())}
        )
    if framework == "laravel":
        return _installed("php", _PHP, "laravel_app.php", environment)
    return _java(lines, environment)


def _python(framework: str, environment: dict[str, str]) -> str:
    here = Environment(f"pages-{framework}")
    here.install(*_PYTHON[framework], _AUTHENTICATION)
    program = INSIDE / f"{framework}_app.py"
    return quietly(str(here.python), str(program), extra=environment, cwd=here.folder)


def _node(framework: str, environment: dict[str, str]) -> str:
    here = Environment(f"pages-{framework}")
    here.install(versions.NODE)
    programs = here.python.parent
    path = f"{programs}:{os.environ['PATH']}"
    modules = here.folder / "node_modules"
    if not (modules / framework).exists():
        install = [str(programs / "npm"), "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        quietly(*install, "--prefix", str(here.folder), *_NODE[framework], extra={"PATH": path})
    return quietly(
        str(programs / "node"),
        str(INSIDE / f"{framework}_app.cjs"),
        extra={**environment, "NODE_PATH": str(modules), "PATH": path},
        cwd=here.folder,
    )


def _installed(
    interpreter: str, packages: list[str], program: str, environment: dict[str, str]
) -> str:
    debian.install(packages)
    return quietly(
        shutil.which(interpreter) or interpreter, str(INSIDE / program), extra=environment
    )


def _java(lines: str, environment: dict[str, str]) -> str:
    debian.install(_JAVA)
    if shutil.which("javac") is None:
        debian.install(["default-jdk-headless"])
    here = Environment("pages-spring")
    here.folder.mkdir(parents=True, exist_ok=True)
    source = here.folder / "Program.java"
    source.write_text((INSIDE / "spring_app.java").read_text().replace("RECIPE\n", lines))
    jars = ":".join(f"/usr/share/java/{name}.jar" for name in _JARS)
    quietly("javac", "-cp", jars, "-d", str(here.folder), str(source))
    return quietly("java", "-cp", f"{here.folder}:{jars}", "Program", extra=environment)

"""Imports go one way, proxy -> routing -> protocol, and the lower two do no I/O."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MAY_IMPORT = {
    "protocol": {"protocol"},
    "routing": {"routing", "protocol"},
    "proxy": {"proxy", "routing", "protocol"},
    "mysql_mocker": {"mysql_mocker", "protocol"},
    "spark_jobs": {"spark_jobs"},
}

COMMANDS = {
    # Commands of the program that run another part of the project, and import it only then.
    "proxy/cli.py": {"spark_jobs"},
    "proxy/demo.py": {"mysql_mocker"},
}

IMPURE = {
    *("asyncio", "concurrent", "multiprocessing", "queue", "selectors", "signal", "subprocess"),
    *("socket", "socketserver", "ssl", "http", "urllib", "uvloop"),
    *("time", "sched", "random", "secrets", "uuid"),
    *("io", "logging", "os", "pathlib", "shutil", "sys", "tempfile", "threading"),
    *("prometheus_client", "pymysql"),
}

ALLOWED_IMPURE = {
    # Chooses compiled or plain modules, by the environment, before any of them is loaded.
    "protocol/_implementation.py": {"os", "sys"},
}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(source: Path) -> Iterator[tuple[str, int]]:
    """Top-level names that a file imports, wherever in the file, with their lines."""
    for node in ast.walk(ast.parse(source.read_bytes(), source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}:{node.lineno}: relative import"
            yield str(node.module).split(".")[0], node.lineno


def broken_directions(package: str, source: Path) -> list[str]:
    where = source.relative_to(ROOT).as_posix()
    foreign = (
        {*MAY_IMPORT, "tests", "benchmarks"} - MAY_IMPORT[package] - COMMANDS.get(where, set())
    )
    return [f"{where}:{line} imports {name}" for name, line in imports(source) if name in foreign]


def impurities(source: Path) -> list[str]:
    where = source.relative_to(ROOT).as_posix()
    return [
        f"{where}:{line} imports {name}"
        for name, line in imports(source)
        if name in IMPURE - ALLOWED_IMPURE.get(where, set())
    ]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_go_one_way(package: str) -> None:
    assert sources(package)
    assert [
        broken for source in sources(package) for broken in broken_directions(package, source)
    ] == []


@pytest.mark.parametrize("package", ["protocol", "routing"])
def test_protocol_and_routing_are_pure(package: str) -> None:
    assert [found for source in sources(package) for found in impurities(source)] == []


def test_exceptions_are_in_use() -> None:
    for name, modules in ALLOWED_IMPURE.items():
        assert modules <= {found for found, _ in imports(ROOT / name)}


def test_the_walk_sees_every_form_of_import(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        "import os.path, ssl as tls\nfrom socket import socket\ndef f():\n    import asyncio\n"
    )
    assert [name for name, _ in imports(source)] == ["os", "ssl", "socket", "asyncio"]
